"""What scaffolds ask, word by word. Of answers it is the same as ever, for a changed word makes journals worthless."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from core.scaffolds.prompts import prompts_sha256
from core.types import FORCED_ANSWER, FORCED_PROOF, Completion, Message, Problem, Sampling, Scaffold
from tests.fakes.model import SCAFFOLDS, run
from tests.scaffolds.test_resume import SIZES, Wayward

# Of each scaffold, as the code of before there were proofs (c9cffa4) had it: all that it asks about an answer in twelve
# worlds (names, messages, changed sampling), and its prompts. Who means to change a prompt changes its hashes here.
ASKED = {
    "majority": ("920e3018f29f87d5", "3202fc2a2d867b2f"),
    "best_of": ("7466c0a53295b21f", "035189579c75ebd8"),
    "refinement": ("6548230f8b650b2d", "d9154b279fd23580"),
    "qed_rsa": ("09b2c0eaad2d8137", "94eaf8fd7ddf3e98"),
    "deepseek_math": ("0136c626805ade29", "b8834e26019c8e37"),
    "nomos": ("8828ac11acaac40d", "2f14a5aac16cfcd4"),
    "reasoning_cache": ("472117ae2201a30c", "1dd9d74c1935991e"),
    "selfcheck": ("9b76e08370198d7b", "345916042444b2a9"),
    "static_math_agent": ("aa5c711729afcb41", "8c898ef17052cdcc"),
    "math_agent": ("7396e8f848a5deec", "3648422f9170779f"),
    "rsa_paper": ("2ccdca750ca3e38d", "faf02108cdc4d3bb"),
    "stopping": ("658211abf4bbc6e1", "00c9eac9fd70bc25"),
    "rsa_verified": ("1526de2938940956", "aee9502718a4fc0f"),
    "rsa": ("658211abf4bbc6e1", "00c9eac9fd70bc25"),
}
PROOF = Problem("p1", "Prove that 6*7 is even.", None, "proof", guidelines="7 points for any proof.", solution="6 is.")


class Recorder(Wayward):
    """`sent`: every request with its messages, as they are hashed into the journal's keys."""

    def __init__(self, world: int) -> None:
        super().__init__(seed=0, world=world)
        self.sent: list[tuple[Any, Sequence[Message], dict[str, Any]]] = []

    async def __call__(self, messages: Sequence[Message], *names: Any, **changes: Any) -> Completion:
        timeless = {name: value for name, value in changes.items() if name != "until"}
        self.sent.append((names, messages, timeless))
        return await super().__call__(messages, *names, **changes)


def recorded(scaffold: Scaffold[Any], *problem: Problem) -> list[Recorder]:
    models = [Recorder(world) for world in range(12)]
    for model in models:
        run(scaffold, model, *problem, **SIZES)
    return models


def name_of(scaffold: Scaffold[Any]) -> str:
    return scaffold.constants.__module__.rpartition(".")[2]


@pytest.mark.parametrize("scaffold", SCAFFOLDS, ids=name_of)
def test_of_an_answer_every_scaffold_asks_in_the_same_words_as_ever(scaffold: Scaffold[Any]) -> None:
    sent = [line for model in recorded(scaffold) for line in sorted(map(json.dumps, model.sent))]
    asked, prompts = ASKED[name_of(scaffold)]
    assert hashlib.sha256("\n".join(sent).encode()).hexdigest()[:16] == asked
    assert prompts_sha256(scaffold.prompts)[:16] == prompts


@pytest.mark.parametrize("scaffold", SCAFFOLDS, ids=name_of)
def test_of_a_proof_no_scaffold_asks_for_a_box_or_an_answer(scaffold: Scaffold[Any]) -> None:
    """And each request is one of its prompts for proofs, filled in; what graders know stays with them."""
    texts = {m["content"] for model in recorded(scaffold, PROOF) for _, sent, _ in model.sent for m in sent}
    assert not [text for text in texts if re.search("boxed|(final|short|its|the|an) answer", text)]
    assert not [text for text in texts if PROOF.guidelines in text or PROOF.solution in text]
    worded = [prompt if isinstance(prompt, str) else prompt.proof for prompt in scaffold.prompts]
    pieces = [re.split(r"\{[a-z]+\}", text) for text in worded if re.search(r"\{[a-z]+\}", text)]
    filled = re.compile("|".join(".*".join(re.escape(p.format()) for p in of) for of in pieces), re.DOTALL)
    assert not [text for text in texts if not filled.fullmatch(text)]
    assert prompts_sha256(scaffold.prompts, is_proof=True) != prompts_sha256(scaffold.prompts)


def test_where_time_is_up_a_proof_is_opened_in_its_own_words() -> None:
    config = SCAFFOLDS[0].constants()
    assert Sampling.of(config).answer_opening == FORCED_ANSWER == Sampling().answer_opening
    assert Sampling.of(config, is_proof=True).answer_opening == FORCED_PROOF and "boxed" not in FORCED_PROOF
