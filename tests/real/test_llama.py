"""Test that real SGLang and vLLM serve a Llama that was trained here, with the same tokens and the
trained answers."""

import json
from pathlib import Path

import pytest

from tests.labs.training import helpers as training
from tests.labs.training.models import edit, llama
from tests.real.conftest import serving

pytestmark = [pytest.mark.engines, training.needed]

PROMPT, ANSWER = "⊢ x + y = y + x", "rw [add_comm x y]"
PROGRAM = f"""
import sys
from labs.training.finetune import main
folder, options = sys.argv[1:]
main(options.split())
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(f"{{folder}}/out/model")
messages = [{{"role": "user", "content": {PROMPT!r}}}]
print(len(tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]))
"""


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Train the model. Return its folder and the number of the prompt's tokens."""
    place = tmp_path_factory.mktemp("taught")
    llama(place / "base", 2)
    data = training.write(
        place / "rows.jsonl", [{"instruction": PROMPT, "input": "", "output": ANSWER}]
    )
    options = (
        f"--model {place}/base --data {data} --out {place}/out --lora-rank 0 --rate 1e-2 --epochs "
        "320"
    )
    done = training.run(PROGRAM, place, options)
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "out" / "train.json").read_text())["last_loss"] < 0.1
    return place / "out" / "model", int(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_it_gives_the_trained_answer(
    engine: str, taught: tuple[Path, int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model, tokens = taught
    env = request.getfixturevalue("launching" if engine == "vllm" else "launching_sglang") | {
        "MODEL": str(model)
    }
    if engine == "vllm":  # refused otherwise: tests/core/engines/test_weights.py
        edit(model / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    with serving(f"{engine} with a Llama", 29861, env, tmp_path) as server:
        import openai

        client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
        messages = [{"role": "user", "content": PROMPT}]
        reply = client.chat.completions.create(
            model=server.model,
            messages=messages,  # type: ignore[arg-type]
            temperature=0,
            max_tokens=40,
        )
    assert reply.choices[0].message.content == ANSWER and reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None and reply.usage.prompt_tokens == tokens
