"""The control of a baseline, without a model: the tactics of the known states that look most like the one at hand.

States are bags of tokens, weighed by TF-IDF; how near two are is the cosine. Tactics stay as they were written: giving
them the names that the state at hand has did not help.
"""

import asyncio
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError
from core.base.files import read_json
from core.generate.journal import content_key
from labs.lean import figures, pairs
from labs.lean.constants import ControlledConstants
from labs.lean.outcome import Outcome
from labs.lean.pairs import Pair
from labs.lean.record import keep
from labs.lean.search import Candidate
from labs.lean.searching import Searching
from labs.lean.theorem import State, Theorem
from labs.lean.theorems import TRAIN
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers

FOLDER = "index"  # within the baseline's, and the field of its record
SHARPNESS = 10.0  # of the softmax over cosines
_TOKEN = re.compile(r"[^\W\d][\w'✝]*(?:\.[^\W\d][\w']*)*|\d+|[^\s\w]")


class Index:
    """An index of `pairs`, which proposes `candidates` tactics for a state."""

    def __init__(self, pairs: Iterable[Pair], candidates: int) -> None:
        self.candidates = candidates
        known: dict[str, dict[str, None]] = {}
        for pair in pairs:
            known.setdefault(pair.state, {})[pair.tactic] = None
        self.tactics = [tuple(tactics) for tactics in known.values()]  # by known state
        self._ids: dict[str, int] = {}
        # A row for each token of each state: which token, of which state, and how often it stands there.
        ids, states, counts = array("i"), array("i"), array("i")
        for number, state in enumerate(known):
            for token, count in bag(state).items():
                ids.append(self._ids.setdefault(token, len(self._ids)))
                states.append(number)
                counts.append(count)
        of, numbers = np.array(ids, dtype=np.int32), np.array(states, dtype=np.int32)
        self._idf = np.log(len(known) / np.bincount(of)) + 1
        weights = np.array(counts) * self._idf[of]
        weights /= np.sqrt(np.bincount(numbers, weights**2))[numbers]
        order = np.argsort(of, kind="stable")
        self._states, self._weights = numbers[order], weights[order]  # by token, whose rows begin at _starts
        self._starts = np.searchsorted(of[order], np.arange(len(self._ids) + 1))

    def cosines(self, state: str) -> NDArray[np.float64]:
        """Return how near each known state is to this one: (states,), from 0 to 1."""
        near, squares = np.zeros(len(self.tactics)), 0.0
        unseen = np.log(len(self.tactics)) + 1
        for token, count in bag(state).items():
            number = self._ids.get(token)
            weight = count * (unseen if number is None else self._idf[number])
            squares += weight**2
            if number is not None:
                rows = slice(self._starts[number], self._starts[number + 1])
                near[self._states[rows]] += weight * self._weights[rows]
        near /= max(np.sqrt(squares), 1e-12)
        return near

    async def __call__(self, state: State) -> list[Candidate]:
        """Different tactics, the likeliest first, as World.propose has them."""
        near = self.cosines(state.pp)
        best: dict[str, float] = {}
        for number in np.argsort(-near, kind="stable"):
            for tactic in self.tactics[number]:
                best.setdefault(tactic, float(near[number]))
            if len(best) >= self.candidates:
                break
        chosen = list(best.items())[: self.candidates]
        logits = SHARPNESS * np.array([cosine for _, cosine in chosen])
        logprobs = logits - np.logaddexp.reduce(logits)
        return [(tactic, float(logprob)) for (tactic, _), logprob in zip(chosen, logprobs, strict=True)]


def bag(state: str) -> Counter[str]:
    """The tokens of a state's first goal, where the next tactic begins."""
    return Counter(_TOKEN.findall(state.partition("\n\n")[0]))


def given(config: ControlledConstants, theorems: Sequence[Theorem], lean: Toolchain) -> tuple[list[Pair], str] | None:
    """Return the pairs that INDEX names and what they are called; None for no control. No pair belongs to a theorem
    that is searched. Raises UserError."""
    if config.INDEX == "none" or (config.INDEX == "auto" and config.THEOREMS != "auto"):
        return None
    if config.INDEX == "auto":
        found, of = taught(lean, config.NUM_WORKERS), "the taught lemmas"
    else:
        path = Path(config.INDEX).expanduser()
        found, of = pairs.read(path), path.name
    names = {theorem.name for theorem in theorems}
    known = [pair for pair in found if pair.theorem not in names]
    if not known:
        raise UserError(f"INDEX={config.INDEX} holds no pair of a theorem that is not searched. Name another, or none")
    return known, of


def taught(lean: Toolchain, count: int) -> list[Pair]:
    """Return the pairs of the lemmas that the tiny policy was taught, as `count` processes of Lean show them."""
    rows = read_json(TRAIN, "the lemmas", "Check out the repository again")["theorems"]

    async def made() -> list[list[Pair]]:
        async with Workers(lean, count) as workers:
            return await asyncio.gather(*(of_lemma(workers, row) for row in rows if row.get("teach")))

    return pairs.merged(asyncio.run(made()))


async def of_lemma(workers: Workers, lemma: dict[str, Any]) -> list[Pair]:
    """Return the pairs of a lemma's own proof; none if Lean does not take it."""
    made: list[Pair] = []
    step = await workers.run(lemma["statement"])
    for count, tactic in enumerate(lemma["proof"], 1):
        if step.state is None:
            break
        made.append(Pair(lemma["name"], step.state.pp, tactic))
        step = await workers.run(lemma["statement"], lemma["proof"][:count])
    return made if step.state and not step.state.goals else []


def compared(
    known: Sequence[Pair], of: str, policy: Searching, theorems: Sequence[Theorem], outcomes: list[Outcome]
) -> dict[str, Any]:
    """Search with an index of `known` pairs as `policy` has searched, to `outcomes`. Return the figures and the gain
    for the record."""
    config, folder = policy.session.config, policy.folder.parent / FOLDER
    index = Index(known, config.CANDIDATES)
    named = policy.session.but(name=FOLDER)
    by = content_key([vars(pair) for pair in known])
    found = replace(policy, session=named, folder=folder / "trajectories", proposing=index, by=by).of(theorems)
    made = figures.figures(found, [config.MAX_NODES])
    keep(folder, found, made)
    gain = vars(figures.compared(found, outcomes, config.MAX_NODES))
    return {"of": of, "pairs": len(known), "states": len(index.tactics), "figures": made, "gain": gain}


def said(told: dict[str, Any], nodes: int) -> str:
    """Format the outcome of the control in a line."""
    return (
        f"index of {told['pairs']} pairs of {told['of']}, without a model: {figures.rate(told['figures'], nodes)}%; "
        f"the policy: {figures.gained(told['gain'])} on that"
    )
