"""The prompts of scaffolds, word by word, and their yields. A changed word makes journals
worthless."""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from core import constants
from core.prompts import prompts_sha256
from core.types import (
    FORCED_ANSWER,
    FORCED_PROOF,
    Completion,
    Member,
    Message,
    Problem,
    Sampling,
    Scaffold,
)
from harness import experiment_file
from tests.fakes.model import PROBLEM, PROOF, SCAFFOLDS, SIZES, Wayward, every_scaffold, run

# Of each scaffold: hashes of all that it asks about an answer in twelve worlds (names, messages,
# changed sampling), of all that it yields there (parents, notes, scores, side calls), and of its
# prompts, and the bounds of what its experiment asks. To pin a new scaffold, or to change the
# hashes of one whose prompts you mean to change:
# python -m tests.harness.scaffolds.test_wording [NAME …]
PINNED = Path(__file__).with_name("pinned.json")


class Recorder(Wayward):
    """A model that keeps `sent`, its requests with their messages, and `yielded`, the members of
    all populations."""

    def __init__(self, world: int) -> None:
        super().__init__(seed=0, world=world)
        self.sent: list[tuple[Any, Sequence[Message], dict[str, Any]]] = []
        self.yielded: list[list[Any]] = []

    async def __call__(
        self, messages: Sequence[Message], *names: Any, **changes: Any
    ) -> Completion:
        self.sent.append((names, messages, changes))
        return await super().__call__(messages, *names, **changes)


def recorded(scaffold: Scaffold[Any], *problem: Problem, worlds: int = 12) -> list[Recorder]:
    models = [Recorder(world) for world in range(worlds)]
    for model in models:
        model.yielded = [
            [getattr(population, "name", ""), *map(kept, population)]
            for population in run(scaffold, model, *problem, **SIZES)
        ]
    return models


def kept(member: Member) -> list[Any]:
    """Return all fields of a member except its text."""
    calls = [call.key for call in member.side_calls]
    scores = [member.self_score, member.verdicts]
    return [
        member.completion.key,
        member.parents,
        *scores,
        calls,
        member.carried_over,
        member.notes,
    ]


def digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def pins(name: str) -> dict[str, Any]:
    """Return the pinned values of a scaffold."""
    scaffold, found = (
        SCAFFOLDS[name],
        experiment_file.load(experiment_file.experiments_by_scaffold()[name]),
    )
    config = constants.read(scaffold.constants, found.namespace)
    models = recorded(scaffold)
    return {
        "asked": digest(line for model in models for line in sorted(map(json.dumps, model.sent))),
        "yielded": digest(
            json.dumps(population) for model in models for population in model.yielded
        ),
        "prompts": prompts_sha256(scaffold.prompts)[:16],
        "completions": scaffold.max_completions(config),
        "texts": scaffold.texts_shown(config),
    }


def pinned() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PINNED.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", SCAFFOLDS)
def test_of_an_answer_every_scaffold_asks_and_yields_the_same_as_ever(name: str) -> None:
    if name not in pinned():
        pytest.skip(f"{name} is new: python -m tests.harness.scaffolds.test_wording pins it")
    assert pins(name) == pinned()[name]


@pytest.mark.parametrize("problem", [PROBLEM, PROOF], ids=["answer", "proof"])
@every_scaffold
def test_each_request_is_one_of_its_prompts_filled_in(
    scaffold: Scaffold[Any], problem: Problem
) -> None:
    """So the hash in the results covers all prompts."""
    texts = {
        m["content"]
        for model in recorded(scaffold, problem, worlds=4)
        for _, sent, _ in model.sent
        for m in sent
    }
    worded = [
        prompt if isinstance(prompt, str) else prompt.text_for(problem.is_proof)
        for prompt in scaffold.prompts
    ]
    pieces = [
        re.split(r"\{[a-zA-Z]+\}", text) for text in worded if re.search(r"\{[a-zA-Z]+\}", text)
    ]
    filled = re.compile(
        "|".join(".*".join(re.escape(p.format()) for p in of) for of in pieces), re.DOTALL
    )
    assert not [text for text in texts if not filled.fullmatch(text)]
    if problem.is_proof:  # no box or answer is asked for, and what graders know stays with them
        assert not [
            text for text in texts if re.search("boxed|(final|short|its|the|an) answer", text)
        ]
        assert not [text for text in texts if PROOF.guidelines in text or PROOF.solution in text]
        assert prompts_sha256(scaffold.prompts, is_proof=True) != prompts_sha256(scaffold.prompts)


def test_where_time_is_up_a_proof_is_opened_in_its_own_words() -> None:
    config = SCAFFOLDS["rsa"].constants()
    assert Sampling.from_config(config).answer_opening == FORCED_ANSWER == Sampling().answer_opening
    assert (
        Sampling.from_config(config, is_proof=True).answer_opening == FORCED_PROOF
        and "boxed" not in FORCED_PROOF
    )


if __name__ == "__main__":
    found = pinned()
    found |= {name: pins(name) for name in SCAFFOLDS if name not in found or name in sys.argv[1:]}
    PINNED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
