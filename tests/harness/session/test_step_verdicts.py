"""SCORE=reward with a chat model that answers each step with a word (step_verdicts)."""

import json
import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.engines import queries
from core.engines.protocol import Server
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from harness.scaffolds.reward import COMBINED, UNSCORED
from harness.scaffolds.stepwise import STEPWISE
from tests import conftest
from tests.fakes.server import ScriptedServer
from tests.helpers.rewards import VerdictModel, worth_of
from tests.helpers.runs import TWO, journal_lines, load, timeless

CARD = 'model = "default"\nbase_url = "{url}"\nstep_verdicts = ["+", "-"]\n'
BEAM: dict[str, Any] = {"N": 4, "BEAM": 2, "STEPS": 3, "STEP": "paragraph", "SCORE": "reward"}


def card_of(url: str, folder: Path, more: str = "") -> Path:
    card = folder / "prm.toml"
    card.write_text(CARD.format(url=url) + more)
    return card


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VerdictModel]:
    with closing(VerdictModel()) as model:
        monkeypatch.setenv("SCORER_MODEL", str(card_of(model.url, tmp_path)))
        yield model


def by_hand(problem: str, text: str, between: str) -> list[float]:
    """Compute the scripted scores of the steps of a solution."""
    turns: list[dict[str, str]] = []
    scores = []
    for step in filter(None, map(str.strip, text.split(between))):
        content = step if turns else f"{problem} {step}"
        turns.append({"role": "user", "content": content})
        scores.append(worth_of(turns))
        turns.append({"role": "assistant", "content": "+"})
    return scores


def texts_in(folder: Path, name: str) -> dict[str, str]:
    """Return the answers in the journal by key."""
    lines = map(json.loads, journal_lines(folder, name))
    return {line["key"]: line["completion"].get("answer", "") for line in lines}


@pytest.mark.parametrize("combination", COMBINED)
def test_the_scores_of_a_beam_are_recomputed(
    server: ScriptedServer,
    model: VerdictModel,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    combination: str,
) -> None:
    monkeypatch.setattr(server, "reply", lambda messages, number: f"I add {number}.")
    solve_sync(STEPWISE, TWO, name="beam", STEP_SCORES=combination, **BEAM)
    texts = texts_in(results, "beam")
    scored = 0
    for row, problem in zip(TWO, load(results, "beam")["problems"], strict=True):
        for step in problem["steps"][:-1]:
            for member in step["members"]:
                scores = by_hand(row["problem"], texts[member["key"]], "\n\n")
                expected = COMBINED[combination](scores)
                assert member["self_score"] == pytest.approx(expected)
                scored += 1
    assert scored == 2 * 4 * 3
    assert {len(body["messages"]) for body in model.asked} == {1, 3, 5}


def test_a_missing_score_is_noted_and_only_one_token_a_step_is_written(
    server: ScriptedServer,
    tmp_path: Path,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    hurried: None,
) -> None:
    def write(messages: list[dict[str, str]], number: int) -> str:
        return f"I add{' silently' * (number % 2)}.\n\nIt is \\boxed{{{number % 3}}}."

    monkeypatch.setattr(server, "reply", write)
    with closing(VerdictModel(silent="silently")) as model:
        monkeypatch.setenv("SCORER_MODEL", str(card_of(model.url, tmp_path)))
        solve_sync(BEST_OF, TWO, name="best", N=4, SCORE="reward", CONCURRENCY=1)
    document = load(results, "best")
    silent = sum("silently" in text for text in texts_in(results, "best").values())
    assert 0 < silent < 8
    assert document["metrics"]["notes"] == {UNSCORED: silent}
    scorer = document["metrics"]["scorer"]
    assert (scorer["failed"], scorer["tokens"]["completion"]) == (silent, 2 * (8 - silent))
    assert document["scorer"]["model"]["reported"]["step_verdicts"] == '["+", "-"]'


def test_killed_and_run_again_a_beam_ends_as_undisturbed(
    server: ScriptedServer,
    model: VerdictModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "reply", lambda messages, number: f"Step {number}.")
    problems = tmp_path / "problems.json"
    problems.write_text(json.dumps(TWO))
    words = (f"PROBLEMS={problems}", "CONCURRENCY=1", *(f"{k}={v}" for k, v in BEAM.items()))
    server.life = 12
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    process = conftest.start("28_stepwise", *words, RESULTS_DIR=str(disturbed), BASE_URL=server.url)
    server.kill(process)
    before = len(model.asked)
    assert before
    counts = []
    for folder in (disturbed, whole):
        status, _, err = conftest.run(
            "28_stepwise", *words, RESULTS_DIR=str(folder), BASE_URL=server.url
        )
        assert status == 0, err
        counts.append(len(model.asked))
    first, second = (
        timeless(load(folder, "28_stepwise")["problems"]) for folder in (disturbed, whole)
    )
    assert first == second
    undisturbed = counts[1] - counts[0]
    assert undisturbed <= counts[0] < undisturbed + before, "finished scores are not asked again"


def test_its_price_counts_the_prompts_of_all_steps(
    server: ScriptedServer, tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = "[price]\nread = 1.0\nwritten = 10.0\non = 2026-11-23\n"
    own = tmp_path / "model.toml"
    own.write_text(f'model = "scripted"\nbase_url = "{server.url}"\n{price}')
    with closing(VerdictModel()) as model:
        monkeypatch.delenv("BASE_URL")
        monkeypatch.setenv("MODEL", str(own))
        monkeypatch.setenv("SCORER_MODEL", str(card_of(model.url, tmp_path, price)))
        solve_sync(BEST_OF, TWO, name="best", N=2, SCORE="reward", MAX_DOLLARS=1)
        asked = len(model.asked)
    scorer = load(results, "best")["metrics"]["scorer"]
    tokens = scorer["tokens"]
    assert tokens["completion"] == asked
    dollars = (tokens["prompt"] + 10 * tokens["completion"]) / 1e6
    assert scorer["cost"] == pytest.approx(dollars)


def test_a_card_that_can_give_no_verdicts_is_refused(
    server: ScriptedServer, model: VerdictModel, tmp_path: Path
) -> None:
    for more, words in (('never = ["logprobs"]', "logprobs"), ('step_mark = "x"', "step_mark")):
        card_of(model.url, tmp_path, more)
        with pytest.raises(UserError, match=words):
            solve_sync(BEST_OF, TWO, N=2, SCORE="reward")
    assert not (server.asked or model.asked)


def test_the_embedded_model_scores_steps_as_its_server_lists_probabilities(
    engine: Server, tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("4", "7")
    card = tmp_path / "prm.toml"
    card.write_text(f'base_url = "{engine.base_url}"\nstep_verdicts = {json.dumps(words)}\n')
    with closing(ScriptedServer()) as writer:
        monkeypatch.setattr(writer, "reply", lambda _, n: f"{n % 9}*7.\n\n\\boxed{{{n % 3}}}")
        monkeypatch.setenv("BASE_URL", writer.url)
        monkeypatch.setenv("SCORER_MODEL", str(card))
        solve_sync(BEST_OF, TWO[:1], name="best", N=2, SCORE="reward", STEP_SCORES="last")
    texts = texts_in(results, "best")
    (problem,) = load(results, "best")["problems"]
    for member in problem["steps"][1]["members"]:
        first, last = texts[member["key"]].split("\n\n")
        turns = [
            {"role": "user", "content": f"{TWO[0]['problem']} {first}"},
            {"role": "assistant", "content": words[0]},
            {"role": "user", "content": last},
        ]
        body = {"model": engine.model, "messages": turns, "max_tokens": 1, "temperature": 1}
        body |= {"logprobs": True, "top_logprobs": 20, "top_k": 0, "min_p": 0}
        address = f"{engine.base_url}/chat/completions"
        page = json.loads(queries.send(address, body=body, seconds=60))
        listed = page["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        masses = dict.fromkeys(words, 0.0)
        for row in listed:
            if row["token"].strip() in masses:
                masses[row["token"].strip()] += math.exp(row["logprob"])
        expected = masses["4"] / sum(masses.values())
        assert 0 < expected < 1
        assert member["self_score"] == pytest.approx(expected, abs=1e-5)
