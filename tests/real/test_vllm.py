"""Test vLLM's CPU build under the project's launcher, and compare it with llama.cpp on the same
weights."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from core import prompts
from core.engines.cards import Card
from core.engines.need import MOST_RUNNING
from core.engines.protocol import Server
from core.types import FORCED_ANSWER, Sampling
from harness.scaffolds.verification import p_true
from tests.conftest import python
from tests.fakes.http import Proxy, answer
from tests.helpers.asking import post
from tests.helpers.processes import eventually, is_free
from tests.helpers.runs import journal_lines, load
from tests.real.conftest import FIGURES, SUMS, ask, members, run

pytestmark = pytest.mark.engines


def test_it_is_recognised(vllm: Server) -> None:
    assert (
        vllm.kind == "vllm"
        and vllm.context == 2048
        and vllm.model.startswith("tiny-qwen3-thinking@")
    )
    assert vllm.version == "0.32.0"
    # 1 GiB of float32 keys and values of 3 layers of 2 heads of 32: 699,050 tokens, for 341
    # requests.
    assert vllm.limit == 2 + MOST_RUNNING < 2 + 2**30 // (2 * 3 * 2 * 32 * 4) // 2048


def test_text_becomes_the_same_tokens(vllm: Server, engine: Server) -> None:
    thought = "<think>\n7*43 = 301\n</think>\n\n\\boxed{1}"
    for text in (prompts.solve(SUMS[0])[0]["content"], thought, "é 𝔸\t\r\n "):
        ours = post(
            engine, "/tokenize", {"content": text, "add_special": False, "parse_special": True}
        )["tokens"]
        body = {"model": vllm.model, "prompt": text, "add_special_tokens": False}
        assert post(vllm, "/tokenize", body)["tokens"] == ours


def test_equal_seeds_give_equal_completions(vllm: Server, tmp_path: Path) -> None:
    requests = [(prompts.solve(SUMS[0]), seed, Sampling(max_tokens=300)) for seed in range(12)]
    first = ask(vllm, tmp_path / "a", requests)
    again = ask(vllm, tmp_path / "b", requests)
    equal = sum(
        (a.thinking, a.answer) == (b.thinking, b.answer) for a, b in zip(first, again, strict=True)
    )
    FIGURES.append(f"vLLM, T=0.7: {equal} of {len(requests)} pairs with equal seeds are equal")
    # This model writes few variants of one problem: 3 in 12 samples.
    assert equal == len(requests) and len({c.thinking + c.answer for c in first}) > 1


def test_p_true_is_llama_cpps(vllm: Server, engine: Server, tmp_path: Path) -> None:
    """At any temperature, it is the model's own probability."""
    found: dict[str, list[float]] = {}
    for temperature in (0.7, 1.0):
        opened = Sampling(temperature, max_tokens=1, opening=prompts.VERDICT, top_logprobs=20)
        solutions = [
            ask(engine, tmp_path, [(prompts.solve(p), 3, Sampling())])[0].answer for p in SUMS[:8]
        ]
        requests = [
            (prompts.verify(problem, text), 1, opened)
            for problem, text in zip(SUMS[:8], solutions, strict=True)
        ]
        for server in (vllm, engine):
            given = [p_true(reply.logprobs) for reply in ask(server, tmp_path, requests)]
            found[f"{server.kind} T={temperature}"] = [
                score for score in given if score is not None
            ]
    for name, scores in found.items():
        FIGURES.append(f"P(True), {name}: {' '.join(f'{score:.4f}' for score in scores)}")
    reference = found["llama.cpp T=0.7"]
    assert len(reference) == 8 and any(0.02 < score < 0.98 for score in reference), (
        "some are not extreme"
    )
    for scores in found.values():
        assert scores == pytest.approx(reference, abs=2e-3)


def test_verdicts_on_steps_are_llama_cpps(vllm: Server, engine: Server, tmp_path: Path) -> None:
    solution = "9*15=135\n\n8*67=536, 135+536=671\n\n\\boxed{671}"
    messages = [*prompts.solve(SUMS[0]), {"role": "assistant", "content": solution}]
    card = Card(step_verdicts=("4", "7"))
    scores = []
    for server in (vllm, engine):
        request = (messages, 0, Sampling(reward="\n\n"))
        (completion,) = ask(replace(server, card=card), tmp_path, [request])
        scores.append(completion.scores)
    assert len(scores[0]) == 3 and scores[0] == pytest.approx(scores[1], abs=1e-3)
    FIGURES.append(f"vLLM, P(4) / (P(4) + P(7)) after each step: {scores[0]}")


@pytest.mark.parametrize(
    "thinking",
    ["\n7*43 = 301", "<think>\n7*43 = 301", "7*43 </think> = 301\n\n", "<think>", "\n\n"],
)
def test_thinking_that_a_template_would_change_is_forced_too(
    vllm: Server, tmp_path: Path, thinking: str
) -> None:
    """A status of 400 from vLLM once lost the forced answer silently."""
    message = {
        "role": "assistant",
        "content": None,
        "reasoning": f"so{thinking}" if not thinking.strip() else thinking,
    }
    choice = {"index": 0, "finish_reason": "length", "message": message}
    usage = {"prompt_tokens": 30, "completion_tokens": 2010}  # only the end of the thinking fits
    proxy = Proxy(vllm.base_url)
    proxy.script = [answer(200, {"model": vllm.model, "choices": [choice], "usage": usage})]
    try:
        through = replace(vllm, base_url=proxy.url)
        sampling = Sampling(max_tokens=2010, answer_tokens=24)
        (completion,) = ask(through, tmp_path, [(prompts.solve(SUMS[0]), 5, sampling)])
    finally:
        proxy.close()
    assert completion.not_forced is None and completion.forced is not None
    assert completion.forced.removeprefix(FORCED_ANSWER)[:1].isdigit(), completion.forced


def test_rsa_and_self_verification_run(vllm: Server, tmp_path: Path) -> None:
    small = ("LIMIT=3", "N=4", "K=2", "T=2", "MAX_TOKENS=300", "ANSWER_TOKENS=24")
    rsa = run("02_rsa_basic", tmp_path, vllm, *small)
    assert rsa["complete"] and (rsa["engine"]["kind"], rsa["engine"]["version"]) == (
        "vllm",
        "0.32.0",
    )
    verdicts = run("03_rsa_verify", tmp_path / "verdict", vllm, *small, "VERIFY_TOKENS=300")
    p_trues = run("03_rsa_verify", tmp_path / "p_true", vllm, *small, "SCORE=p_true")
    sure = run("03_rsa_verify", tmp_path / "confidence", vllm, *small, "SCORE=confidence")
    documents = {"02": rsa, "03 verdict": verdicts, "03 p_true": p_trues, "03 confidence": sure}
    for name, document in documents.items():
        steps = [step["mean_accuracy"]["value"] for step in document["metrics"]["steps"]]
        checked = document["metrics"].get("verification", {})
        FIGURES.append(f"vLLM, {name}: mean accuracy by step {steps}, verification {checked}")
        assert sum(step["failed"] for step in document["metrics"]["steps"]) == 0
    assert p_trues["metrics"]["verification"]["unreadable"] == 0
    scores = {m["self_score"] for m in members(p_trues) if "self_score" in m}
    assert len(scores) > 4, "probabilities, not verdicts"
    confidences = [m["self_score"] for m in members(sure) if "self_score" in m]
    assert len(set(confidences)) > 4 and min(confidences) > 0
    readable = [m for m in members(verdicts) if m.get("self_score") is not None]
    assert {m["self_score"] for m in readable} <= {0.0, 1.0}


def test_a_killed_run_ends_its_vllm_and_resumes(launching: dict[str, str], tmp_path: Path) -> None:
    env = launching | {"PORT": "29853", "RESULTS_DIR": str(tmp_path)}
    constants = ("LIMIT=4", "N=4", "K=2", "T=2", "MAX_TOKENS=300", "CONCURRENCY=2")
    process = python("experiments/02_rsa_basic.py", *constants, **env)
    file = tmp_path / "journal" / "02_rsa_basic.jsonl"
    while process.poll() is None and not (file.exists() and file.read_bytes().count(b"\n") >= 12):
        time.sleep(0.05)
    assert process.poll() is None, (tmp_path / "vllm.log").read_text()[-3000:]
    process.kill()
    process.wait()
    kept = {json.loads(line)["key"]: line for line in journal_lines(tmp_path, "02_rsa_basic")[:12]}
    assert eventually(lambda: is_free(29853)), "vLLM ends with the run that started it"

    again = python("experiments/02_rsa_basic.py", *constants, **env)
    _, err = again.communicate(timeout=900)
    document = load(tmp_path, "02_rsa_basic")
    assert again.returncode == 0 and document["engine"]["why"] == "ENGINE=vllm is set", err
    lines = journal_lines(tmp_path, "02_rsa_basic")
    keys = [json.loads(line)["key"] for line in lines]
    assert document["complete"] and len(keys) == len(set(keys)) == 4 * 4 * 3, (
        "no request was sent twice"
    )
    assert kept.items() <= dict(zip(keys, lines, strict=True)).items()
    assert kept.keys() <= {m["key"] for m in members(document)}
    FIGURES.append(
        f"vLLM, 02 killed after {len(kept)} of {len(keys)} completions and resumed: none asked "
        "twice"
    )
