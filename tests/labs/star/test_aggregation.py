"""Learning to aggregate: the rows to train on, the guard against copied answers, the arms, and runs
that can't train. A scripted model answers, and a stand-in trains."""

import asyncio
import json
import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from core import constants
from core.base.errors import RunFailed, UserError
from core.engines.cards import NONE
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.types import Completion, Problem
from harness import experiment_file
from harness.report.report import main
from labs.star import report, traces
from labs.star.aggregation.balance import chosen
from labs.star.aggregation.constants import LearnConstants
from labs.star.aggregation.loop import LearnLoop
from labs.star.collect import judged
from labs.star.experiment import beginning
from labs.star.hints import mentions_candidate
from labs.star.record import AGGREGATED, FIRST, Record
from labs.star.record import read as read_record
from labs.star.traces import Trace, read
from labs.training.stages import NAME
from labs.training.to_hf import convert
from tests.fakes.server import ScriptedServer
from tests.labs.star.helpers import learnt
from tests.labs.star.scripted import scripted

SMALL: dict[str, Any] = {
    "DATA": "sums_card",
    "LIMIT": 8,
    "ROUNDS": 1,
    "N": 4,
    "K": 2,
    "T": 1,
    "MIX": 0.25,
}
PROBLEM = Problem("p", "What is 6*7?", "42")


# The guard


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("6*7 = 42\nSo it is 42.\n\\boxed{42}", ""),
        ("Candidate 1 gives 41, and candidate 2 gives 42.\n6*7 = 42\n\\boxed{42}", ""),
        ("Candidate 2 states the reference 42.\nSo it is 42.\n\\boxed{42}", "answer first"),
        ("Candidate 2 states the reference 42.\nI agree with it.\n\\boxed{42}", "answer first"),
        ("Candidate 1 is right: 42.\nCandidate 2 is wrong.\n\\boxed{42}", "answer first"),
        ("The reference answer is 42.\n6*7 = 42\n\\boxed{42}", "answer first"),
        ("As stated, the answer is 42.\n6*7 = 42\n\\boxed{42}", "answer first"),
        ("Candidate 1 is wrong.\nCandidate 2 is right.\n\\boxed{42}", "answer first"),
        ("2. Candidate 2 is right.\nI agree.\n\\boxed{42}", "answer first"),
        ("Candidate 2 is right.\nI agree.\nSo 6*7 = \\boxed{42}", ""),
        ("Candidate 2 is right.\n\\boxed{42}", "too few steps"),
        ("6*7 = 41\nSo it is 41.\n\\boxed{41}", "wrong"),
        ("6*7 = 42 <|im_end|>\nSo it is 42.\n\\boxed{42}", "chat tags"),
        ("\\boxed{41} is what candidate 1 says.\n6*7 = 42\n\\boxed{42}", "several finals"),
    ],
)
def test_an_aggregation_reaches_its_answer_by_a_step_of_its_own(text: str, reason: str) -> None:
    assert dropped(text) == reason


def test_leaks_in_thinking_are_found_and_wrong_aggregations_pass_only_without_filter() -> None:
    text = "6*7 = 42\nSo it is 42.\n\\boxed{42}"
    assert dropped(text, thinking="The reference is 42.") == "answer first"
    assert dropped(text, thinking="Candidate 1 has 41, I compute: 6*7 = 42") == ""
    wrong = "6*7 = 41\nSo it is 41.\n\\boxed{41}"
    assert dropped(wrong, FILTER=0) == ""
    assert dropped("\\boxed{41}", FILTER=0) == "too few steps"


def dropped(text: str, thinking: str = "", **changes: Any) -> str:
    completion = Completion("k", 0, thinking, text, finish_reason="stop")
    config = LearnConstants(**changes)
    return asyncio.run(judged(PROBLEM, completion, AGGREGATED, unasked, config)).dropped


async def unasked(*_: Any, **__: Any) -> Completion:
    raise AssertionError("nothing is asked to judge an answer")


# The rows


def pool(*groups: int, plain: int = 0, round_: int = 1) -> list[Trace]:
    """Return traces: `groups` has the number of aggregations with 0, 1, … right parents, each of
    another problem."""
    rows = []
    for right, count in enumerate(groups):
        rows += [trace(f"{right}-{i}", AGGREGATED, round_, right) for i in range(count)]
    return rows + [trace(f"plain-{i}", FIRST, round_, None) for i in range(plain)]


def trace(problem: str, way: Any, round_: int, right: int | None) -> Trace:
    return Trace(problem, round_, way, f"{problem}-{round_}", "?", "!", "", right)


def counts(rows: list[Trace]) -> dict[int | None, int]:
    return dict(Counter(row.right_parents for row in rows))


def test_rows_are_balanced_by_their_right_parents_and_shares_hold() -> None:
    rows = pool(50, 30, 10, 2, plain=50)
    found = counts(chosen([rows], LearnConstants(MIX=0.5, NO_RIGHT=0.2), 1))
    assert found == {1: 14, 2: 10, 3: 2, 0: 6, None: 32}
    assert counts(chosen([rows], LearnConstants(MIX=0, NO_RIGHT=0), 1)) == {1: 14, 2: 10, 3: 2}
    assert counts(chosen([rows], LearnConstants(MIX=1), 1)) == {None: 50}
    assert chosen([pool(9, plain=9)], LearnConstants(), 1) == [], "nothing has a right parent"


def test_a_problem_gives_one_row_of_each_kind_from_the_newest_round() -> None:
    first = [trace("p", AGGREGATED, 1, 1), trace("p", FIRST, 1, None), trace("q", FIRST, 1, None)]
    second = [
        trace("p", AGGREGATED, 2, 1),
        trace("p", AGGREGATED, 2, 2),
        trace("p", FIRST, 2, None),
    ]
    config = LearnConstants(MIX=0.5)
    rows = {
        (row.problem, row.right_parents, row.round) for row in chosen([first, second], config, 2)
    }
    assert rows == {("p", 1, 2), ("p", 2, 2), ("p", None, 2), ("q", None, 1)}
    assert chosen([first, second], config, 2) == chosen([first[::-1], second[::-1]], config, 2)


def test_the_number_of_right_parents_is_stored_also_if_it_is_0(tmp_path: Path) -> None:
    rows = [trace("p", AGGREGATED, 1, 0), trace("p", FIRST, 1, None)]
    traces.write(tmp_path / "rows.jsonl", rows)
    assert read(tmp_path / "rows.jsonl") == rows
    stored = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert stored[0]["right_parents"] == 0 and "right_parents" not in stored[1]


# Constants


@pytest.mark.parametrize(
    "overrides",
    ["TRIES=2", "VOTES=2", "RATIONALISE=1", "FEWSHOT=format", "K=9", "K=1", "TEMPERATURE=0"],
)
def test_constants_without_an_effect_or_out_of_range_are_refused(overrides: str) -> None:
    with pytest.raises(UserError, match=overrides.partition("=")[0]):
        constants.read(LearnConstants, {}, overrides.split())


def test_the_plan_counts_samples_aggregations_and_votes() -> None:
    found: Any = experiment_file.load("29_learn_to_aggregate")
    small = ("LIMIT=6", "N=4", "K=2", "T=2", "ROUNDS=2", "SEEDS=63-64", "EVAL=sums_star_eval")
    config = constants.read(found.planned.constants, found.namespace, small)
    requests = found.planned.work(config, NONE).requests
    evaluated = 3 * 6 * 2
    assert [each.count for each in requests] == [
        2 * 6 * 4,
        2 * 6 * 4 * 2,
        3 * 6,
        evaluated * 4,
        evaluated * 4 * 2,
        evaluated * 4 * 2,
    ]


# Runs


class Model(ScriptedServer):
    """A model that solves every other problem in half of its samples. Of candidates it takes the
    first. `reply_of` may replace its replies."""

    rate = 2  # every second sample is right

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        prompt = messages[-1]["content"]
        statement = prompt.partition("candidate")[0]
        total = sum(int(a) * int(b) for a, b in re.findall(r"(\d+)\*(\d+)", statement)) % 1000
        boxes = re.findall(r"boxed\{(\d+)\}", prompt)
        if "Candidate 1:" in prompt and boxes:
            return solution(int(boxes[0]))
        return solution(total + int(number % self.rate > 0))


class Wrong(Model):
    """A model whose aggregations are always wrong."""

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        if "Candidate 1:" in messages[-1]["content"]:
            return solution(7777)
        return super().reply(messages, number)


class Copying(Model):
    """A model whose aggregations copy a candidate that states the reference."""

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        box = re.search(r"boxed\{(\d+)\}", messages[-1]["content"].partition("Candidate 1:")[2])
        if not box:
            return super().reply(messages, number)
        copied = f"Candidate 1 states the reference {box[1]}.\nI agree with it."
        return f"{copied}\n\\boxed{{{box[1]}}}"


class Quoting(Model):
    """A model that mentions a candidate in every other aggregation."""

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        text = super().reply(messages, number)
        is_aggregation = "Candidate 1:" in messages[-1]["content"]
        return f"I agree with Candidate 1.\n{text}" if is_aggregation and number % 2 else text


class Right(Model):
    """A model that is always right."""

    rate = 1


def solution(answer: int) -> str:
    # no step begins with the answer
    return (
        f"The products are added, and 1000.\n{answer + 1000} - 1000 = {answer}\n\\boxed{{{answer}}}"
    )


def run(label: str, **changes: Any) -> Record:
    config = LearnConstants(**SMALL | changes)
    with beginning("29_learn_to_aggregate", {label: config}, LearnLoop) as begun:
        return begun.run(label, config)


def test_rows_have_the_prompts_that_were_asked_and_arms_share_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Model()
    with scripted(server, monkeypatch, tmp_path):
        learn = run("learn-seed0")
        asked = len(server.asked)
        assert run("learn-seed0").rounds == learn.rounds and len(server.asked) == asked
        plain = run("plain-seed0", MIX=1)
        unfiltered = run("no_filter-seed0", FILTER=0)
        distilled = run("distilled-seed0", TEACH="solve")
        # the same model answers after each training, so every request was sent before
        assert len(server.asked) == asked
        run("learn-seed0")
    out = capsys.readouterr().out
    rows = read(learn.run_folder / "round1" / "traces.jsonl")
    ways = Counter(row.way for row in rows)
    assert ways[AGGREGATED] and ways[FIRST] == round(ways[AGGREGATED] / 3)
    for row in rows:
        shows = row.instruction.count("Candidate ")
        assert shows == (2 if row.way == AGGREGATED else 0)
    plain_rows = read(plain.run_folder / "round1" / "traces.jsonl")
    assert {row.way for row in plain_rows} == {FIRST}
    assert not any("Candidate" in row.instruction for row in plain_rows)
    taught = read(distilled.run_folder / "round1" / "traces.jsonl")
    assert {row.way for row in taught} == {AGGREGATED}
    assert not any("Candidate" in row.instruction for row in taught)
    wrong = read(unfiltered.run_folder / "round1" / "collected.jsonl")
    assert len(wrong) > len(read(learn.run_folder / "round1" / "collected.jsonl"))
    for text in ("before", "learn", "plain", "no_filter", "distilled", "minus first arm", "1 of 2"):
        assert text in out
    assert "trained tokens" in out and "reply tokens" in out
    assert learn.rounds[0]["evaluated"]["tokens"] == all_tokens(learn, 0)
    figures = learn.rounds[1]["evaluated"]["rsa"]
    assert [step["step"] for step in figures["steps"]] == [0, 1]
    assert figures["gain"]["difference"] == 0 and figures["gain"]["n"] == 8
    assert sum(row["aggregations"] for row in figures["transitions"]) == 8 * 4


def all_tokens(found: Record, number: int) -> int:
    """Return the completion tokens of an evaluation. Each completion counts once, by its key."""
    evaluated = found.rounds[number]["evaluated"]
    names = [evaluated["greedy"], *chain.from_iterable(evaluated["rsa"]["files"].values())]
    tokens = {}
    for name in names:
        for problem in json.loads((found.folder / f"{name}.json").read_text())["problems"]:
            for step in problem["steps"]:
                for member in step["members"]:
                    if not member.get("carried_over"):
                        tokens[member["key"]] = member["completion_tokens"]
    return sum(tokens.values())


def test_several_seeds_are_averaged_and_the_report_has_tables_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted(Model(), monkeypatch, tmp_path):
        found = run("learn-seed0", SEEDS="63-64")
        run("learn-seed1", SEEDS="63-64", SEED=1)
    figures = found.rounds[0]["evaluated"]["rsa"]
    assert [len(names) for names in figures["files"].values()] == [2, 2]
    assert figures["steps"][1]["mean"]["n"] == 8
    assert sum(row["aggregations"] for row in figures["transitions"]) == 2 * 8 * 4
    capsys.readouterr()
    # a run that has only evaluated the model before
    changed = json.loads((found.folder / "learn-seed1" / "record.json").read_text())
    changed["rounds"] = changed["rounds"][:1]
    (found.folder / "learn-seed2").mkdir()
    (found.folder / "learn-seed2" / "record.json").write_text(json.dumps(changed))
    main(["29_learn_to_aggregate", "--markdown"])
    out = capsys.readouterr().out
    assert "| learn | 2 |" in out and "**right aggregations, by their candidates" in out
    page = tmp_path / "page.html"
    main(["29_learn_to_aggregate", "--out", str(page)])
    assert "one sample minus before" in page.read_text()
    names = {path.stem for path in report.results(found.folder)}
    assert {f"learn-seed0-round1{kind}" for kind in ("", "-rsa", "-vote")} <= names


def test_without_counted_tokens_the_vote_is_unknown(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = learnt(results, counted=False)
    evaluated = read_record(folder / "learn-seed0" / NAME).rounds[1]["evaluated"]
    for step in evaluated["rsa"]["steps"]:
        assert step["vote"] is None and step["minus_vote"] is None
        assert step["majority"]["value"] > 0
    main([folder.name, "--markdown"])
    first = capsys.readouterr().out.partition("| learn |")[2].splitlines()[0]
    assert first.split(" | ")[3:5] == ["-", "-"]


def test_lora_continues_from_the_adapter_of_the_round_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(EMBEDDED_GGUF, tmp_path / "base")
    monkeypatch.setenv("MODEL", str(tmp_path / "base"))
    with scripted(Model(), monkeypatch, tmp_path) as trainings:
        found = run("learn-seed0", ROUNDS=2)
    assert [training.model.name for training in trainings] == ["base", "base"]
    assert [training.lora_rank for training in trainings] == [16, 16]
    adapter = found.run_folder / "round1" / "trained" / "adapter"
    assert [training.adapter for training in trainings] == [None, adapter]


def test_distilled_rows_mention_no_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted(Quoting(), monkeypatch, tmp_path):
        learn = run("learn-seed0")
        distilled = run("distilled-seed0", TEACH="solve")
    taught = [row.output for row in read(learn.run_folder / "round1" / "collected.jsonl")]
    assert any("Candidate" in text for text in taught), "prompts of aggregations show candidates"
    rows = [row.output for row in read(distilled.run_folder / "round1" / "collected.jsonl")]
    assert rows and not any("Candidate" in text for text in rows)
    kept, dropped = (distilled.rounds[1]["collected"][name] for name in ("kept", "dropped"))
    assert dropped[AGGREGATED]["mentions a candidate"] == len(taught) - len(rows) - kept[FIRST]
    assert kept[AGGREGATED] == len(rows)


@pytest.mark.parametrize(
    ("statement", "text", "is_mentioned"),
    [
        ("What is 6*7?", "Both candidates agree.\n6*7 = 42", True),
        ("What is 6*7?", "6*7 = 42", False),
        ("Two candidates get 6*7 votes. How many?", "The candidates get 6*7 = 42", False),
    ],
)
def test_a_solution_mentions_a_candidate_unless_the_problem_does(
    statement: str, text: str, is_mentioned: bool
) -> None:
    assert mentions_candidate(text, Problem("p", statement, "42")) == is_mentioned


def test_a_later_round_without_mixed_candidates_trains_on_earlier_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Model()
    with scripted(server, monkeypatch, tmp_path):
        run("learn-seed0")
        server.rate = 1  # the model is always right from now on
        found = run("learn-seed0", ROUNDS=2)
    collected = found.rounds[2]["collected"]
    assert collected["mixed"] == 0 and collected["by_parents"]["1"] and found.head["complete"]


@pytest.mark.parametrize(
    ("model", "words"),
    [(Right, "harder"), (Wrong, "kept no aggregation"), (Copying, "answer first")],
)
def test_a_round_that_can_not_train_says_so_and_keeps_its_replies(
    model: type[Model], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = model()
    with scripted(server, monkeypatch, tmp_path):
        with pytest.raises(RunFailed, match=words) as failed:
            run("learn-seed0")
        assert "\n" not in str(failed.value) and failed.value.status == 1
        asked = len(server.asked)
        with pytest.raises(RunFailed, match=words):
            run("learn-seed0")
        assert len(server.asked) == asked
    folder = tmp_path / "29_learn_to_aggregate"
    assert (folder / "learn-seed0" / "round1" / "collected.jsonl").exists()
    assert (folder / "learn-seed0-round1-collected.json").exists()
