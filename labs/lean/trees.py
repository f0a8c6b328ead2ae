"""Arrange the states of searched theorems, on a proof's path and off it, as training data for the
energy.

All searches of a theorem are merged. A state on the path of any proof counts as on the path, with
its shortest distance to the end. Only the hash of a theorem's name decides whether it is held out,
in all iterations and with all seeds.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base import stats
from core.base.errors import UserError
from core.base.seeds import derive
from core.base.stats import Estimate
from labs.lean import trajectories
from labs.lean.energy import Stored, text_of
from labs.lean.trajectories import POSITIVE

HELD_OUT = 5  # about one theorem in five is held out
NEGATIVES = 7  # most states off the path in a training example
PADDING = -1  # fills up an example with fewer states
# The expected shares of siblings of path states, of the theorem's other states, and of states of
# other theorems.
SIBLINGS = 0.3
SAME = 0.4
ELSEWHERE = 0.3

Pairs = tuple[tuple[int, int], ...]  # of a state on the path and a sibling off it
Row = Mapping[str, Any]  # of a trajectory, with its state's number


@dataclass(frozen=True)
class Tree:
    """The numbers of the states of a theorem. `on_path`: states on the path, and for each the
    number of tactics to a proof's end. `siblings`: states off the path whose parent is on it.
    `others`: all other states off the path. `pairs`, for the AUC: states with the same parent in
    one search, the first on the path and the second off it. `own`: pairs that the policy's own
    tactics reached."""

    theorem: str
    on_path: Mapping[int, int]
    siblings: tuple[int, ...]
    others: tuple[int, ...]
    pairs: Pairs = ()
    own: Pairs = ()

    @property
    def off_path(self) -> tuple[int, ...]:
        return self.siblings + self.others

    @property
    def is_held_out(self) -> bool:
        return derive("held out of the energy", self.theorem) % HELD_OUT == 0


def texts_in(paths: Sequence[Path]) -> list[str]:
    """Return the texts of all states in files and folders of trajectories, without repeats. Raises
    UserError."""
    states: list[str] = []
    for path in paths:
        states += trajectories.read(path)["state_pp"].unique().to_pylist()
    return list(dict.fromkeys(filter(None, map(text_of, states))))


def forest(paths: Sequence[Path], stored: Stored, probe: float) -> tuple[Tree, ...]:
    """Build the trees of trajectories, sorted by theorem. A state's number is its row among the
    `stored` embeddings. Raises UserError, also if no training data is found. A tactic is the
    policy's own unless its log probability is `probe`, the log probability of probes."""
    searches: dict[str, list[list[Row]]] = {}  # by theorem, the rows of each path
    for path in paths:
        by_theorem: dict[str, list[Row]] = {}
        for row in trajectories.read(path).to_pylist():
            if text := text_of(row["state_pp"]):  # otherwise no goal is left
                rows = by_theorem.setdefault(row["theorem_name"], [])
                rows.append(row | {"number": stored.row(text)})
        for theorem, rows in by_theorem.items():
            searches.setdefault(theorem, []).append(rows)
    trees = tuple(_tree(theorem, searches[theorem], probe) for theorem in sorted(searches))
    learned = [tree for tree in trees if not tree.is_held_out]
    if not any(tree.on_path and tree.off_path for tree in learned):
        raise UserError(
            f"{', '.join(map(str, paths))}: no theorem to train on has a proof and states off its "
            "path. Search more theorems"
        )
    return trees


def _tree(theorem: str, searches: Sequence[Sequence[Row]], probe: float) -> Tree:
    on_path = _on_path(chain(*searches))
    siblings: set[int] = set()
    others: set[int] = set()
    pairs: list[tuple[int, int]] = []
    own: list[tuple[int, int]] = []
    for rows in searches:
        path = {row["state_id"] for row in rows if row["label"] == POSITIVE}
        for row in rows:
            if row["number"] in on_path:
                continue
            if row["parent_state_id"] in path:
                siblings.add(row["number"])
            else:
                others.add(row["number"])
        for parent in sorted(path):
            below = [row for row in rows if row["parent_state_id"] == parent]
            proposed = [row for row in below if row["llm_log_prob"] != probe]
            pairs += _pairs(below, on_path)
            own += _pairs(proposed, on_path)
    return Tree(
        theorem,
        on_path=dict(sorted(on_path.items())),
        siblings=tuple(sorted(siblings)),
        others=tuple(sorted(others - siblings)),
        pairs=tuple(pairs),
        own=tuple(own),
    )


def _on_path(rows: Iterable[Row]) -> dict[int, int]:
    """Return the states on the path of any proof, and for each the shortest distance to the end."""
    distances: dict[int, int] = {}
    for row in rows:
        if row["label"] == POSITIVE:
            number, distance = row["number"], row["remaining_depth"]
            distances[number] = min(distance, distances.get(number, distance))
    return distances


def _pairs(rows: Sequence[Row], on_path: Container[int]) -> Iterator[tuple[int, int]]:
    """Pair each state of `rows` on the path with each state off it."""
    numbers = sorted({row["number"] for row in rows})
    inside = [number for number in numbers if number in on_path]
    outside = [number for number in numbers if number not in on_path]
    return product(inside, outside)


class Draws:
    """A source of training examples from `trees`. All path states are equally likely. Up to seven
    negatives are drawn with the expected shares SIBLINGS, SAME and ELSEWHERE. No example repeats a
    state. If the theorem has too few siblings or `others`, the other kind fills the gap, and then
    states of other theorems do. If other theorems have too few states, the theorem itself fills the
    gap as far as it can."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        off_path = list(chain.from_iterable(tree.off_path for tree in trees))
        self._off = np.array(off_path, np.int64)
        self.examples: list[tuple[Tree, int, int]] = []  # tree, state, distance to the proof's end
        for tree in trees:
            self.examples += [(tree, number, left) for number, left in tree.on_path.items()]
        # The standard deviation of the distances, or 1 if all are equal.
        distances = [distance for _, _, distance in self.examples]
        self.spread = float(np.std(distances)) or 1.0

    def batch(
        self, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Draw `size` examples. Return their states (size, 1 + NEGATIVES), a path state first and
        PADDING last. Also return the number of tactics (size,) from the path states to the ends of
        their proofs."""
        chosen = rng.integers(len(self.examples), size=size)
        states = np.full((size, 1 + NEGATIVES), PADDING)
        remaining = np.zeros(size)
        for row, index in enumerate(chosen):
            tree, number, remaining[row] = self.examples[index]
            drawn = [number, *self._negatives(tree, rng)]
            states[row, : len(drawn)] = drawn
        return states, remaining

    def _negatives(self, tree: Tree, rng: np.random.Generator) -> list[int]:
        siblings, same, _ = rng.multinomial(NEGATIVES, (SIBLINGS, SAME, ELSEWHERE)).tolist()
        near = rng.permutation(np.array(tree.siblings, np.int64)).tolist()
        far = rng.permutation(np.array(tree.others, np.int64)).tolist()
        # the expected numbers first, then the states that may fill a gap
        own = near[:siblings] + far + near[siblings:]
        # some are the theorem's own, or repeated
        drawn = rng.choice(self._off, 4 * NEGATIVES).tolist()
        excluded = {*tree.on_path, *own}
        elsewhere = [number for number in dict.fromkeys(drawn) if number not in excluded]
        chosen = own[: siblings + same]
        spare = own[siblings + same :]
        missing = NEGATIVES - len(chosen)
        return [*chosen, *elsewhere[:missing], *spare][:NEGATIVES]


def auc(trees: Sequence[Tree], energies: NDArray[np.float64], own: bool = False) -> Estimate:
    """Estimate the chance that a state on the path has a lower energy than a sibling off it. The
    share of such pairs is averaged over theorems. `own`: only states that the policy's tactics
    reached."""
    pairs_by_tree = [tree.own if own else tree.pairs for tree in trees]
    return stats.mean_by_problem([_share(pairs, energies) for pairs in pairs_by_tree if pairs])


def _share(pairs: Pairs, energies: NDArray[np.float64]) -> float:
    """Return the share of pairs whose state on the path has the lower energy. Ties count half."""
    scores = []
    for on_path, off_path in pairs:
        if energies[on_path] == energies[off_path]:
            scores.append(0.5)
        else:
            scores.append(float(energies[on_path] < energies[off_path]))
    return fmean(scores)
