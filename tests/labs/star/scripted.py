"""Runs of STaR with a scripted model and a stand-in for the training."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.engines.attach import probe
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.protocol import Server
from labs.star import loop
from labs.star.aggregation.constants import LearnConstants
from labs.star.aggregation.loop import LearnLoop
from labs.star.experiment import beginning
from labs.star.record import Record
from labs.training import process
from labs.training.outcome import Options
from tests.fakes.server import ScriptedServer

SMALL: dict[str, Any] = {
    "DATA": "sums_card",
    "LIMIT": 8,
    "ROUNDS": 1,
    "N": 4,
    "K": 2,
    "T": 1,
    "MIX": 0.25,
}


@contextmanager
def scripted(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, results: Path
) -> Iterator[list[Options]]:
    """Let `server` answer all requests, and let trainings copy their model. Yields the list of the
    trainings so far."""
    trainings: list[Options] = []

    @contextmanager
    def served(*_: Any) -> Iterator[Server]:
        probed = probe(server.url, "a test")
        assert probed
        yield probed

    def train(options: Options, say: object) -> dict[str, Any]:
        trainings.append(options)
        options.out.mkdir()
        if options.model.is_dir():
            shutil.copytree(options.model, options.out / "model")
        else:
            shutil.copy(EMBEDDED_GGUF, options.out)
        count = len(options.data.read_text().splitlines())
        return {
            "rows": count,
            "tokens": 9,
            "trained_tokens": 5,
            "seconds": 1.0,
            "first_loss": 2.0,
            "last_loss": 1.0,
        }

    monkeypatch.setattr(loop, "served", served)
    monkeypatch.setattr(process, "train", train)
    monkeypatch.setattr(process, "python_of", str)
    monkeypatch.setenv("RESULTS_DIR", str(results))
    yield trainings
    server.close()


# Learning to aggregate


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


def solution(answer: int) -> str:
    # no step begins with the answer
    return (
        f"The products are added, and 1000.\n{answer + 1000} - 1000 = {answer}\n\\boxed{{{answer}}}"
    )


def learning(label: str, **changes: Any) -> Record:
    config = LearnConstants(**SMALL | changes)
    with beginning("29_learn_to_aggregate", {label: config}, LearnLoop) as begun:
        return begun.run(label, config)
