"""Search without a model, as a control of the baseline: propose tactics that were used in the most
similar states.

States are bags of tokens with TF-IDF weights, and their similarity is the cosine. Tactics are
proposed unchanged, because renaming their variables did not help.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from core.base.errors import UserError
from core.base.files import read_json
from core.client.journal import content_key
from labs.lean import outcome, pairs
from labs.lean.constants import ControlledConstants
from labs.lean.outcome import Outcome, keep
from labs.lean.pairs import Pair
from labs.lean.search import Candidate
from labs.lean.searching import Searching
from labs.lean.session import steps
from labs.lean.theorem import State, Theorem
from labs.lean.theorems import TRAIN
from labs.lean.toolchain import Toolchain

FOLDER = "index"  # name of the control's folder, and of its field in the baseline's record
SHARPNESS = 10.0  # factor that the softmax applies to cosines
_TOKEN = re.compile(r"[^\W\d][\w'✝]*(?:\.[^\W\d][\w']*)*|\d+|[^\s\w]")


class Index:
    """An index of training pairs that proposes up to `candidates` tactics for a state."""

    def __init__(self, pairs: Iterable[Pair], candidates: int) -> None:
        self.candidates = candidates
        known: dict[str, dict[str, None]] = defaultdict(dict)
        for pair in pairs:
            known[pair.state][pair.tactic] = None
        # the tactics of each known state
        self.tactics = [tuple(tactics) for tactics in known.values()]
        # a token, the states with it, and its counts
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, state in enumerate(known):
            for token, count in bag(state).items():
                found[token].append((number, count))
        squares = np.zeros(len(known))
        # idf, states, weights
        self._unknown = np.log(len(known)) + 1, np.empty(0, np.int64), np.empty(0)
        self._tokens: dict[str, tuple[float, NDArray[np.int64], NDArray[np.float64]]] = {}
        for token, rows in found.items():
            idf = self._unknown[0] - np.log(len(rows))
            states, counts = np.array(rows).T
            squares[states] += (idf * counts) ** 2
            self._tokens[token] = idf, states, idf * counts
        self._lengths = np.sqrt(squares)

    def cosines(self, state: str) -> NDArray[np.float64]:
        """Return the similarity of each known state to this state: (states,), from 0 to 1."""
        near, squares = np.zeros(len(self.tactics)), 0.0
        for token, count in bag(state).items():
            idf, states, weights = self._tokens.get(token, self._unknown)
            squares += (count * idf) ** 2
            near[states] += count * idf * weights
        near /= np.maximum(np.sqrt(squares) * self._lengths, 1e-12)
        return near

    async def __call__(self, state: State) -> list[Candidate]:
        """Return different tactics with log probabilities, the likeliest first."""
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
        return [
            (tactic, float(logprob)) for (tactic, _), logprob in zip(chosen, logprobs, strict=True)
        ]


def bag(state: str) -> Counter[str]:
    """Count the tokens in a state's first goal, to which the next tactic applies."""
    return Counter(_TOKEN.findall(state.partition("\n\n")[0]))


def given(
    config: ControlledConstants, theorems: Sequence[Theorem], lean: Toolchain
) -> tuple[list[Pair], str] | None:
    """Return INDEX's pairs without pairs of `theorems`, and their source, or None for no control.
    Raises UserError."""
    if config.INDEX == "none" or (config.INDEX == "auto" and config.THEOREMS != "auto"):
        return None
    path, of = Path(config.INDEX).expanduser(), "the tiny policy's training lemmas"
    if config.INDEX == "auto":
        lemmas = read_json(TRAIN, "the lemmas", "Check out the repository again")["theorems"]
        found = pairs.merged(
            of_lemmas(lean, config.NUM_WORKERS, [row for row in lemmas if row["teach"]])
        )
    else:
        found, of = pairs.read(path), path.name
    names = {theorem.name for theorem in theorems}
    known = [pair for pair in found if pair.theorem not in names]
    if not known:
        raise UserError(
            f"INDEX={config.INDEX} contains no pair from outside THEOREMS. Use another file, or "
            "INDEX=none"
        )
    return known, of


def of_lemmas(lean: Toolchain, count: int, lemmas: Sequence[dict[str, Any]]) -> list[list[Pair]]:
    """Return the pairs of each lemma's proof by `count` Lean processes, or [] if Lean rejects the
    proof."""
    begun = [
        (of["statement"], of["proof"][:n]) for of in lemmas for n in range(len(of["proof"]) + 1)
    ]
    results, found = iter(steps(lean, count, begun)), list[list[Pair]]()
    for of in lemmas:
        *states, end = (step.state for step in islice(results, len(of["proof"]) + 1))
        known = zip(states, of["proof"], strict=True)
        is_proof = end and not end.goals
        found.append(
            [Pair(of["name"], state.pp, tactic) for state, tactic in known if state]
            if is_proof
            else []
        )
    return found


def compared(
    known: Sequence[Pair],
    of: str,
    policy: Searching,
    theorems: Sequence[Theorem],
    outcomes: list[Outcome],
) -> dict[str, Any]:
    """Search by an index of `known` pairs. Return the figures, and the gain of the `policy` over
    the index."""
    config, folder = policy.session.config, policy.folder.parent / FOLDER
    index = Index(known, config.CANDIDATES)
    session, by = (
        policy.session.with_changes(name=FOLDER),
        content_key([asdict(pair) for pair in known]),
    )
    found = replace(
        policy, session=session, folder=folder / "trajectories", proposing=index, by=by
    ).of(theorems)
    result = outcome.figures(found, [config.MAX_NODES])
    keep(folder, found, result)
    gain = vars(outcome.compared(found, outcomes, config.MAX_NODES))
    return {
        "of": of,
        "pairs": len(known),
        "states": len(index.tactics),
        "figures": result,
        "gain": gain,
    }


def line(result: dict[str, Any], nodes: int) -> str:
    """Format the result of the control search as one line."""
    return (
        f"control without a model ({result['pairs']} pairs of {result['of']}): "
        f"{outcome.rate(result['figures'], nodes)}%. The policy's gain over the control: "
        f"{outcome.gained(result['gain'])}"
    )
