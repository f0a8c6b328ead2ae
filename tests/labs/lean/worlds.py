"""Provide toy worlds for the search: graphs with numbers as states and edges as tactics, without
Lean."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from labs.lean.constants import LeanConstants
from labs.lean.search import Candidate, Failed, Found, World, search
from labs.lean.theorem import State, Step

PROOF = "proof"
Target = int | str  # a state; PROOF; or an error


# by state and tactic: its log probability, and where it leads
Graph = Mapping[int, Mapping[str, tuple[float, Target]]]

TACTICS = ("a", "b", "c", "d")
GRAPHS = st.dictionaries(
    st.integers(0, 7),
    st.dictionaries(
        st.sampled_from(TACTICS),
        st.tuples(
            st.floats(-20, 0),
            st.one_of(
                st.integers(0, 7),
                st.integers(0, 7),
                st.sampled_from([PROOF, "bad", "timed out", "died"]),
            ),
        ),
        max_size=4,
    ),
)


@dataclass
class Toy:
    """A world over `graph`, from state 0. `accepts` accepts proofs; `energy` is None for a world
    without energies. `jitter`: the seed of the order of answers. `log`: the requests."""

    graph: Graph
    energy: Callable[[int], float] | None = None
    accepts: Callable[[Sequence[str]], bool] = lambda tactics: True
    jitter: int | None = None
    begins: Step = field(default_factory=lambda: Step(State("0")))
    # whether no tactics are proposed for a state
    failing: Callable[[str], bool] = lambda state: False
    is_too_long: bool = False  # whether these states exceed the context
    log: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.jitter)

    async def _said(self, what: str, of: Any) -> None:
        self.log.append((what, of))
        for _ in range(self._rng.randrange(12) if self.jitter is not None else 0):
            await asyncio.sleep(0)

    async def _propose(self, state: Any) -> list[Candidate] | Failed:
        await self._said("propose", state.pp)
        if self.failing(state.pp):
            return Failed(f"propose of {state.pp} broke", self.is_too_long)
        return [
            (tactic, logprob) for tactic, (logprob, _) in self.graph.get(int(state.pp), {}).items()
        ]

    async def _run(self, tactics: Sequence[str]) -> Step:
        if not tactics:
            await self._said("start", None)
            return self.begins
        await self._said("apply", tuple(tactics))
        at: Target = 0
        for each in tactics:
            assert isinstance(at, int), "nothing is applied behind a proof or an error"
            at = self.graph[at][each][1] if each in self.graph.get(at, {}) else f"unknown {each}"
        if at == PROOF:
            return Step(State("", 0))
        return Step(State(str(at))) if isinstance(at, int) else Step(None, at)

    async def _rejected(self, tactics: Sequence[str]) -> str:
        await self._said("accept", tuple(tactics))
        return "" if self.accepts(tactics) else "sorry"

    async def _energies(self, states: Sequence[Any]) -> list[float]:
        assert self.energy
        await self._said("energy", tuple(state.pp for state in states))
        return [self.energy(int(state.pp)) for state in states]

    @property
    def world(self) -> World:
        return World(
            self._run, self._propose, self._rejected, self._energies if self.energy else None
        )

    def asked(self, what: str) -> list[Any]:
        return [of for kind, of in self.log if kind == what]


def constants(**changes: Any) -> LeanConstants:
    given: dict[str, Any] = {"PROBES": "", "BATCH": 1} | changes
    return LeanConstants(**given)


def run(toy: Toy, clock: Callable[[], float] = lambda: 0.0, **changes: Any) -> Found:
    """Search `toy`. By default the clock stops."""
    return asyncio.run(search("toy", toy.world, constants(**changes), clock))


def tree(depth: int, good: Sequence[int] = ()) -> dict[int, dict[str, tuple[float, Target]]]:
    """Return a tree with three equally likely tactics in each state, whose only proof is `good` and
    one more."""
    # the state before the proof's last tactic, and the first leaf
    end, leaves = 0, (3**depth - 1) // 2
    for number in good or (1,) * depth:
        end = 3 * end + 1 + number
    graph: dict[int, dict[str, tuple[float, Target]]] = {}
    for state in range(leaves + 3**depth):
        last: list[Target] = [PROOF if state == end else "no", "no", "no"]
        below = last if state >= leaves else [3 * state + 1 + number for number in range(3)]
        graph[state] = {f"t{number}": (-1.0, target) for number, target in enumerate(below)}
    return graph


def distance(graph: Graph) -> Callable[[int], float]:
    """Return the perfect energy: the distance of a state to a proof, 99 without one."""
    steps: dict[Target, float] = {PROOF: 0.0}
    for _ in graph:
        for state, edges in graph.items():
            steps[state] = min(
                [steps.get(state, 99.0), *(steps.get(to, 99.0) + 1 for _, to in edges.values())]
            )
    return lambda state: steps.get(state, 99.0)
