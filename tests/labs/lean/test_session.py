"""Test sessions with real Lean: goals, errors, false proofs, hanging tactics, processes that
die."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.lean import session as sessions
from labs.lean import toolchain
from labs.lean.search import TOO_LONG
from labs.lean.session import Session, Workers
from labs.lean.theorem import State, Step
from labs.lean.toolchain import Toolchain
from tests import conftest
from tests.helpers.processes import eventually
from tests.labs.lean.small import born, leans

PAIR = "(p q : Prop) : p → q → p ∧ q"
DONE = Step(State("", 0))
BOTH = "case left\np q : Prop\nhp : p\nhq : q\n⊢ p\n\ncase right\np q : Prop\nhp : p\nhq : q\n⊢ q"
# It leaves 2^24 goals, without ever allocating enough at a time to be given up for its heartbeats
# within seconds.
ENDLESS = " <;> ".join(["constructor"] * 24)
ENDLESS_STATEMENT = ": " + "(fun p => p ∧ p) (" * 24 + "True" + ")" * 24


async def both() -> list[int]:
    """Return the server and its worker, as soon as both run."""
    for _ in range(1000):
        if len(found := leans(os.getpid())) == 2:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("Lean's server has no worker")


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as built:
        yield built


@pytest.fixture(scope="module")
def session(lean: Toolchain, runner: asyncio.Runner) -> Iterator[Session]:
    """Return one session for all tests, in the loop of `runner`."""
    built = Session(lean)
    yield built
    runner.run(built.end())


def test_it_shows_the_goals_behind_each_tactic_and_the_errors_of_the_last(
    session: Session, runner: asyncio.Runner
) -> None:
    async def body() -> None:
        assert await session.run(PAIR) == Step(State("p q : Prop\n⊢ p → q → p ∧ q", 1))
        before = session.requests
        assert await session.run(PAIR, ["intro hp hq"]) == Step(
            State("p q : Prop\nhp : p\nhq : q\n⊢ p ∧ q", 1)
        )
        assert await session.run(PAIR, ["intro hp hq", "constructor"]) == Step(State(BOTH, 2))
        path = ["intro hp hq", "constructor", "exact hp"]
        assert await session.run(PAIR, [*path, "assumption"]) == DONE
        wrong = await session.run(PAIR, [*path, "exact hp"])
        assert wrong.state is None and wrong.error.startswith(
            "Type mismatch hp has type p but is expected"
        )
        # A step back, another branch, another theorem: nothing of the last request is left.
        assert await session.run(PAIR, ["intro hp hq", "exact ⟨hp, hq⟩"]) == DONE
        named = "induction n with | zero => ?_ | succ n ih => ?_"
        step = await session.run("(n : Nat) : 0 + n = n", [named])
        assert (
            step.state
            and step.state.goals == 2
            and "ih : 0 + n = n\n⊢ 0 + (n + 1) = n + 1" in step.state.pp
        )
        assert (
            await session.run("(n : Nat) : 0 + n = n", [named, "rfl", "rw [Nat.add_succ, ih]"])
            == DONE
        )
        assert await session.run("(𝓝 : Prop) : 𝓝 → 𝓝", ["intro h", "assumption"]) == DONE
        unknown = await session.run("(p : Prop) : p → r")
        assert unknown.state is None and unknown.error.startswith("Unknown identifier `r`")
        assert session.requests == before + 9  # of one process

    runner.run(body())


def test_what_only_looks_like_progress_is_an_error(
    session: Session, runner: asyncio.Runner
) -> None:
    tactics = (
        "exact hq",  # a goal stays
        "· exact hq",  # the block closes its goal whatever is in it
        "have h : p := by done",
        "constructor <;> exact hp",
        "first | exact hq | apply Or.inl",
        "exact",  # incomplete: the next line would be its argument
        "constructor\n· exact hp\n· exact hp",
        "exact ⟨hp, ?_⟩",
        "refine ⟨hp, _⟩",
        "rw [hp]",
    )

    async def body() -> None:
        for tactic in tactics:
            step = await session.run(PAIR, ["intro hp hq", tactic])
            assert step.state is None and step.error and "\n" not in step.error, tactic
        for hole in (
            "sorry",
            "exact sorryAx _ false",
            "have h : p ∧ q := by sorry\nexact h",
            "exact ⟨hp, sorry⟩",
        ):
            assert (await session.run(PAIR, ["intro hp hq", hole])).error.startswith("refused: ")
            # behind the guard
            assert (await session._ask(PAIR, ("intro hp hq", hole))).error == "the proof uses sorry"
        escaped = await session._ask(PAIR, ("intro hp hq", "exact ⟨hp, hq⟩\n#print Nat"))
        assert escaped.state is None and escaped.error

    runner.run(body())


def test_a_state_that_no_context_holds_is_an_error(
    session: Session, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LONGEST_STATE", 20)
    assert runner.run(session.run(PAIR)) == Step(None, TOO_LONG)
    assert runner.run(session.run("(p : Prop) : p")) == Step(State("p : Prop\n⊢ p", 1))


def test_a_tactic_that_hangs_is_ended_and_the_next_request_answered(
    session: Session, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> None:
        assert (await session.run(": True")).state
        with monkeypatch.context() as patch:
            patch.setattr(session, "seconds", 0.2)
            for _ in range(2):  # the second time by a fresh process
                assert await session.run(ENDLESS_STATEMENT, [ENDLESS]) == Step(None, "timed out")
                assert not leans(os.getpid())
        assert await session.run(": True", ["trivial"]) == DONE

    runner.run(body())


def test_a_cancelled_request_leaves_nothing_running(
    session: Session, runner: asyncio.Runner
) -> None:
    async def body() -> None:
        assert (await session.run(": True")).state
        task = asyncio.create_task(session.run(ENDLESS_STATEMENT, [ENDLESS]))
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not leans(os.getpid())
        assert await session.run(": True", ["trivial"]) == DONE

    runner.run(body())


def test_processes_that_die_are_started_again(session: Session, runner: asyncio.Runner) -> None:
    async def body() -> None:
        assert (await session.run(": True")).state
        for place in (1, 0):  # the worker, then the server
            os.kill((await both())[place], signal.SIGKILL)
            assert await session.run(": True", ["trivial"]) == DONE
        # A tactic that kills the worker whenever it is tried is answered, and asked no third time.
        deep = ": @Nat.rec (fun _ => Nat) 0 (fun _ x => x) 100000000 = 0"
        assert await session.run(deep, ["rfl"]) == Step(None, "died")
        assert await session.run(": True", ["trivial"]) == DONE

    runner.run(body())


def test_lean_is_limited_apart_from_the_network_and_ends_with_us(
    lean: Toolchain, tmp_path: Path
) -> None:
    (program := tmp_path / "program.py").write_text(f"""
import asyncio, sys
from labs.lean.session import Session
from labs.lean import toolchain
async def body():
    session = Session(toolchain.find())
    assert (await session.run(": True")).state
    print("open", flush=True)
    await session.run({ENDLESS_STATEMENT!r}, [{ENDLESS!r}])
asyncio.run(body())
""")
    ours = conftest.python(str(program), API_KEY="a-secret")
    assert ours.stdout and ours.stdout.readline() == "open\n"
    pids = leans(ours.pid)
    assert len(pids) == 2
    for pid in pids:
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert "unlimited" not in next(
            line for line in limits.splitlines() if line.startswith("Max data size")
        )
        assert "unlimited" not in next(
            line for line in limits.splitlines() if line.startswith("Max cpu time")
        )
        assert b"a-secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert "qed-rsa-lean-" in os.readlink(f"/proc/{pid}/cwd")
        if not toolchain.open_cage()["open_network"]:
            assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    time.sleep(0.2)  # the worker is busy, and hears nothing
    ours.kill()
    ours.wait()
    assert eventually(lambda: not any(map(born, pids))), "Lean outlives us"


# Several sessions


def test_workers_share_the_work_and_are_replaced_when_they_are_old(
    lean: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_REQUESTS", 3)

    async def body() -> None:
        async with Workers(lean, 2) as workers:
            other = "(p : Prop) : p → p"
            await asyncio.gather(workers.run(PAIR), workers.run(other))
            assert {session.open[0] for session in workers.sessions} == {PAIR, other}
            (nearest,) = (session for session in workers.sessions if session.open[0] == other)
            await workers.run(other, ["intro h"])
            assert nearest.requests == 2  # by the one that has it open
            born = [session.born for session in workers.sessions]
            steps = await asyncio.gather(
                *(workers.run(PAIR, ["intro a b", "exact ⟨a, b⟩"]) for _ in range(8))
            )
            assert set(steps) == {DONE} and all(
                session.requests <= 3 for session in workers.sessions
            )
            assert [session.born for session in workers.sessions] != born

    before = leans(os.getpid())
    asyncio.run(body())
    assert leans(os.getpid()) == before
