"""Test the search: it respects its limits, expands the best first, and does not depend on the order
of answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from labs.lean.priorities import priorities, scaled
from labs.lean.search import (
    BUDGET,
    EMPTY,
    ERROR,
    START,
    TIME,
    Found,
    merged,
    plain,
    search,
)
from labs.lean.theorem import State, Step
from tests.labs.lean.worlds import GRAPHS, PROOF, Graph, Target, Toy, constants, distance, run, tree

ENERGIES = st.none() | st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=8).map(
    lambda them: them.__getitem__
)


def edges(graph: Graph) -> int:
    return sum(len(each) for each in graph.values())


def breadth_first(graph: Graph, depth: int) -> int | None:
    """Return the length of the shortest proof of at most `depth` tactics; None if there is none."""
    level: set[Target] = {0}
    for number in range(1, depth + 1):
        level = {
            to
            for state in level
            if isinstance(state, int)
            for _, to in graph.get(state, {}).values()
        }
        if PROOF in level:
            return number
    return None


def whole(found: Found, graph: Graph) -> None:
    """Assert the invariants of each result."""
    assert [node.number for node in found.nodes] == list(range(len(found.nodes)))
    for node in found.nodes[1:]:
        assert node.parent is not None and node.parent < node.number
        parent = found.nodes[node.parent]
        assert node.parent in found.proposed and parent.same_as is None and not parent.error
        assert node.depth == parent.depth + 1 and node.total == pytest.approx(
            parent.total + node.logprob
        )
        assert bool(node.error) == (node.state is None) or "not accepted" in node.error
    held = [
        plain(node.state)
        for node in found.nodes
        if node.state and node.goals and node.same_as is None
    ]
    assert len(set(held)) == len(held), "a state stands for itself once"
    for number, proposed in found.proposed.items():
        assert len(merged(proposed)) == len(proposed)
        assert found.nodes[number].depth < 50
    if found.is_proved:
        assert not found.reason and found.path[0] == 0 and found.nodes[found.path[-1]].state == ""
        at: Target = 0
        for tactic in found.tactics:
            assert isinstance(at, int)
            at = graph[at][tactic][1]
        assert at == PROOF
    else:
        assert (
            found.reason in (BUDGET, EMPTY, TIME, START, ERROR)
            and found.why
            and found.tactics == []
        )


@settings(max_examples=50)
@given(GRAPHS, ENERGIES, st.integers(1, 40), st.integers(1, 8), st.floats(0, 1), st.integers(1, 8))
def test_never_more_nodes_than_the_limit_and_every_result_is_whole(
    graph: Graph,
    energy: Callable[[int], float] | None,
    most: int,
    batch: int,
    alpha: float,
    asked: int,
) -> None:
    toy = Toy(graph, energy)
    found = run(toy, MAX_NODES=most, BATCH=batch, ALPHA=alpha, CANDIDATES=asked)
    whole(found, graph)
    assert found.applied <= len(toy.asked("apply")) <= most
    assert not found.is_proved or breadth_first(graph, 50) is not None
    if found.reason == BUDGET:
        assert found.applied == most


@settings(max_examples=50)
@given(GRAPHS, ENERGIES, st.integers(1, 8), st.floats(0, 1), st.integers(1, 9))
def test_a_budget_that_covers_the_space_finds_a_proof_exactly_where_breadth_first_does(
    graph: Graph, energy: Callable[[int], float] | None, batch: int, alpha: float, depth: int
) -> None:
    found = run(
        Toy(graph, energy), MAX_NODES=edges(graph) + 1, BATCH=batch, ALPHA=alpha, MAX_DEPTH=50
    )
    assert found.is_proved == (breadth_first(graph, 50) is not None)
    assert found.is_proved or found.reason == EMPTY
    shallow = run(Toy(graph), MAX_NODES=edges(graph) + 1, BATCH=batch, MAX_DEPTH=depth)
    assert len(shallow.tactics) <= depth and (
        not shallow.is_proved or breadth_first(graph, depth) is not None
    )


@settings(max_examples=50)
@given(GRAPHS, ENERGIES, st.integers(1, 30), st.integers(1, 8), st.integers(0, 99))
def test_equal_answers_make_equal_trees_in_whatever_order_they_come(
    graph: Graph, energy: Callable[[int], float] | None, most: int, batch: int, jitter: int
) -> None:
    limits: dict[str, Any] = {"MAX_NODES": most, "BATCH": batch}

    def accepts(tactics: Sequence[str]) -> bool:
        return len(tactics) != 2

    calm, hasty = (
        run(Toy(graph, energy, accepts, jitter=seed), **limits) for seed in (None, jitter)
    )
    assert calm == hasty


# Order

DEEP = tree(4, (2, 0, 1, 2))


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5])
def test_with_a_perfect_energy_the_path_alone_is_expanded(alpha: float) -> None:
    perfect = distance(DEEP)
    found = run(Toy(DEEP, perfect), ALPHA=alpha)
    assert found.is_proved and list(found.proposed) == found.path[:-1]
    assert found.applied <= 3 * 5 < run(Toy(DEEP), MAX_NODES=1000).applied
    assert run(Toy(DEEP, lambda state: -perfect(state)), ALPHA=alpha, MAX_NODES=20).reason == BUDGET


def test_of_states_that_are_worth_the_same_the_older_is_expanded_first() -> None:
    found = run(Toy(tree(2)), MAX_NODES=39)
    assert len(found.proposed) > 5 and list(found.proposed) == sorted(found.proposed)


LONG: Graph = {
    0: {"long": (-1.0, 1), "short": (-2.5, 2)},
    1: {"long": (-1.0, 3)},
    3: {"long": (-1.0, 4)},
    4: {"last": (-1.0, PROOF)},
    2: {"last": (-1.0, PROOF)},
}
EXPANDED: Graph = {
    0: {"far": (-5.0, 3), "a": (-1.0, 1)},
    1: {"b": (-1.0, 3)},
    3: {"no": (-1.0, 4)},
    4: {"last": (0.0, PROOF)},
}
PATH: Graph = {1: {"b": (-1.0, 2)}, 2: {"c": (-1.0, 3)}, 3: {"last": (-1.0, PROOF)}}
FIRST_TOO_DEEP: Graph = {0: {"a": (-1.0, 1), "d": (-9.0, 5)}, 5: {"e": (-1.0, 3)}, **PATH}
THEN_TOO_DEEP: Graph = {0: {"a": (-1.0, 1), "d": (-9.0, 3)}, **PATH}


@pytest.mark.parametrize(
    ("graph", "energies", "changes", "tactics"),
    [
        (LONG, None, {}, "short last"),
        (LONG, None, {"LENGTH_NORMALISED": 1}, "long long long last"),
        # A state met again by a better path keeps that, unless it was expanded: its tree was made
        # by the other.
        (EXPANDED, None, {}, "a b no last"),
        (EXPANDED, (0.0, 5.0, 0.0, -9.0, 6.0), {"ALPHA": 0.0}, "far no last"),
        # Depth counts before the log probability if a state could not be expanded.
        (FIRST_TOO_DEEP, None, {"MAX_DEPTH": 3}, "d e last"),
        (THEN_TOO_DEEP, None, {"MAX_DEPTH": 3}, "d last"),
        (THEN_TOO_DEEP, None, {"MAX_DEPTH": 4}, "a b c last"),
    ],
)
def test_the_best_path_is_taken(
    graph: Graph, energies: Sequence[float] | None, changes: dict[str, Any], tactics: str
) -> None:
    found = run(Toy(graph, energies.__getitem__ if energies else None), **changes)
    assert found.tactics == tactics.split()
    assert found.nodes[found.path[-1]].total == sum(
        found.nodes[number].logprob for number in found.path
    )


def test_a_column_that_says_nothing_leaves_the_order_to_the_other() -> None:
    assert priorities([-1.0, -1.0, -1.0], [3.0, 1.0, 2.0], 0.5) == [
        -0.5 * x for x in scaled([3.0, 1.0, 2.0])
    ]
    assert priorities([-1.0, -2.0], [0.3, 0.1 + 0.2], 0.5) == [
        0.5 * x for x in scaled([-1.0, -2.0])
    ]
    assert priorities([-1.0, -2.0], [5.0, 5.0], 0.0) == [0.0, 0.0]
    assert priorities([-1.0, -2.0], [None, 7.0], 0.5) == scaled([-1.0, -2.0]) == [1.0, -1.0]


# States and tactics that are met again


def test_a_state_met_again_keeps_its_energy() -> None:
    graph: Graph = {
        0: {"far": (-5.0, 3), "a": (-1.0, 1)},
        1: {"b": (-1.0, 3)},
        3: {"last": (-1.0, PROOF)},
    }
    toy = Toy(graph, lambda state: 0.0)
    found = run(toy)
    assert found.nodes[1].same_as == 3, "the node of the worse path"
    assert found.nodes[3].energy == 0 and toy.asked("energy") == [("0",), ("3", "1")]


def test_states_are_the_same_whatever_their_spaces_and_tactics_too() -> None:
    assert plain("h : p\n⊢  p ∧ q ") == plain("h :  p\n\n ⊢ p ∧ q") != plain("h : p ⊢ p ∧ q")
    candidates = [("simp", -3.0), ("  simp ", -1.0), ("exact  h", -2.0), ("exact h", -5.0)]
    assert merged(candidates) == [("simp", -1.0), ("exact  h", -2.0)]
    lines = [("have : p := by\n  simp\n  rfl", -1.0), ("have : p := by\n    simp\n  rfl", -1.0)]
    assert merged(lines) == lines


# Probes, refusals, acceptance


def test_probes_come_first_and_are_none_of_the_models_tactics() -> None:
    graph: Graph = {
        0: {"assumption": (-0.5, "no"), "a": (-1.0, 1), "rfl": (-7.0, "no")},
        1: {"b": (-0.1, 2), "rfl": (-3.0, PROOF)},
    }
    found = run(Toy(graph), PROBES="rfl; assumption", PROBE_LOGPROB=-2.0)
    assert found.tactics == ["a", "rfl"]
    assert found.proposed[0] == [("rfl", -2.0), ("assumption", -0.5), ("a", -1.0)]
    assert found.unique == [3, 2], "of the model's own"


def test_what_is_refused_never_gets_there_and_is_no_node() -> None:
    graph: Graph = {
        0: {"run_tac x": (-0.1, PROOF), "a": (-1.0, 1), "axiom": (-1.0, 1)},
        1: {"b": (-1.0, PROOF)},
    }
    toy = Toy(graph)
    found = run(toy, MAX_NODES=2)
    assert found.tactics == ["a", "b"] and found.applied == 2 == len(toy.asked("apply"))
    assert found.failures == {"refused: a hole or code": 1, "refused: a command": 1}
    assert found.proposed == {0: [("a", -1.0)], 1: [("b", -1.0)]} and found.unique == [3, 1]


def test_an_unaccepted_proof_is_noted_and_the_search_goes_on() -> None:
    graph: Graph = {
        0: {"cheat": (-0.1, PROOF), "a": (-1.0, 1)},
        1: {"cheat": (-0.1, PROOF), "b": (-1.0, PROOF)},
    }
    toy = Toy(graph, accepts=lambda tactics: "cheat" not in tactics)
    found = run(toy)
    assert found.tactics == ["a", "b"] and found.failures["not accepted"] == 2
    unaccepted = [(node.tactic, node.error) for node in found.nodes if node.error]
    assert unaccepted == [("cheat", "not accepted: sorry")] * 2
    none = run(Toy(graph, accepts=lambda tactics: False))
    assert none.reason == EMPTY and none.failures["not accepted"] == 3 and none.path == []


def test_the_first_accepted_proof_ends_it_and_what_stands_behind_is_dropped() -> None:
    graph: Graph = {0: {"a": (-3.0, "no"), "b": (-2.0, PROOF), "c": (-1.0, PROOF)}}
    for jitter in range(20):
        found = run(Toy(graph, jitter=jitter))
        assert found.tactics == ["b"] and found.applied == 2 and len(found.proposed[0]) == 3


# Failures


def test_a_theorem_that_does_not_start_says_why() -> None:
    for begins, why in (
        (Step(None, "unknown identifier"), "unknown"),
        (Step(State("", 0)), "nothing to prove"),
    ):
        found = run(Toy({}, begins=begins))
        assert (
            found.reason == START and why in found.why and found.nodes == [] and found.applied == 0
        )
    died = run(Toy({}, begins=Step(None, "died")))
    assert (died.reason, died.why) == (ERROR, "died")  # not the theorem's fault: searched anew


def test_what_goes_wrong_with_a_tactic_is_counted_by_its_reason() -> None:
    errors = ["unknown x", "timed out", "died", "type mismatch"]
    found = run(
        Toy({0: {tactic: (0.0, error) for tactic, error in zip("abcd", errors, strict=True)}})
    )
    assert found.reason == EMPTY and found.failures == {
        "Lean's error": 2,
        "died": 1,
        "timed out": 1,
    }
    assert [node.error for node in found.nodes[1:]] == errors


BRANCHES: Graph = {
    0: {"a": (-1.0, 1), "b": (-2.0, 2)},
    1: {"a": (0.0, PROOF)},
    2: {"c": (0.0, PROOF)},
}


@pytest.mark.parametrize(
    ("broken", "is_too_long", "reason", "tactics", "failures"),
    [
        (["1"], False, "", "b c", {"no proposal": 1}),
        (["1", "2"], False, ERROR, "", {"no proposal": 2}),
        (["1", "2"], True, EMPTY, "", {"state too long": 2}),  # dead ends: the verdict stands
    ],
)
def test_where_an_answer_breaks_the_others_go_on_and_an_empty_frontier_is_no_verdict(
    broken: list[Any], is_too_long: bool, reason: str, tactics: str, failures: dict[str, int]
) -> None:
    toy = Toy(BRANCHES, failing=lambda state: state in broken, is_too_long=is_too_long)
    found = run(toy)
    assert (found.reason, found.tactics, found.failures) == (reason, tactics.split(), failures)
    assert reason != ERROR or "propose" in found.why


@pytest.mark.parametrize("what", ["start", "propose", "apply", "accept", "energy"])
def test_what_is_no_failure_of_one_answer_ends_it_with_nothing_left_running(what: str) -> None:
    graph: Graph = {0: {"a": (-1.0, 1), "b": (-1.0, PROOF), "c": (-1.0, 2)}}

    class Breaking(Toy):
        async def _said(self, kind: str, of: Any) -> None:
            if kind == what and of in (None, "0", ("a",), ("b",), ("0",)):
                await asyncio.sleep(0)
                raise UserError("the server is lost")
            await super()._said(kind, of)
            if kind == what:
                await asyncio.sleep(3600)

    async def tried() -> None:
        with pytest.raises(UserError):
            await search(
                "toy", Breaking(graph, distance(graph)).world, constants(BATCH=4), lambda: 0.0
            )
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(tried())


def test_a_log_probability_above_0_is_0() -> None:
    assert run(Toy({0: {"a": (1e-6, PROOF)}})).nodes[1].logprob == 0


# Time


@dataclass
class Slow(Toy):
    """A world whose answers take the seconds in `takes`, by its own `clock`."""

    takes: dict[str, float] = field(default_factory=dict)
    now: float = 1000.0

    async def _said(self, what: str, of: Any) -> None:
        await super()._said(what, of)
        self.now += self.takes.get(what, 0.0)

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("what", "where", "times"),
    [
        ("start", "lean", 1),
        ("propose", "policy", 2),
        ("energy", "energy", 2),
        ("apply", "lean", 30),
    ],
)
def test_the_time_may_be_up_wherever_it_is_spent(what: str, where: str, times: int) -> None:
    toy = Slow(DEEP, distance(DEEP), takes={what: 30 / times})
    found = run(toy, toy.clock, SECONDS=30, MAX_NODES=1000, ALPHA=1.0)
    assert (found.reason, found.why) == (TIME, "30 s") and len(toy.asked(what)) == times
    assert found.seconds[where] == found.seconds["all"] == 30 and toy.log[-1][0] == what


def test_a_hanging_tactic_is_left_and_a_proof_behind_it_counts() -> None:
    graph: Graph = {0: {"hangs": (-1.0, "no"), "b": (-2.0, PROOF), "hangs too": (-3.0, PROOF)}}
    stopped: list[str] = []

    async def run(tactics: Sequence[str]) -> Any:
        try:
            await asyncio.sleep(3600 if tactics and "hangs" in tactics[-1] else 0)
        except asyncio.CancelledError:
            stopped.append(tactics[-1])
            raise
        return await toy._run(tactics)

    toy = Toy(graph)
    config = constants(SECONDS=0.1)
    found = asyncio.run(search("toy", replace(toy.world, run=run), config))
    assert found.tactics == ["b"] and found.failures == {"unfinished": 1} and found.applied == 1
    assert stopped == ["hangs", "hangs too"]


# Limits


def test_no_more_states_are_asked_about_than_the_nodes_left_can_use() -> None:
    for batch in (1, 4, 32):
        toy = Toy(tree(3))
        found = run(toy, MAX_NODES=20, BATCH=batch, CANDIDATES=3)
        assert found.reason == BUDGET and found.applied == 20 and len(toy.asked("propose")) == 7


def test_states_are_expanded_together_up_to_the_batch() -> None:
    toy = Toy(tree(3))
    run(toy, MAX_NODES=39, BATCH=2, CANDIDATES=3)
    rounds = "".join(what[0] for what, _ in toy.log if what in ("propose", "apply"))
    assert rounds.startswith("paaa" + "ppaaaaaa" * 3)


def test_an_empty_frontier_is_told_even_where_the_budget_is_spent_with_it() -> None:
    found = run(Toy({0: {"a": (0.0, "no")}}), MAX_NODES=1)
    assert (found.reason, found.why) == (EMPTY, "after 1 nodes")
