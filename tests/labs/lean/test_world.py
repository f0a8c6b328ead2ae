"""Search in real Lean, with tactics that are given."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from labs.lean import trajectories
from labs.lean.constants import LeanConstants
from labs.lean.search import BUDGET, EMPTY, START, TIME, TOO_LONG, Candidate, Found, State, search
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers
from labs.lean.world import Bench
from tests.labs.lean.test_session import ENDLESS, ENDLESS_STATEMENT

SMALL: dict[str, Any] = {"MAX_NODES": 12, "PROBES": "", "NUM_WORKERS": 2}


def found(
    lean: Toolchain, config: LeanConstants, tactics: Sequence[str], *statements: str, longest: int = 10_000
) -> list[Found]:
    """Searches beside each other in which the same tactics are proposed everywhere, the first the likeliest."""

    async def propose(state: State) -> list[Candidate]:
        return [(tactic, -float(place)) for place, tactic in enumerate(tactics)]

    async def body() -> list[Found]:
        async with Workers(lean, config.NUM_WORKERS, config.TACTIC_SECONDS) as workers:
            bench = Bench(lean, workers, 30, longest)
            theorems = [Theorem(f"t{place}", statement) for place, statement in enumerate(statements)]
            made = [search(each.name, bench.world(each, propose), config) for each in theorems]
            return list(await asyncio.gather(*made))

    return asyncio.run(body())


def test_theorems_are_proved_beside_each_other_and_false_ones_are_not(lean: Toolchain) -> None:
    tactics = ["intro h", "constructor", "assumption"]
    proved, false = found(lean, LeanConstants(**SMALL), tactics, "(p : Prop) : p → p ∧ p", "(p q : Prop) : p → q")
    assert proved.is_proved and proved.tactics == ["intro h", "constructor", "assumption", "assumption"]
    assert proved.nodes[0].state == "p : Prop\n⊢ p → p ∧ p" and proved.applied <= 12
    assert not false.is_proved and false.reason in (BUDGET, EMPTY)
    assert set(proved.seconds) == {"policy", "lean", "energy", "accept", "all"}


@pytest.mark.parametrize(
    "tactic", ["sorry", "exact test_t0", '#eval IO.println "x"', "intro h\n  end\naxiom f : False"]
)
def test_hostile_tactics_reach_no_lean_and_are_counted(tactic: str, lean: Toolchain) -> None:
    (made,) = found(lean, LeanConstants(**SMALL), [tactic], "(p : Prop) : p → p")
    assert not made.is_proved and made.reason == EMPTY
    assert made.applied == 0 or made.nodes[1].error
    assert sum(made.failures.values()) == 1


def test_a_state_that_no_context_holds_is_a_dead_end_and_kept_nowhere(lean: Toolchain) -> None:
    tactics = ["refine (fun (_ : p ∨ p ∨ p ∨ p ∨ p) => ?_) (Or.inl h)", "exact h"]
    (made,) = found(lean, LeanConstants(**SMALL), tactics[:1], "(p : Prop) (h : p) : p", longest=30)
    assert (made.reason, made.applied, made.failures) == (EMPTY, 1, {TOO_LONG: 1})
    assert [row["state_id"] for row in trajectories.rows(made, 0)] == [0]
    assert found(lean, LeanConstants(**SMALL), tactics, "(p : Prop) (h : p) : p", longest=30)[0].is_proved
    (made,) = found(lean, LeanConstants(**SMALL), tactics, "(p : Prop) (h : p) : p", longest=3)
    assert (made.reason, made.why) == (START, TOO_LONG)


def test_what_hangs_is_left_at_the_time_limit_and_lean_is_there_for_others(lean: Toolchain) -> None:
    config = LeanConstants(**SMALL | {"SECONDS": 3.0, "TACTIC_SECONDS": 5.0, "NUM_WORKERS": 1})

    async def body() -> tuple[Found, Found]:
        async with Workers(lean, 1, config.TACTIC_SECONDS) as workers:
            bench = Bench(lean, workers, 30, 10_000)

            async def hang(state: State) -> list[Candidate]:
                return [(ENDLESS, 0.0), (f"{ENDLESS} ", -1.0)]

            async def trivial(state: State) -> list[Candidate]:
                return [("trivial", 0.0)]

            hung = await search("hangs", bench.world(Theorem("hangs", ENDLESS_STATEMENT), hang), config)
            return hung, await search("true", bench.world(Theorem("true", ": True"), trivial), LeanConstants(**SMALL))

    hung, proved = asyncio.run(body())
    assert hung.reason == TIME and not hung.is_proved
    assert proved.is_proved and proved.tactics == ["trivial"]
