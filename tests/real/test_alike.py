"""Test that vLLM and SGLang, started by us, answer like llama.cpp with the same weights."""

from pathlib import Path

import pytest

from core import prompts
from core.engines.protocol import Server
from core.types import Sampling
from tests.real.conftest import FIGURES, SUMS, ask, members, run

pytestmark = pytest.mark.engines


@pytest.fixture(params=["vllm", "sglang"])
def on_gpu(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def test_greedy_answers_are_llama_cpps(on_gpu: Server, engine: Server, tmp_path: Path) -> None:
    greedy = Sampling(temperature=0, max_tokens=300)
    requests = [(prompts.solve(problem), 1, greedy) for problem in SUMS[:12]]
    requests += [(prompts.aggregate(SUMS[0], ["\\boxed{1}", "\\boxed{2}"]), 1, greedy)]
    there, here = ask(on_gpu, tmp_path, requests), ask(engine, tmp_path, requests)
    equal = sum(
        (a.thinking, a.answer) == (b.thinking, b.answer) for a, b in zip(there, here, strict=True)
    )
    FIGURES.append(f"{on_gpu.kind}, greedy: {equal} of {len(requests)} completions are llama.cpp's")
    assert equal == len(requests)
    assert [c.prompt_tokens for c in there] == [c.prompt_tokens for c in here]
    assert all(c.thinking and c.answer and c.error is None for c in there)


def test_answers_are_forced_as_on_llama_cpp(on_gpu: Server, engine: Server, tmp_path: Path) -> None:
    """Decode greedily, so that equal thinking precedes the forced answers."""
    constants = ("LIMIT=6", "N=2", "TEMPERATURE=0", "MAX_TOKENS=24", "ANSWER_TOKENS=24")
    there = run("01_baseline", tmp_path / on_gpu.kind, on_gpu, *constants)
    here = run("01_baseline", tmp_path / "llama.cpp", engine, *constants)
    assert "not_forced" not in there["metrics"]
    theirs, ours = (
        [(m["answer"], m.get("unforced"), m["completion_tokens"]) for m in members(results)]
        for results in (there, here)
    )
    forced = sum(unforced is not None for _, unforced, _ in theirs)
    FIGURES.append(
        f"{on_gpu.kind}, 01 with forcing: {forced} of {len(theirs)} forced, all as on llama.cpp"
    )
    assert theirs == ours and forced > 6
