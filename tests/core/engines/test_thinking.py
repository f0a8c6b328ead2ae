"""Test how a run learns whether a chat template opens thinking: from the server, or a card."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.engines.cards import Card
from tests.core.engines.test_identity import complete
from tests.fakes.engines import Said, llama, sglang, vllm

pytestmark = pytest.mark.usefixtures("hurried")
THINKS = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n<think>\n"
ANSWERS = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def cut(prompt: str, cap: int, seed: int) -> Said:
    """Reply with a right answer and text that is cut off."""
    return "Adding up gives \\boxed{42}. Let me also", "", "length"


OTHER = {"/v1/models": {"data": [{"id": "QED-Nano-Thinking-qwen3-r1", "owned_by": "me"}]}}


@pytest.mark.parametrize(("form", "thinks"), [("", False), ("tags", True), ("none", False)])
def test_the_card_of_an_unknown_server_decides_and_no_name(
    serve: Any, tmp_path: Path, form: str, thinks: bool
) -> None:
    server = replace(serve(OTHER, cut).probed(), card=Card("mine", thinking=form))
    (completion,) = complete(server, tmp_path, (1,))
    assert completion.truncated and (not completion.answer, bool(completion.thinking)) == (
        thinks,
        thinks,
    )


def tokens(template: str) -> dict[str, Any]:
    """Return SGLang's and vLLM's pages that render a chat and decode tokens; each character is a
    token."""

    def tokenize(body: dict[str, Any]) -> dict[str, Any]:
        tokens = [ord(c) for c in template.format(body["messages"][0]["content"])]
        return {"tokens": tokens, "count": len(tokens)}

    def detokenize(body: dict[str, Any]) -> dict[str, Any]:
        text = "".join(map(chr, body["tokens"]))
        return {"text": text, "prompt": text}

    return {"/tokenize": tokenize, "/detokenize": detokenize}


@pytest.mark.parametrize("kind", [sglang, vllm, llama])
@pytest.mark.parametrize(
    ("template", "opens"), [(THINKS, True), (ANSWERS, False)], ids=["open", "not"]
)
def test_what_the_server_renders_itself_comes_first(
    serve: Any, tmp_path: Path, kind: Any, template: str, opens: bool
) -> None:
    pages = kind() | tokens(template)
    pages["/apply-template"] = lambda body: {
        "prompt": template.format(body["messages"][0]["content"])
    }
    here = serve(pages, cut)
    assert here.probed().thinking is opens
    (completion,) = complete(here.probed(), tmp_path, (1,))
    assert (bool(completion.thinking), bool(completion.answer)) == (opens, not opens) and len(
        here.asked
    ) == 1
