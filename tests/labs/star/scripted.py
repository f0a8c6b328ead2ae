"""Runs of STaR with a scripted model and a stand-in for the training."""

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
from labs.training import process
from labs.training.outcome import Options
from tests.fakes.server import ScriptedServer


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
