"""Search for proofs by best-first search. Given functions propose and apply tactics, score states
and accept proofs.

A round expands the best states of the frontier. A state's priority is alpha * logprob - (1 - alpha)
* energy. `logprob` is the sum or mean (LENGTH_NORMALISED) of its tactics' log probabilities.
`energy` should be low near a proof. Both are scaled to mean 0 and standard deviation 1 over the
frontier. If any state lacks an energy, alpha is 1. If priorities are equal, the older state is
expanded first. The order of replies matters only if time runs out.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from labs.lean import guard
from labs.lean.constants import LeanConstants
from labs.lean.priorities import priorities
from labs.lean.theorem import State, Step

# Reasons why a search ends without a proof.
BUDGET = "budget"
TIME = "time"
EMPTY = "frontier empty"
START = "start"
ERROR = "error"
# Names of counted failures. A tactic that the guard refuses adds no node, and counts as "refused: "
# with the reason.
REFUSED = "refused"
REPEATED = "repeated state"
LEAN = "Lean's error"
UNACCEPTED = "not accepted"
UNFINISHED = "unfinished"
UNPROPOSED = "no proposal"
TOO_LONG = "state too long"  # it exceeds the model's context or session.LONGEST_STATE
PASSING = ("timed out", "died")  # errors that may not occur again if the tactic is repeated
AS_THEY_ARE = (*PASSING, TOO_LONG)  # errors that are counted under their own names

T = TypeVar("T")
Candidate = tuple[str, float]  # a tactic and its log probability
Runs = Callable[[Sequence[str]], Awaitable[Step]]
Scores = Callable[[Sequence[State]], Awaitable[Sequence[float]]]


@dataclass(frozen=True)
class Failed:
    """The reason `why` the model proposes no tactics for a state. If it `is_too_long` for the
    model's context, another run with this model can't expand it either."""

    why: str
    is_too_long: bool = False


Proposes = Callable[[State], Awaitable[Sequence[Candidate] | Failed]]


@dataclass(frozen=True)
class World:
    """The functions that a search calls. `run(tactics)` applies tactics in order and returns the
    last result. Without tactics it returns the first state. `propose(state)` returns tactics with
    log probabilities, always the same for a state, or Failed. `rejected(tactics)` returns why a
    whole proof is not accepted, or "" if it is. `energy(states)` returns a number for each state,
    which should be low near a proof."""

    run: Runs
    propose: Proposes
    rejected: Callable[[Sequence[str]], Awaitable[str]]
    energy: Scores | None = None


@dataclass
class Node:
    """An applied tactic and its result. Node 0 is the start, without a tactic. `total` sums
    `logprob`, the tactic's log probability, from the start. `state` is "" if no `goals` are left,
    and None if the tactic failed. `error`: why it failed, or why the proof was not accepted.
    `same_as`: the other node that represents this state, or None. Only nodes with None are
    expanded. `seconds`: time since the search began."""

    number: int
    parent: int | None
    tactic: str
    logprob: float
    total: float
    depth: int
    state: str | None
    goals: int = 0
    error: str = ""
    same_as: int | None = None
    energy: float | None = None
    seconds: float = field(default=0.0, compare=False)

    def then(self, number: int, tactic: str, logprob: float, step: Step) -> "Node":
        """Return the node with this `number` for a tactic that was applied in this node's state."""
        return Node(
            number,
            parent=self.number,
            tactic=tactic,
            logprob=logprob,
            total=self.total + logprob,
            depth=self.depth + 1,
            state=step.state.pp if step.state else None,
            goals=step.state.goals if step.state else 0,
            error=step.error,
        )


@dataclass
class Found:
    """The result of a search. `reason` is "" if a proof was found, else BUDGET, TIME, EMPTY, START
    or ERROR. `why` explains the reason. EMPTY: no state was left to expand. ERROR: a failure left
    the search incomplete. `path`: nodes from the start to the proof's end. `applied`: the number of
    nodes that count towards MAX_NODES. `proposed` maps an expanded node's number to its different
    allowed tactics, probes first. `unique`: the number of different tactics that the model proposed
    for each of these nodes. `failures`: counts by name. `seconds`: time in "policy", "lean" (start
    and tactics), "energy" and "accept", which do not overlap, and in "all"."""

    theorem: str
    reason: str = ""
    why: str = ""
    nodes: list[Node] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    applied: int = 0
    proposed: dict[int, list[Candidate]] = field(default_factory=dict)
    unique: list[int] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    @property
    def is_proved(self) -> bool:
        return bool(self.path)

    @property
    def tactics(self) -> list[str]:
        """The tactics of the proof."""
        return [self.nodes[number].tactic for number in self.path[1:]]


def plain(text: str) -> str:
    """Remove insignificant spaces and empty lines from a state's text. States are equal if their
    results are."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(filter(None, lines))


def merged(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Merge equal tactics at the first place, with the best log probability. One-line tactics may
    differ in spaces."""
    best: dict[str, Candidate] = {}
    for tactic, logprob in candidates:
        text = tactic.strip()
        key = text if "\n" in text else " ".join(text.split())
        first, before = best.get(key, (tactic, logprob))
        best[key] = (first, max(before, logprob))
    return list(best.values())


async def search(
    theorem: str, world: World, config: LeanConstants, clock: Callable[[], float] = time.monotonic
) -> Found:
    """Search for a proof within the limits of `config`, and stop at the first accepted proof.
    If `world` raises an exception, the search cancels its tasks and raises that exception."""
    return await _Search(theorem, world, config, clock).run()


class _Over(Exception):
    """An exception that ends a search without a proof. Its arguments are the reason and an
    explanation."""


class _Search:
    def __init__(
        self, theorem: str, world: World, config: LeanConstants, clock: Callable[[], float]
    ) -> None:
        self.world = world
        self.config = config
        self._clock = clock
        self._began = clock()
        seconds = dict.fromkeys(("policy", "lean", "energy", "accept"), 0.0)
        self.found = Found(theorem, seconds=seconds)
        self._nodes = self.found.nodes
        self._states: dict[int, State] = {}  # by the number of the node
        self._holder: dict[str, int] = {}  # a state's text, and the node that represents the state
        self._frontier: list[int] = []
        self._failures = self.found.failures
        self._missed = ""  # the last failure that left a tactic or a state untried
        self._too_late = _Over(TIME, f"{config.SECONDS:g} s")

    async def run(self) -> Found:
        try:
            last = await self._proof()
            self.found.path = self._path(last.number)
        except _Over as over:
            self.found.reason, self.found.why = over.args
        self.found.applied = max(0, len(self._nodes) - 1)
        self.found.seconds["all"] = self._clock() - self._began
        return self.found

    async def _proof(self) -> Node:
        """Search until a proof is accepted, and return its last node. Raises _Over if no proof is
        found."""
        await self._start()
        while self._left:
            await self._score()
            left = self.config.MAX_NODES - (len(self._nodes) - 1)
            due = await self._propose(self._best(left))
            if found := await self._apply(due[:left]):
                return found
        raise self._too_late

    async def _start(self) -> None:
        (step,) = await self._all("lean", [self.world.run(())])
        if step.error or step.state is None:
            raise _Over(ERROR if step.error in PASSING else START, step.error)
        if not step.state.goals:
            raise _Over(START, "there is nothing to prove")
        self._add(Node(0, None, "", 0.0, 0.0, 0, step.state.pp, step.state.goals))

    async def _score(self) -> None:
        new = [number for number in self._frontier if self._nodes[number].energy is None]
        if not new or not self.world.energy:
            return
        states = [self._states[number] for number in new]
        (energies,) = await self._all("energy", [self.world.energy(states)])
        for number, energy in zip(new, energies, strict=True):
            self._nodes[number].energy = energy

    def _best(self, left: int) -> list[int]:
        """Take up to BATCH best states, as many as the nodes `left` allow. Raises _Over if no state
        or node is left."""
        if not self._frontier and self._missed:
            raise _Over(ERROR, self._missed)
        if not self._frontier:
            raise _Over(EMPTY, f"after {len(self._nodes) - 1} nodes")
        if not left:
            raise _Over(BUDGET, f"{self.config.MAX_NODES} nodes")
        nodes = [self._nodes[number] for number in self._frontier]
        logprobs = [self._logprob(node) for node in nodes]
        worth = priorities(logprobs, [node.energy for node in nodes], self.config.ALPHA)
        # the highest priority first, then the older state
        ranks = sorted(
            (-priority, node.number) for priority, node in zip(worth, nodes, strict=True)
        )
        best = [number for _, number in ranks]
        tactics = self.config.CANDIDATES + len(self.config.probes)  # of a state
        enough = min(self.config.BATCH, math.ceil(left / tactics))
        self._frontier = sorted(best[enough:])
        return best[:enough]

    def _logprob(self, node: Node) -> float:
        """Return the log probability by which a state is ordered."""
        depth = max(1, node.depth)
        return node.total / depth if self.config.LENGTH_NORMALISED else node.total

    async def _propose(self, chosen: Sequence[int]) -> list[tuple[int, str, float]]:
        """Return the probes and the model's tactics as rows: a chosen state's number, a tactic, its
        log probability."""
        proposing = [self.world.propose(self._states[number]) for number in chosen]
        answers = await self._all("policy", proposing)
        probes = [(probe, self.config.PROBE_LOGPROB) for probe in self.config.probes]
        for number, answer in zip(chosen, answers, strict=True):
            if isinstance(answer, Failed):
                self._note(answer)
                answer = ()
            proposed = [(tactic, min(0.0, logprob)) for tactic, logprob in answer]
            self.found.unique.append(len(merged(proposed)))
            self.found.proposed[number] = self._allowed(merged([*probes, *proposed]))
        due = []
        for number in chosen:
            due += [(number, tactic, logprob) for tactic, logprob in self.found.proposed[number]]
        return due

    def _note(self, failed: Failed) -> None:
        """Count a state for which the model proposes nothing."""
        if failed.is_too_long:
            self._failures[TOO_LONG] += 1
        else:
            self._failures[UNPROPOSED] += 1
            self._missed = f"policy: {failed.why}"

    def _allowed(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return the tactics that the guard allows, and count the others."""
        allowed = []
        for tactic, logprob in candidates:
            reason = guard.refused(tactic)
            if reason:
                self._failures[f"{REFUSED}: {reason}"] += 1
            else:
                allowed.append((tactic, logprob))
        return allowed

    async def _apply(self, due: Sequence[tuple[int, str, float]]) -> Node | None:
        """Apply tactics in parallel, and add their nodes in order. Return the last node of the
        first accepted proof. A tactic unfinished after SECONDS adds no node. Raises the errors of
        `run` and `rejected`."""
        tasks = [
            asyncio.ensure_future(self.world.run([*self._tactics(parent), tactic]))
            for parent, tactic, _ in due
        ]
        try:
            for (parent, tactic, logprob), task in zip(due, tasks, strict=True):
                with self._timed("lean"):
                    await asyncio.wait([task], timeout=self._left)
                if not task.done():
                    self._failures[UNFINISHED] += 1
                    continue  # a later tactic may have finished and may complete a proof
                node = self._nodes[parent].then(len(self._nodes), tactic, logprob, task.result())
                self._add(node)
                if node.error:
                    self._failures[node.error if node.error in AS_THEY_ARE else LEAN] += 1
                elif not node.goals and await self._is_accepted(node):
                    return node
        finally:
            await ended(tasks)
        return None

    async def _is_accepted(self, node: Node) -> bool:
        """Return whether the proof that ends in `node` is accepted. If not, note why in the
        node."""
        with self._timed("accept"):
            reason = await self.world.rejected(self._tactics(node.number))
        if reason:
            self._failures[UNACCEPTED] += 1
            node.error = f"{UNACCEPTED}: {reason}"
        return not reason

    def _add(self, node: Node) -> None:
        """Add a node. Put its state into the frontier if the state is new, or if this node replaces
        an earlier node."""
        node.seconds = self._clock() - self._began
        if node.state is not None and node.goals:
            self._states[node.number] = State(node.state, node.goals)
            before = self._holder.setdefault(plain(node.state), node.number)
            if before != node.number:
                self._failures[REPEATED] += 1
                self._replace_or_repeat(self._nodes[before], node)
            if node.same_as is None and node.depth < self.config.MAX_DEPTH:
                self._frontier.append(node.number)
        self._nodes.append(node)

    def _replace_or_repeat(self, before: Node, node: Node) -> None:
        """Choose the node that represents the common state of two nodes. The new node replaces an
        earlier node that was not expanded, if that node is less likely or too deep. An expanded
        node stays, since the tree below it depends on its path."""
        may_expand = node.depth < self.config.MAX_DEPTH
        is_better = node.total > before.total or before.depth >= self.config.MAX_DEPTH
        if before.number in self.found.proposed or not may_expand or not is_better:
            node.same_as = before.number
            return
        self._holder[plain(node.state or "")] = node.number
        before.same_as = node.number
        node.energy = before.energy
        self._frontier = [number for number in self._frontier if number != before.number]

    def _path(self, number: int) -> list[int]:
        path = [number]
        parent = self._nodes[number].parent
        while parent is not None:
            path.append(parent)
            parent = self._nodes[parent].parent
        return path[::-1]

    def _tactics(self, number: int) -> list[str]:
        return [self._nodes[step].tactic for step in self._path(number)[1:]]

    async def _all(self, part: str, calls: Sequence[Awaitable[T]]) -> list[T]:
        """Await all `calls`, whose time counts as `part`, and return their results. Raises _Over if
        the time limit is reached."""
        tasks = [asyncio.ensure_future(call) for call in calls]
        try:
            with self._timed(part):
                await asyncio.wait(tasks, timeout=self._left, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done() and task.exception():
                    task.result()  # raises the exception
            if not self._left or not all(task.done() for task in tasks):
                raise self._too_late
            return [task.result() for task in tasks]
        finally:
            await ended(tasks)

    @property
    def _left(self) -> float:
        return max(0.0, self._began + self.config.SECONDS - self._clock())

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        since = self._clock()
        yield
        self.found.seconds[part] += self._clock() - since


async def ended(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel the tasks, and wait until all have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
