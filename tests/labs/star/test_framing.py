"""Worked examples (SHOTS) and sentences (ANSWER=text): a scripted model that solves nothing without
examples."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.engines.cards import named
from core.types import Problem
from labs.star import prompts
from labs.star.constants import StarConstants
from labs.star.controls import ControlConstants, Controls
from labs.star.experiment import beginning
from labs.star.record import Record
from tests.fakes.server import ScriptedServer
from tests.labs.star.scripted import scripted

SYSTEM = "You are careful."
SMALL: dict[str, Any] = {
    "DATA": "sums_card",
    "LIMIT": 8,
    "ROUNDS": 1,
    "SYSTEM": SYSTEM,
    "ANSWER": "text",
}


class Sums(ScriptedServer):
    """A model that adds right after worked examples, or with a hint. Of requests without a hint it
    gets half wrong. Without examples it states no answer."""

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        prompt = messages[-1]["content"]
        total = sum(int(a) * int(b) for a, b in re.findall(r"(\d+)\*(\d+)", prompt))
        if len(messages) == 2:  # the system message and the problem
            return "I like sums."
        is_wrong = number % 2 == 0 and "the right answer is" not in prompt
        last = total % 1000 + is_wrong
        more = total + 1000  # so that no step begins with the answer
        return (
            f"The products are added, and 1000.\n{more} - {more - last} = {last}\n\nThe answer is "
            f"{last}."
        )


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Sums]:
    server = Sums()
    with scripted(server, monkeypatch, tmp_path / "results"):
        yield server


def run(*shots: str) -> Iterator[Record]:
    configs = [StarConstants(**SMALL, SHOTS=each) for each in shots]
    with beginning("21_star", {"seed0": configs[0]}) as begun:
        yield from (begun.run("seed0", each) for each in configs)


def test_samples_see_examples_and_training_and_evaluation_do_not(
    sums: Sums, tmp_path: Path
) -> None:
    (found,) = run("2")
    first, second = (each["evaluated"] for each in found.rounds)
    assert (
        first["accuracy"]["value"] == second["accuracy"]["value"] == first["format"]["value"] == 0
    )
    collected = found.rounds[1]["collected"]
    assert collected["kept"]["first"] and collected["kept"]["rationalised"]
    lines = (found.run_folder / "round1" / "traces.jsonl").read_text().splitlines()
    assert len(lines) == 8 == found.rounds[1]["trained"]["rows"]
    for row in map(json.loads, lines):
        assert row["system"] == SYSTEM and re.search(r"\n\nThe answer is \d+\.\Z", row["output"])
        assert (
            row["instruction"].count("The answer is")
            == row["instruction"].count("Find the remainder")
            == 1
        )
        assert "right answer" not in row["instruction"]
    asked = len(sums.asked)
    again = run("2", "3")
    assert next(again).rounds == found.rounds and len(sums.asked) == asked
    assert next(again).head["run"] != found.head["run"]


def test_the_card_chooses_unless_fewshot_has_its_own_prompt() -> None:
    card = named("smollm2")
    assert (StarConstants().of(card).ANSWER, StarConstants().of(card).SHOTS) == ("text", "4")
    assert (
        StarConstants(FEWSHOT="format").of(card).SHOTS,
        StarConstants(SHOTS="1").of(card).SHOTS,
    ) == ("0", "1")
    assert "LIMIT" not in card.constants_of(StarConstants)
    framed: list[dict[str, Any]] = [{"SHOTS": "1"}, {"SYSTEM": "x"}, {"PROMPT": "x.txt"}]
    for constants in framed:
        with pytest.raises(UserError, match=f"{min(constants)}.*FEWSHOT"):
            StarConstants(FEWSHOT="math", **constants)


def test_a_prompt_from_a_file_shows_the_hint() -> None:
    problem = Problem("p", "What is 6*7?", "42", answer_form="text")
    hinted: Any = prompts.collecting(problem, StarConstants(), "42")
    assert "answer is 42" in hinted[-1]["content"] and "answer is 42" in hinted.problem.statement


def test_an_arm_with_an_unknown_constant_is_refused() -> None:
    with pytest.raises(UserError, match="TRYS"):
        Controls({"star": {}, "typo": {"TRYS": 2}}).configs(ControlConstants())


def test_arms_are_chosen_by_name_and_the_first_always_runs() -> None:
    controls = Controls({"star": {}, "no_filter": {"FILTER": 0}, "from_base": {"START": "base"}})
    chosen = controls.configs(ControlConstants(ARMS="from_base", SEED=7))
    assert [type(of) for of in chosen.values()] == [StarConstants] * 2, (
        "the arms' own constants do not identify a run"
    )
    assert [(name, of.START, of.SEED) for name, of in chosen.items()] == [
        ("star", "last", 7),
        ("from_base", "base", 7),
    ]
    with pytest.raises(UserError, match="ARMS.*no_filters"):
        controls.configs(ControlConstants(ARMS="star,no_filters"))
