"""Pairs of a state and a tactic from proofs that are known, the states as real Lean shows them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from core.base.errors import UserError
from core.base.files import DATA, read_json
from labs.lean import pairs
from labs.lean.pairs import Pair
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers

LEMMAS = DATA / "lean" / "lemmas_train.json"


async def of_lemma(workers: Workers, lemma: dict[str, Any]) -> list[Pair]:
    """Those of a lemma's own proof. Raises UserError where Lean does not take it."""
    made: list[Pair] = []
    step = await workers.start(lemma["statement"])
    for place, tactic in enumerate(lemma["proof"]):
        if step.state is None:
            break
        made.append(Pair(lemma["name"], step.state.pp, tactic))
        step = await workers.apply(lemma["statement"], lemma["proof"][:place], tactic)
    if step.state is None or step.state.goals:
        raise UserError(f"{lemma['name']}: its proof is none ({step.error or 'goals are left'})")
    return made


async def tried(workers: Workers, lemma: dict[str, Any]) -> list[Pair]:
    """The same; none where Lean does not take the proof."""
    with suppress(UserError):
        return await of_lemma(workers, lemma)
    return []


def taught(lean: Toolchain, count: int) -> list[Pair]:
    """Those of the lemmas of data/lean that the tiny policy was taught, by `count` processes of Lean."""
    rows: Sequence[dict[str, Any]] = read_json(LEMMAS, "the lemmas", "Check out the repository again")["theorems"]

    async def made() -> list[list[Pair]]:
        async with Workers(lean, count) as workers:
            return await asyncio.gather(*(tried(workers, row) for row in rows if row.get("teach")))

    return pairs.merged(asyncio.run(made()))
