"""Sessions with real Lean: goals, errors, what is no proof, hanging tactics, processes that die."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from core.base.files import ROOT
from labs.lean import toolchain
from labs.lean.session import Session, State, Step
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers
from tests import conftest

PAIR = "(p q : Prop) : p → q → p ∧ q"
BOTH = "case left\np q : Prop\nhp : p\nhq : q\n⊢ p\n\ncase right\np q : Prop\nhp : p\nhq : q\n⊢ q"
# It leaves 2^24 goals, without ever allocating enough at a time to be given up for its heartbeats within seconds.
ENDLESS = " <;> ".join(["constructor"] * 24)
ENDLESS_STATEMENT = ": " + "(fun p => p ∧ p) (" * 24 + "True" + ")" * 24


def running(parent: int) -> list[int]:
    """The processes below `parent`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            above = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if above == parent:
            found += [int(folder.name), *running(int(folder.name))]
    return found


def leans(parent: int) -> list[int]:
    """Those of them that are Lean: the server, then its worker."""
    named = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in running(parent)}
    return [pid for pid, words in named.items() if b"libleanshared" in words]


async def both() -> list[int]:
    """The server and its worker, once both are there: one may be on its way, on a busy machine."""
    for _ in range(1000):
        if len(found := leans(os.getpid())) == 2:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("Lean's server has no worker")


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pids: list[int]) -> bool:
    for _ in range(100):
        if not any(map(is_there, pids)):
            return True
        await asyncio.sleep(0.1)
    return False


def test_it_shows_the_goals_behind_each_tactic_and_the_errors_of_the_last(lean: Toolchain) -> None:
    async def body() -> None:
        async with Session(lean) as session:
            assert await session.start(PAIR) == Step(State("p q : Prop\n⊢ p → q → p ∧ q", 1))
            assert await session.apply(PAIR, [], "intro hp hq") == Step(State("p q : Prop\nhp : p\nhq : q\n⊢ p ∧ q", 1))
            assert await session.apply(PAIR, ["intro hp hq"], "constructor") == Step(State(BOTH, 2))
            path = ["intro hp hq", "constructor", "exact hp"]
            assert await session.apply(PAIR, path, "assumption") == Step(State("", 0))
            wrong = await session.apply(PAIR, path, "exact hp")
            assert wrong.state is None and wrong.error.startswith("Type mismatch hp has type p but is expected")
            # A step back, another branch, another theorem: nothing of the last request is left.
            assert (await session.apply(PAIR, ["intro hp hq"], "exact ⟨hp, hq⟩")).state == State("", 0)
            named = "induction n with | zero => ?_ | succ n ih => ?_"
            step = await session.apply("(n : Nat) : 0 + n = n", [], named)
            assert step.state and step.state.goals == 2 and "ih : 0 + n = n\n⊢ 0 + (n + 1) = n + 1" in step.state.pp
            assert (
                await session.apply("(n : Nat) : 0 + n = n", [named, "rfl"], "rw [Nat.add_succ, ih]")
            ).state == State("", 0)
            assert (await session.apply("(𝓝 : Prop) : 𝓝 → 𝓝", ["intro h"], "assumption")).state == State("", 0)
            unknown = await session.start("(p : Prop) : p → r")
            assert unknown.state is None and unknown.error.startswith("Unknown identifier `r`")
            assert session.restarts == 0

    asyncio.run(body())


def test_what_only_looks_like_progress_is_an_error(lean: Toolchain) -> None:
    """Lean recovers from errors: it shows goals, or none, behind all of these."""
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
        async with Session(lean) as session:
            for tactic in tactics:
                step = await session.apply(PAIR, ["intro hp hq"], tactic)
                assert step.state is None and step.error and "\n" not in step.error, tactic
            for hole in ("sorry", "exact sorryAx _ false", "have h : p ∧ q := by sorry\nexact h", "exact ⟨hp, sorry⟩"):
                assert (await session.apply(PAIR, ["intro hp hq"], hole)).error.startswith("refused: ")
                assert (await session._ask(PAIR, ("intro hp hq", hole))).error == "it uses sorry"  # behind the guard
            escaped = await session._ask(PAIR, ("intro hp hq", "exact ⟨hp, hq⟩\n#print Nat"))
            assert escaped.state is None and escaped.error

    asyncio.run(body())


def test_a_tactic_that_hangs_is_ended_and_the_next_request_answered(lean: Toolchain) -> None:
    async def body() -> None:
        async with Session(lean, seconds=3) as session:
            assert (await session.start(": True")).state
            for _ in range(2):  # the second time by a fresh process
                assert await session.apply(ENDLESS_STATEMENT, [], ENDLESS) == Step(None, "timed out")
                assert not leans(os.getpid())
            assert (await session.apply(": True", [], "trivial")).state == State("", 0)
            assert session.restarts == 2

    asyncio.run(body())


def test_a_cancelled_request_leaves_nothing_running(lean: Toolchain) -> None:
    async def body() -> None:
        async with Session(lean) as session:
            assert (await session.start(": True")).state
            task = asyncio.create_task(session.apply(ENDLESS_STATEMENT, [], ENDLESS))
            await asyncio.sleep(0.5)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert not leans(os.getpid())
            assert (await session.apply(": True", [], "trivial")).state == State("", 0)

    asyncio.run(body())


def test_processes_that_die_are_started_again(lean: Toolchain) -> None:
    async def body() -> None:
        async with Session(lean) as session:
            assert (await session.start(": True")).state
            for place in (*[1] * 8, 0):  # the worker, at one moment or another of its death, then the server
                os.kill((await both())[place], signal.SIGKILL)
                assert (await session.apply(": True", [], "trivial")).state == State("", 0)
            assert session.restarts >= 1  # a server may also start a worker again by itself
            # A tactic that kills the worker whenever it is tried is answered, and asked no third time.
            deep = ": @Nat.rec (fun _ => Nat) 0 (fun _ x => x) 100000000 = 0"
            assert await session.apply(deep, [], "rfl") == Step(None, "died")
            assert (await session.apply(": True", [], "trivial")).state == State("", 0)

    asyncio.run(body())


def test_lean_is_limited_apart_from_the_network_and_ends_with_us(lean: Toolchain) -> None:
    program = f"""
import asyncio, sys
from labs.lean.session import Session
from labs.lean import toolchain
async def body():
    async with Session(toolchain.find()) as session:
        assert (await session.start(": True")).state
        print("open", flush=True)
        await session.apply({ENDLESS_STATEMENT!r}, [], {ENDLESS!r})
asyncio.run(body())
"""
    ours = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=conftest.environment(API_KEY="a-secret"),
    )
    assert ours.stdout and ours.stdout.readline() == "open\n"
    pids = leans(ours.pid)
    assert len(pids) == 2
    for pid in pids:
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert "unlimited" not in next(line for line in limits.splitlines() if line.startswith("Max data size"))
        assert "unlimited" not in next(line for line in limits.splitlines() if line.startswith("Max cpu time"))
        assert b"a-secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert "qed-rsa-lean-" in os.readlink(f"/proc/{pid}/cwd")
        if not toolchain.open_cage()["open_network"]:
            assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    time.sleep(0.5)  # the worker is busy, and hears nothing
    ours.kill()
    ours.wait()
    assert asyncio.run(gone(pids))


def test_workers_share_the_work_and_are_replaced_when_they_are_old(lean: Toolchain) -> None:
    async def body() -> None:
        async with Workers(lean, 2, most_requests=3) as workers:
            other = "(p : Prop) : p → p"
            await asyncio.gather(workers.start(PAIR), workers.start(other))
            assert {session.open[0] for session in workers.sessions} == {PAIR, other}
            before = [session.requests for session in workers.sessions if session.open[0] == other]
            await workers.apply(other, [], "intro h")  # the one that has it open
            assert [s.requests for s in workers.sessions if s.open[0] == other] == [before[0] + 1]
            steps = await asyncio.gather(*(workers.apply(PAIR, ["intro a b"], "exact ⟨a, b⟩") for _ in range(8)))
            assert {step.state for step in steps} == {State("", 0)}
            assert workers.recycled and workers.restarts == workers.recycled
            assert workers.requests == 11
        assert not leans(os.getpid())

    asyncio.run(body())
