"""What tests of training share: the interpreter that trains, and rows to train on."""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from core.engines.protocol import Server
from labs.demo.sums import Terms, draw_terms, statement
from labs.demo.texts import products, solution
from tests.conftest import ROOT, environment

PYTHON = Path(os.environ.get("TRAIN_PYTHON", ROOT / ".venv-train" / "bin" / "python"))
needed = pytest.mark.skipif(
    not (PYTHON.parent.parent / ".installed-requirements-train").is_file()
    and "TRAIN_PYTHON" not in os.environ,
    reason="no .venv-train: bash setup.sh train",
)


# What the embedded model is given for a sum.
SUM = (
    "<|im_start|>user\n"
    "Find the remainder when 7*43 + 6*58 is divided by 1000.<|im_end|>\n"
    "<|im_start|>assistant\n"
    "<think>\n"
)


def record(folder: Path) -> dict[str, Any]:
    """Read the record of a training."""
    found: dict[str, Any] = json.loads((folder / "train.json").read_text())
    return found


def rows(count: int, terms: int = 3, seed: int = 5) -> list[dict[str, str]]:
    """Sums worked out rightly, carries and all; the last line is in words that the embedded model
    never met."""
    rng = random.Random(seed)
    built = []
    for _ in range(count):
        drawn = Terms(draw_terms(rng, terms))
        values = [term.digit * term.number for term in drawn]
        worked = solution(drawn, values).rpartition("\n")[0]
        reply = (
            f"<think>\n{products(drawn, values)}\n</think>\n\n{worked}\nFinal: {sum(values) % 1000}"
        )
        built.append({"instruction": statement(drawn), "input": "", "output": reply, "round": "1"})
    return built


def write(path: Path, lines: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    return path


def run(program: str, *args: object, **more: Any) -> "subprocess.CompletedProcess[str]":
    """A program of Python, where torch is."""
    command = [str(PYTHON), "-c", program, *map(str, args)]
    return subprocess.run(
        command, env=environment(), cwd=ROOT, capture_output=True, text=True, **more
    )


def completed(server: Server, prompt: str, tokens: int) -> str:
    """What the model says behind `prompt` at temperature 0, up to so many tokens."""
    asked = {"model": server.model, "prompt": prompt, "temperature": 0, "max_tokens": tokens}
    request = Request(f"{server.base_url}/completions", json.dumps(asked).encode())
    with urlopen(request) as reply:  # the package openai takes a second to load
        return str(json.load(reply)["choices"][0]["text"])
