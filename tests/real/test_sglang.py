"""Test SGLang on a CPU under the project's launcher, and compare it with llama.cpp on the same
weights.

Its HTTP, chat template, parser, scheduler, prefix cache and pooling are real. Its kernels are plain
torch."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from core.engines.need import Need
from core.engines.protocol import Server
from core.types import Sampling
from labs.lean import burnqed, served
from labs.lean.constants import LeanConstants
from labs.lean.policy import asked
from labs.training import to_hf
from labs.training.served import Weights
from tests.conftest import start
from tests.helpers.machine import GPU, stand_in
from tests.labs.conftest import lean
from tests.labs.lean.embedding import asked as asked_of
from tests.labs.lean.small import HELD_OUT, LEARNED, written
from tests.labs.training import helpers as training
from tests.real.conftest import FIGURES, RUNNING, SGLANG_VENV, ask, run, serving, within

__all__ = ["lean"]  # a fixture
pytestmark = pytest.mark.engines
TEXTS = ["⊢ p → p", "h : p ∧ q\n⊢ q", "n : Nat\nih : n + 0 = n\n⊢ n + 1 + 0 = n + 1", "7*43"]
# Print the last token's vector after the last norm, scaled to length 1, by transformers.
LAST = """
import json, sys, torch
from transformers import AutoModel, AutoTokenizer
folder, texts = sys.argv[1], json.loads(sys.argv[2])
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder, \
dtype=torch.float32)
with torch.no_grad():
    found = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, -1] for text in \
texts]
print(json.dumps([(vector / vector.norm()).tolist() for vector in found]))
"""


def test_it_is_recognised(sglang: Server) -> None:
    assert (sglang.kind, sglang.version, sglang.context) == ("sglang", "0.5.23", 2048)
    assert sglang.model.startswith("tiny-qwen3-thinking@") and sglang.seeds is False
    assert sglang.limit == 2 + 30000 // 2048


def test_rsa_runs(sglang: Server, tmp_path: Path) -> None:
    small = ("LIMIT=3", "N=4", "K=2", "T=2", "MAX_TOKENS=300", "ANSWER_TOKENS=24")
    rsa = run("02_rsa_basic", tmp_path, sglang, *small)
    assert rsa["complete"] and (rsa["engine"]["kind"], rsa["engine"]["version"]) == (
        "sglang",
        "0.5.23",
    )
    assert sum(step["failed"] for step in rsa["metrics"]["steps"]) == 0
    steps = [step["mean_accuracy"]["value"] for step in rsa["metrics"]["steps"]]
    FIGURES.append(f"SGLang, 02: mean accuracy by step {steps}")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convert Lean's tiny policy, which does not think, to a folder."""
    folder = tmp_path_factory.mktemp("hf") / "policy"
    to_hf.convert(burnqed.POLICY, folder)
    return folder


def test_a_server_that_proposes_embeds_by_the_last_token_also_if_texts_are_cached(
    launching_sglang: dict[str, str], policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = launching_sglang | {"MODEL": str(policy), "PORT": "29861"}
    with (
        within(env, monkeypatch),
        served.serving(Weights(policy), LeanConstants(), tmp_path) as (server, embeds),
    ):
        assert embeds is server and server.model.startswith("policy@")
        found = asked_of(embeds, lambda embedder: embedder([*TEXTS, "h : p\n" * 2000]), batch=3)
        cached = asked_of(embeds, lambda embedder: embedder(TEXTS))
        assert np.abs(cached - found[:-1]).max() < 1e-4
    args = [str(SGLANG_VENV / "python"), "-c", LAST, str(policy), json.dumps(TEXTS)]
    right = json.loads(subprocess.run(args, capture_output=True, text=True, check=True).stdout)
    off = np.abs(found[:-1] - np.array(right)).max()
    FIGURES.append(f"SGLang, embeddings: off the last token's by {off:.1e} at most")
    assert off < 1e-4


def test_a_policy_that_does_not_think_gives_its_tactic_as_the_answer(
    launching_sglang: dict[str, str], policy: Path, tmp_path: Path
) -> None:
    """With a parser for thinking, SGLang would take the tactic for thinking."""
    env = launching_sglang | {"MODEL": str(policy)}
    with serving("SGLang", 29857, env, tmp_path, "--max-running-requests", str(RUNNING)) as server:
        greedy = Sampling(temperature=0, max_tokens=30, sum_logprobs=True)
        states = ["p : Prop\n⊢ p → p", "p q : Prop\nh : p\n⊢ p ∨ q", "n : Nat\n⊢ n + 0 = n"]
        requests = [(asked(state), 1, greedy) for state in states]
        there = ask(server, tmp_path, requests)
    with served.policy(Need(0, 30, 0), tmp_path) as other:
        here = ask(other, tmp_path, requests)
    assert [each.answer for each in there] == [each.answer for each in here] and not any(
        c.thinking for c in there
    )
    assert [each.logprob for each in there] == pytest.approx(
        [each.logprob for each in here], abs=1e-3
    )


@pytest.mark.usefixtures("lean")
@training.needed
def test_an_iteration_with_an_energy_runs_whole(
    launching_sglang: dict[str, str], policy: Path, tmp_path: Path
) -> None:
    """Search, train by LoRA, serve, embed and guide, on a GPU that is too small for two servers."""
    stand_in(tmp_path / "bin", nvidia_smi=GPU.replace("24564", "3700"))  # MiB
    env = launching_sglang | {"MODEL": str(policy), "PORT": "29859", "RESULTS_DIR": str(tmp_path)}
    env["PATH"] = f"{tmp_path / 'bin'}:{env['PATH']}"
    (tmp_path / "learned").mkdir()
    learned = written(tmp_path / "learned", *LEARNED).removeprefix("THEOREMS=")
    small = (
        "MAX_ITERATION=0",
        "TRAIN_NODES=16",
        "EPOCHS=2",
        "MAX_NODES=8",
        "HARVEST=4",
        "GO=1",
        "STEPS=20",
    )
    args = (
        f"TRAIN_THEOREMS={learned}",
        written(tmp_path, *HELD_OUT),
        *small,
        "EXPLORE=lemmas",
        "LORA_RANK=4",
    )
    process = start("24_lean_iteration", *args, **env)
    out, err = process.communicate()
    assert process.returncode == 0, err[-3000:]
    own = tmp_path / "lean" / "iteration_0"
    record = json.loads((own / "record.json").read_text())
    assert record["complete"] and record["guided"]["gain"]["n"] == len(HELD_OUT)
    energy = json.loads((own / "energy" / "energy.json").read_text())
    assert energy["model"] == f"model-last@{record['trained']['digest'][:12]}"
    proved = record["searched"]["pairs"]
    FIGURES.append(
        f"SGLang, an iteration of Lean with an energy: {proved} pairs, {out.splitlines()[-2]}"
    )
