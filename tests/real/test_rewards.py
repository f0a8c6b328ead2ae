"""Score solutions with tiny reward models of random weights, on vLLM and SGLang on a CPU.
transformers computes the same scores from the same weights."""

import json
import math
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.engines import process
from core.engines.attach import probe
from core.engines.protocol import Server
from core.types import Message, Sampling
from tests.conftest import ROOT
from tests.real import tiny_rewards
from tests.real.conftest import (
    FIGURES,
    FLAGS,
    SETTINGS,
    SGLANG_FLAGS,
    SGLANG_SETTINGS,
    SGLANG_VENV,
    START_SECONDS,
    VENV,
    ask,
    members,
    run,
)
from tests.real.tiny_rewards import MARK

pytestmark = pytest.mark.engines
SOLUTIONS = ("9*15 is 135.\n\nSo \\boxed{135}.", "It is \\boxed{7}.", "a\n\nb\n\nc")


def conversation(solution: str) -> list[Message]:
    question = "Find the remainder when 9*15 is divided by 1000."
    return [{"role": "user", "content": question}, {"role": "assistant", "content": solution}]


def by_transformers(folder: Path, solutions: list[str]) -> list[list[float]]:
    sent = json.dumps([conversation(solution) for solution in solutions])
    command = [str(VENV / "python"), tiny_rewards.__file__, str(folder)]
    done = subprocess.run(command, input=sent, capture_output=True, text=True, check=True)
    scores: list[list[float]] = json.loads(done.stdout)
    return scores


def reward_model(kind: str, tokenizer: Path, place: Path) -> Path:
    """Make a reward model in `place`, and return its folder."""
    folder = place / kind
    maker = [str(VENV / "python"), tiny_rewards.__file__, kind, str(tokenizer), str(folder)]
    subprocess.run(maker, check=True)
    return folder


@contextmanager
def served(kind: str, port: int, model: Path, place: Path) -> Iterator[Server]:
    """Serve the reward model in the folder `model` with vLLM."""
    command = ["nice", "-n", "19", str(VENV / "python"), "-m", "vllm.entrypoints.cli.main"]
    command += ["serve", str(model), "--served-model-name", kind, "--port", str(port)]
    command += ["--runner", "pooling", "--max-num-seqs", "8", *FLAGS.split()]
    if kind == "process":
        tokens = json.loads((model / "tokenizer.json").read_text())["added_tokens"]
        (mark,) = [token["id"] for token in tokens if token["content"] == MARK]
        pooler = {"pooling_type": "STEP", "step_tag_id": mark}
        command += ["--pooler-config", json.dumps(pooler)]
    with started("vllm", command, port, place, SETTINGS) as server:
        yield server


@contextmanager
def started(
    engine: str, command: list[str], port: int, place: Path, settings: dict[str, str]
) -> Iterator[Server]:
    with process.running(engine, command, port, place / "log", settings) as running:

        def ready() -> Server | None:
            return probe(f"http://127.0.0.1:{port}/v1", "it was started for the tests")

        yield running.wait_until(ready, START_SECONDS)


def test_an_outcome_model_chooses(folder: Path, engine: Server, tmp_path: Path) -> None:
    model = reward_model("outcome", folder, tmp_path)
    expected = by_transformers(model, list(SOLUTIONS))
    with served("outcome", 29861, model, tmp_path) as server:
        for solution, scores in zip(SOLUTIONS, expected, strict=True):
            request = (conversation(solution), 0, Sampling(reward="\n\n"))
            (completion,) = ask(server, tmp_path, [request])
            assert completion.scores == pytest.approx(scores, abs=1e-4)
            assert completion.counted[2] == 0 and (completion.counted[0] or 0) > 20
        document = chosen_by(server, engine, tmp_path)
    scores_seen = {m["self_score"] for m in members(document) if "self_score" in m}
    assert len(scores_seen) > 1 and document["metrics"]["scorer"]["failed"] == 0
    FIGURES.append(f"vLLM's outcome reward model: {expected}")


def chosen_by(server: Server, engine: Server, folder: Path) -> dict[str, Any]:
    """Return the results of a run whose solutions the reward model of `server` scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCORER_URL", server.base_url)
        return run("13_best_of", folder, engine, "LIMIT=2", "N=2", "MAX_TOKENS=300", "SCORE=reward")


def test_a_process_model_scores_each_step(folder: Path, tmp_path: Path) -> None:
    model = reward_model("process", folder, tmp_path)
    marked = ["".join(f"{step}{MARK}" for step in text.split("\n\n")) for text in SOLUTIONS]
    expected = by_transformers(model, marked)
    with served("process", 29863, model, tmp_path) as server:
        server = replace(server, card=replace(server.card, step_mark=MARK))
        assert [len(scores) for scores in expected] == [2, 1, 3]
        for solution, scores in zip(SOLUTIONS, expected, strict=True):
            request = (conversation(solution), 0, Sampling(reward="\n\n"))
            (completion,) = ask(server, tmp_path, [request])
            assert completion.scores == pytest.approx(scores, abs=1e-4)
    FIGURES.append(f"vLLM's process reward model: {expected}")


def test_sglang_gives_the_logit_of_an_outcome_model(folder: Path, tmp_path: Path) -> None:
    if not (SGLANG_VENV / "python").exists():
        pytest.fail("SGLang is not installed: bash scripts/test.sh engines")
    model = reward_model("outcome", folder, tmp_path)
    expected = by_transformers(model, list(SOLUTIONS))
    serve = (
        f"PYTHONPATH={ROOT}/tests/real/standins exec nice -n 19 {SGLANG_VENV}/python -m "
        f"sglang.launch_server --model-path {model} --served-model-name outcome --port 29865 "
        f"--is-embedding {SGLANG_FLAGS}"
    )
    command = ["bash", "-c", serve]
    with started("sglang", command, 29865, tmp_path, SGLANG_SETTINGS) as server:
        for solution, (score,) in zip(SOLUTIONS, expected, strict=True):
            request = (conversation(solution), 0, Sampling(reward="\n\n"))
            (completion,) = ask(server, tmp_path, [request])
            (logit,) = completion.scores
            assert 1 / (1 + math.exp(-logit)) == pytest.approx(score, abs=1e-4)
            assert (completion.counted[0] or 0) > 20
