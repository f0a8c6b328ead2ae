"""RSA as its paper's code runs it: settings, words, and prompts that the report shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from core import constants
from core.base import seeds
from core.report import page, texts
from core.results.data import archive
from core.scaffolds import experiment_file, rsa_paper
from tests import conftest
from tests.fakes.server import ScriptedServer

SIZES: dict[str, Any] = {"N": 6, "K": 4, "T": 2, "CARRY": "full"}


def test_its_settings_are_those_of_the_papers_code() -> None:
    whole = constants.read(rsa_paper.Constants, experiment_file.load("16_rsa_paper").namespace)
    assert (whole.N, whole.K, whole.T + 1, whole.CARRY, whole.ORDER) == (16, 4, 10, "full", "random")
    assert (whole.TEMPERATURE, whole.TOP_P, whole.TOP_K, whole.MIN_P) == (1.0, 1.0, 0, 0.0)
    assert (whole.MAX_TOKENS, whole.ANSWER_TOKENS) == (8192, 0)


def sent(server: ScriptedServer) -> dict[int, str]:
    """The prompts a server was sent, by seed."""
    bodies = [json.loads(body) for body in server.asked]
    return {body["seed"]: body["messages"][-1]["content"] for body in bodies}


def kept(told: page.Run, number: int) -> dict[str, str]:
    """The prompts of a problem, as the page has them, by "step,member"."""
    with archive(told.path, told.head.experiment) as journals:
        found = texts.of_problem(told.problems[number], journals)
    steps = told.problems[number].steps
    sent = {
        f"{t},{i}": texts.messages_of(found, t, i) for t, step in enumerate(steps) for i in range(len(step.members))
    }
    return {at: messages[0]["content"] for at, messages in sent.items() if messages}


@pytest.mark.parametrize(
    ("name", "constants_given"), [("02_rsa_basic", ["ORDER=shared", "K=3"]), ("16_rsa_paper", ["CARRY=full"])]
)
def test_the_report_shows_every_prompt_as_the_server_was_sent_it(
    name: str, constants_given: list[str], tmp_path: Path
) -> None:
    problems = tmp_path / "problems.json"
    problems.write_text(json.dumps([{"id": f"p{i}", "problem": f"What is {i}?", "answer": "1"} for i in range(2)]))
    server = ScriptedServer()
    try:
        asked = [f"PROBLEMS={problems}", "N=5", "T=2", *constants_given]
        status, _, err = conftest.run(name, *asked, BASE_URL=server.url, RESULTS_DIR=str(tmp_path))
        assert status == 0, err
    finally:
        server.close()
    told, was_sent = page.read(tmp_path / f"{name}.json"), sent(server)
    for number in range(2):
        expected = {f"{t},{i}": was_sent[seeds.derive(0, f"p{number}", t, i)] for t in range(3) for i in range(5)}
        assert kept(told, number) == expected
