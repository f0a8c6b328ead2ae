"""What the energy learns from: the states of searched theorems, on the path of a proof and off it.

All searches of a theorem are taken together: a state that is on the path of any of its proofs is on the path, at its
least distance from the end. A theorem belongs to those held out by the hash of its name alone: in every iteration, for
every seed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base import stats
from core.base.errors import UserError
from core.base.seeds import derive
from core.base.stats import Estimate
from labs.lean import trajectories
from labs.lean.embeddings import Stored, Vectors, hash_of, text_of
from labs.lean.trajectories import POSITIVE

HELD_OUT = 5  # one theorem in so many
NEGATIVES = 7  # states beside one on the path
SIBLINGS, SAME, ELSEWHERE = 0.3, 0.4, 0.3  # shares of them: siblings of path states, the rest of the theorem, others

Family = tuple[tuple[int, ...], tuple[int, ...]]  # children of one state on the path: on the path, and off it
Children = dict[int, tuple[set[int], set[int]]]  # the same by the state


@dataclass(frozen=True)
class Tree:
    """The states of a theorem, by number. `remaining`: tactics from each of `on_path` to the end of a proof.
    `siblings`: off the path, of a parent on it; `others`: off the path, of another parent. `families`: for the AUC, the
    children of one parent in one search, if there are both kinds; `own`: the same of the children to which the policy's
    own tactics led."""

    theorem: str
    on_path: tuple[int, ...]
    remaining: tuple[int, ...]
    siblings: tuple[int, ...]
    others: tuple[int, ...]
    families: tuple[Family, ...]
    own: tuple[Family, ...] = field(default=(), repr=False)  # no part of Forest.sha256

    @property
    def off_path(self) -> tuple[int, ...]:
        return self.siblings + self.others

    @property
    def is_held_out(self) -> bool:
        return derive("held out of the energy", self.theorem) % HELD_OUT == 0


@dataclass(frozen=True)
class Forest:
    """All theorems, in the order of their names; `vectors` of their states, in the order of their texts' hashes, so
    that neither the order of files nor that of embedding matters. `model`: what embedded them."""

    trees: tuple[Tree, ...]
    vectors: Vectors
    model: str

    @property
    def sha256(self) -> dict[str, str]:
        """Of what there is to learn: the states with what they are to their theorems, and their vectors."""
        told = hashlib.sha256(repr(self.trees).encode())
        return {
            "trees": told.hexdigest(),
            "vectors": hashlib.sha256(self.vectors.tobytes() + self.model.encode()).hexdigest(),
        }


def texts_in(paths: Sequence[Path]) -> list[str]:
    """The texts of all states in files and folders of trajectories, each once. Raises UserError."""
    states = (state for path in paths for state in trajectories.read(path)["state_pp"].unique().to_pylist())
    return list(dict.fromkeys(filter(None, map(text_of, states))))


def forest(paths: Sequence[Path], stored: Stored, probe: float) -> Forest:
    """Make the forest of trajectories whose states are embedded. A tactic is the policy's own if its log probability is
    not `probe`, that of tactics which were tried besides. Raises UserError, also if there is nothing to learn."""
    searches: dict[str, list[list[dict[str, Any]]]] = {}
    for path in paths:
        found: dict[str, list[dict[str, Any]]] = {}
        for row in trajectories.read(path).to_pylist():
            if text := text_of(row["state_pp"]):  # else nothing is left to prove
                found.setdefault(row["theorem_name"], []).append(row | {"text": text})
        for theorem, rows in found.items():
            searches.setdefault(theorem, []).append(rows)
    texts = sorted({row["text"] for found in searches.values() for rows in found for row in rows}, key=hash_of)
    numbers = {text: number for number, text in enumerate(texts)}
    vectors = stored.vectors[stored.rows(texts)]
    trees = tuple(_tree(theorem, searches[theorem], numbers, probe) for theorem in sorted(searches))
    if not any(tree.on_path and tree.off_path and not tree.is_held_out for tree in trees):
        shown = ", ".join(map(str, paths))
        raise UserError(f"{shown}: no proof with states beside its path, so there is nothing to learn. Search more")
    return Forest(trees, vectors, stored.model)


def _tree(
    theorem: str, searches: Sequence[Sequence[Mapping[str, Any]]], numbers: Mapping[str, int], probe: float
) -> Tree:
    remaining: dict[int, int] = {}
    for row in chain(*searches):
        if row["label"] == POSITIVE:
            number, left = numbers[row["text"]], row["remaining_depth"]
            remaining[number] = min(left, remaining.get(number, left))
    siblings, others = set[int](), set[int]()
    families: list[Family] = []
    own: list[Family] = []
    for rows in searches:
        path = {row["state_id"] for row in rows if row["label"] == POSITIVE}
        children: Children = {}
        by_policy: Children = {}
        for row in rows:
            number, parent = numbers[row["text"]], row["parent_state_id"]
            if number not in remaining:
                (siblings if parent in path else others).add(number)
            if parent in path:
                for kind in (children, by_policy) if row["llm_log_prob"] != probe else (children,):
                    kind.setdefault(parent, (set(), set()))[number not in remaining].add(number)
        families += _families(children)
        own += _families(by_policy)
    on_path = tuple(sorted(remaining))
    return Tree(
        theorem,
        on_path,
        tuple(remaining[number] for number in on_path),
        tuple(sorted(siblings)),
        tuple(sorted(others - siblings)),
        tuple(families),
        tuple(own),
    )


def _families(children: Children) -> list[Family]:
    return [(tuple(sorted(on)), tuple(sorted(off))) for _, (on, off) in sorted(children.items()) if on and off]


@dataclass(frozen=True)
class Batch:
    """States for one step: `states` (examples, 1 + NEGATIVES), the one on the path first; `is_there`, of the same
    shape, False where there were too few; `remaining` (examples,): tactics to the end of the proof."""

    states: NDArray[np.int64]
    is_there: NDArray[np.bool_]
    remaining: NDArray[np.float64]


class Draws:
    """Examples of training, drawn from the trees that are not held out. Each state on a path is as likely as any other.
    Of its seven negatives each is a sibling, of the same theorem, or from elsewhere, by their shares; no state is drawn
    twice. What one kind lacks the next gives: siblings and the rest of the theorem each other, and both from elsewhere;
    where a theorem stands alone, elsewhere is the theorem itself. Where all are too few, there are fewer."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self._trees = [tree for tree in trees if not tree.is_held_out]
        off = [tree.off_path for tree in self._trees]
        self._ends = np.cumsum([0, *map(len, off)])
        self._off = np.array([number for each in off for number in each], np.int64)
        self.examples = [
            (place, number, left)
            for place, tree in enumerate(self._trees)
            for number, left in zip(tree.on_path, tree.remaining, strict=True)
            if tree.off_path or len(self._off)
        ]

    @property
    def spread(self) -> float:
        """The standard deviation of what is left to the end from the states on paths; 1 where all are as far."""
        return float(np.std([left for _, _, left in self.examples])) or 1.0

    def batch(self, size: int, rng: np.random.Generator) -> Batch:
        chosen = rng.integers(len(self.examples), size=size)
        states, is_there = np.zeros((size, 1 + NEGATIVES), np.int64), np.zeros((size, 1 + NEGATIVES), np.bool_)
        remaining = np.zeros(size)
        for row, which in enumerate(chosen):
            place, number, remaining[row] = self.examples[which]
            drawn = [number, *self._negatives(place, rng)]
            states[row, : len(drawn)], is_there[row, : len(drawn)] = drawn, True
        return Batch(states, is_there, remaining)

    def _negatives(self, place: int, rng: np.random.Generator) -> list[int]:
        tree = self._trees[place]
        siblings, same, _ = (int(n) for n in rng.multinomial(NEGATIVES, (SIBLINGS, SAME, ELSEWHERE)))
        shuffled = [rng.permutation(np.array(pool, np.int64)) for pool in (tree.siblings, tree.others)]
        taken = [*shuffled[0][:siblings], *shuffled[1][:same]]
        short = siblings + same - len(taken)
        more = [*shuffled[1][same:], *shuffled[0][siblings:]]
        taken += more[:short]
        far = self._elsewhere(place, NEGATIVES - len(taken), {*tree.on_path, *map(int, taken)}, rng)
        taken += far
        taken += [number for number in more[short:] if number not in far][: NEGATIVES - len(taken)]
        return [int(number) for number in taken]

    def _elsewhere(self, place: int, count: int, known: set[int], rng: np.random.Generator) -> list[int]:
        """States off the path of other theorems, none of those `known`."""
        begin, end = self._ends[place], self._ends[place + 1]
        room = len(self._off) - int(end - begin)
        found: dict[int, None] = {}
        for _ in range(4):  # most are new: of few theorems with many states in common, some stay undrawn
            if not room or len(found) >= count:
                break
            at = rng.integers(room, size=count)
            drawn = self._off[np.where(at < begin, at, at + (end - begin))]
            found |= dict.fromkeys(int(number) for number in drawn if int(number) not in known)
        return list(found)[:count]


def auc(trees: Sequence[Tree], energies: NDArray[np.float64], own: bool = False) -> Estimate:
    """Return how well energies tell a state on the path from its siblings off it: the chance that it has the lower one,
    over pairs of children of one parent, by theorem; the mean over theorems, with its 95% interval. `own`: of the
    children to which the policy's own tactics led."""
    values = (_auc_of(tree.own if own else tree.families, energies) for tree in trees)
    return stats.mean_by_problem([value for value in values if value is not None])


def _auc_of(families: Sequence[Family], energies: NDArray[np.float64]) -> float | None:
    right = pairs = 0.0
    for on, off in families:
        here = len(on) * len(off)
        good, bad = ([-float(energies[number]) for number in each] for each in (on, off))
        right += here * (stats.auc(good, bad) or 0.0)
        pairs += here
    return right / pairs if pairs else None
