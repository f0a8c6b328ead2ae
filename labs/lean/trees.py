"""Arrange the states of searched theorems, on a proof's path and off it, as training data of the energy.

All searches of a theorem are taken together: a state on the path of any of its proofs is on the path, with its least
distance from the end. The hash of a theorem's name alone decides whether it is held out, in each iteration and seed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

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
NEGATIVES = 7  # states off the path, in an example
SIBLINGS, SAME, ELSEWHERE = 0.3, 0.4, 0.3  # their shares: siblings of path states, the rest of the theorem, others

Family = tuple[tuple[int, ...], tuple[int, ...]]  # the children of one state on the path: on the path, and off it
Children = dict[int, tuple[set[int], set[int]]]  # families by that state


@dataclass(frozen=True)
class Tree:
    """The states of a theorem, by number.
    `remaining`: tactics from each of `on_path` to the end of a proof. `siblings`: off the path, with a parent on it;
    `others`: off the path, with another parent. `families`, for the AUC: the children of one parent in one search, if
    some are on the path and some off it. `own`: families of children to which the policy's own tactics led."""

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
    """All theorems by name, the `vectors` of their states by hash, and their `model`: file order can't matter."""

    trees: tuple[Tree, ...]
    vectors: Vectors
    model: str

    @property
    def sha256(self) -> dict[str, str]:
        """The hashes of the trees, and of the vectors with their model."""
        return {
            "trees": hashlib.sha256(repr(self.trees).encode()).hexdigest(),
            "vectors": hashlib.sha256(self.vectors.tobytes() + self.model.encode()).hexdigest(),
        }


def texts_in(paths: Sequence[Path]) -> list[str]:
    """Return the texts of all states in files and folders of trajectories, each once. Raises UserError."""
    states = (state for path in paths for state in trajectories.read(path)["state_pp"].unique().to_pylist())
    return list(dict.fromkeys(filter(None, map(text_of, states))))


def forest(paths: Sequence[Path], stored: Stored, probe: float) -> Forest:
    """Build the forest of trajectories with embedded states. Raises UserError, also if there is nothing to learn.
    A tactic is the policy's own if its log probability is not `probe`, the log probability of probes."""
    searches: dict[str, dict[Path, list[dict[str, Any]]]] = {}  # by theorem and path
    for path in paths:
        for row in trajectories.read(path).to_pylist():
            if text := text_of(row["state_pp"]):  # else nothing is left to prove
                searches.setdefault(row["theorem_name"], {}).setdefault(path, []).append(row | {"text": text})
    texts = sorted({row["text"] for of in searches.values() for row in chain(*of.values())}, key=hash_of)
    numbers = {text: number for number, text in enumerate(texts)}
    vectors = stored.vectors[stored.rows(texts)]
    trees = tuple(_tree(theorem, [*searches[theorem].values()], numbers, probe) for theorem in sorted(searches))
    if not any(tree.on_path and tree.off_path and not tree.is_held_out for tree in trees):
        shown = ", ".join(map(str, paths))
        raise UserError(f"{shown}: no proof has states off its path, so there is nothing to learn. Search more")
    return Forest(trees, vectors, stored.model)


def _tree(
    theorem: str, searches: Sequence[Sequence[Mapping[str, Any]]], numbers: Mapping[str, int], probe: float
) -> Tree:
    remaining: dict[int, int] = {}
    for row in chain(*searches):
        if row["label"] == POSITIVE:
            number, left = numbers[row["text"]], row["remaining_depth"]
            remaining[number] = min(left, remaining.get(number, left))
    siblings, others, families, own = set[int](), set[int](), list[Family](), list[Family]()
    for rows in searches:
        path = {row["state_id"] for row in rows if row["label"] == POSITIVE}
        children, by_policy = Children(), Children()
        for row in rows:
            number, parent = numbers[row["text"]], row["parent_state_id"]
            if number not in remaining:
                (siblings if parent in path else others).add(number)
            if parent in path:
                for kind in (children, by_policy) if row["llm_log_prob"] != probe else (children,):
                    kind.setdefault(parent, (set(), set()))[number not in remaining].add(number)
        families += _families(children)
        own += _families(by_policy)
    on_path, depths = zip(*sorted(remaining.items()), strict=True) if remaining else ((), ())
    off_path = tuple(sorted(siblings)), tuple(sorted(others - siblings))
    return Tree(theorem, on_path, depths, *off_path, tuple(families), tuple(own))


def _families(children: Children) -> list[Family]:
    return [(tuple(sorted(on)), tuple(sorted(off))) for _, (on, off) in sorted(children.items()) if on and off]


class Batch(NamedTuple):
    """The states of one training step, and `remaining` (examples,): tactics to the end of the proof.
    `states` (examples, 1 + NEGATIVES) begin with a state on the path. `is_there` (same shape) is False for padding."""

    states: NDArray[np.int64]
    is_there: NDArray[np.bool_]
    remaining: NDArray[np.float64]


class Draws:
    """Training examples, drawn from the trees that are not held out. All states on paths are equally likely.
    Each of the seven negatives is a sibling, another state of the theorem, or from elsewhere, by their shares. No state
    is drawn twice. If siblings or others are too few, the other kind replaces them, and then states from elsewhere. If
    these are too few, the theorem's own states replace them. If all are too few, there are fewer negatives."""

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
        # The standard deviation of the distances to the end; 1 if all are equal.
        self.spread = float(np.std([left for _, _, left in self.examples])) or 1.0

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
        """Draw states off the path of other theorems, without the `known` ones."""
        begin, end = self._ends[place], self._ends[place + 1]
        room = len(self._off) - int(end - begin)
        found: dict[int, None] = {}
        for _ in range(4):  # most draws are new; if few theorems share many states, some remain undrawn
            if not room or len(found) >= count:
                break
            at = rng.integers(room, size=count)
            drawn = self._off[np.where(at < begin, at, at + (end - begin))]
            found |= dict.fromkeys(int(number) for number in drawn if int(number) not in known)
        return list(found)[:count]


def auc(trees: Sequence[Tree], energies: NDArray[np.float64], own: bool = False) -> Estimate:
    """Estimate the chance that a state on the path has a lower energy than a sibling off it.
    It is the mean over theorems of the share of such pairs. `own`: only children by the policy's own tactics."""
    values = (_auc_of(tree.own if own else tree.families, energies) for tree in trees)
    return stats.mean_by_problem([value for value in values if value is not None])


def _auc_of(families: Sequence[Family], energies: NDArray[np.float64]) -> float | None:
    right = pairs = 0.0
    for on, off in families:
        good, bad = ([-float(energies[number]) for number in each] for each in (on, off))
        right += len(on) * len(off) * (stats.auc(good, bad) or 0.0)
        pairs += len(on) * len(off)
    return right / pairs if pairs else None
