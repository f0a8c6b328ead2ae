"""Run `lean --server` to get the goals after the last tactic of a proof, or the error of that
tactic.

The open file contains the toolchain's head, the theorem, one tactic on each line, and `skip`. After
a change, Lean elaborates from the first change. `$/lean/plainGoal` at `skip` returns the goals.
Lean also shows goals after a failed tactic, so the file's diagnostics decide. Workers send a
request to the idle session whose open file shares the longest beginning with it. A cancelled
request still runs to its end: most tactics take less time than Lean's start.
"""

import asyncio
import json
import math
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import takewhile
from typing import Any, Self

from core.base.errors import UserError, one_line
from labs.lean import guard
from labs.lean.accept import rejected
from labs.lean.constants import LeanConstants
from labs.lean.search import TOO_LONG, Proposes, Scores, World, ended
from labs.lean.theorem import LONGEST_ERROR, SORRY, State, Step, Theorem, opening, proof
from labs.lean.toolchain import Toolchain

START_SECONDS = 300.0  # time limit of a process's first file: Lean may read Mathlib from the disk
LONGEST_STATE = 200_000  # characters. A longer state is an error
ERROR = 1  # severity of an error in diagnostics
FATAL = 2  # kind of progress that the server reports if its worker died
UNSOLVED = "unsolved goals"
MOST_REQUESTS = 1000  # requests to one process: Lean frees no memory of earlier requests
MOST_SECONDS = 30 * 60  # life of one process
DEFAULTS = LeanConstants()


class _Died(ConnectionError):
    """An error raised if the process or its worker ended, reported an error or wrote invalid
    output."""


class Session:
    """A Lean server that handles one request at a time. The server starts on demand, and again
    after its process ended. `requests` counts the requests to the current process, and `born` is
    its start (time.monotonic)."""

    def __init__(self, toolchain: Toolchain, seconds: float = LeanConstants.TACTIC_SECONDS) -> None:
        self.toolchain, self.seconds = toolchain, seconds
        self.requests, self.born = 0, math.inf
        self.open: tuple[str, ...] = ()  # statement and tactics in the open file
        self._running = AsyncExitStack()
        self._version = self._id = 0
        self._done = 0  # the last file version that Lean finished
        # diagnostics of the last file version, by its number
        self._reports: dict[int, list[dict[str, Any]]] = {}

    async def run(self, statement: str, tactics: Sequence[str] = ()) -> Step:
        """Return the state after `tactics`, or the error of the last tactic. All earlier tactics
        must work."""
        if why := guard.refused_proof(statement, tactics):
            return Step(None, f"refused: {why}")
        return await self._ask(statement, tuple(tactics))

    async def end(self) -> None:
        """End the process and its children. The next request starts a new process."""
        self.requests, self.born, self.open = 0, math.inf, ()
        await self._running.aclose()

    async def _ask(self, statement: str, tactics: tuple[str, ...]) -> Step:
        if self.requests >= MOST_REQUESTS or time.monotonic() - self.born >= MOST_SECONDS:
            await self.end()
        is_new = not self.requests
        try:
            if is_new:
                await self._begin()
            self.requests += 1
            async with asyncio.timeout(self.seconds):
                step = await self._step(statement, tactics)
        except TimeoutError:
            await self.end()
            return Step(None, "timed out")
        # an old process may have died, or been killed, before this request: repeat it once
        except ConnectionError:
            await self.end()
            return Step(None, "died") if is_new else await self._ask(statement, tactics)
        # if cancelled, Lean would continue to compute a result that is no longer needed
        except BaseException:
            await self.end()
            raise
        self.open = (statement, *tactics)
        return step

    async def _begin(self) -> None:
        """Start the process on a file with only the head. Raises UserError if Lean fails or rejects
        the head."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._open()
        except (TimeoutError, ConnectionError):
            why = f"ended, or did not respond within {START_SECONDS:.0f} s"
            remedy = "Check that it runs here, or set LEAN to another Lean"
            raise UserError(f"{self.toolchain.name} {why}. {remedy}") from None

    async def _open(self) -> None:
        args = ("-Dserver.reportDelayMs=0", "--server")
        process, folder = await self._running.enter_async_context(
            self.toolchain.started(*args, stdin=True)
        )
        assert process.stdin and process.stdout
        self._input, self._output = process.stdin, process.stdout
        self.born, self._version, self._done = time.monotonic(), 1, 0
        self._reports.clear()
        self._uri = (folder / "proof.lean").as_uri()
        options = {"editDelay": 0, "hasWidgets": False}  # there is no user who types
        settings = {
            "processId": None,
            "rootUri": None,
            "capabilities": {},
            "initializationOptions": options,
        }
        await self._request("initialize", settings)
        await self._send({"method": "initialized", "params": {}})
        document = {
            "uri": self._uri,
            "languageId": "lean4",
            "version": 1,
            "text": self.toolchain.head,
        }
        await self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        if wrong := [each for each in await self._diagnostics() if each["severity"] == ERROR]:
            why = one_line(wrong[0]["message"], LONGEST_ERROR)
            remedy = (
                "Run 'lake exe cache get' and 'lake build', correct LEAN_HEAD's file, or set LEAN "
                "to another Lean"
            )
            raise UserError(
                f"{self.toolchain.name} can't elaborate the head of its files ({why}). {remedy}"
            )

    async def _step(self, statement: str, tactics: tuple[str, ...]) -> Step:
        first, text = (
            self.toolchain.head.count("\n"),
            self.toolchain.head + proof(statement, tactics),
        )
        self._version += 1
        document = {"uri": self._uri, "version": self._version}
        change = {"textDocument": document, "contentChanges": [{"text": text}]}
        await self._send({"method": "textDocument/didChange", "params": change})
        at = {"line": text.count("\n") - 1, "character": 2}
        shown = await self._request("$/lean/plainGoal", {"textDocument": document, "position": at})
        while self._done != self._version or self._version not in self._reports:
            await self._message()
        # The diagnostics of a finished version are usually complete.
        step = self._judged(first, statement, shown, self._reports[self._version])
        if step is None or (step.state and not step.state.goals):
            # If the proof seems complete, or the diagnostics contradict the goals, wait for all
            # diagnostics. This takes 100 ms, so other tactics do not wait.
            step = self._judged(first, statement, shown, await self._diagnostics())
        return step or Step(None, "Lean shows goals that contradict its diagnostics")

    def _judged(
        self, first: int, statement: str, shown: Any, reports: list[dict[str, Any]]
    ) -> Step | None:
        """Return the result of a theorem on line `first`, or None if the goals `shown` contradict
        `reports`."""
        length = len(opening(statement).encode("utf-16-le")) // 2  # in the protocol's units
        by = {"line": first, "character": length - 2}
        wrong = [one for one in reports if one["severity"] == ERROR]
        left = [
            one
            for one in wrong
            if one["range"]["start"] == by and one["message"].startswith(UNSOLVED)
        ]
        if others := [one for one in wrong if one not in left]:
            first_of = min(
                others,
                key=lambda one: [one["range"]["start"][part] for part in ("line", "character")],
            )
            return Step(None, one_line(first_of["message"], LONGEST_ERROR))
        if any(SORRY.search(one["message"]) for one in reports):
            return Step(None, "the proof uses sorry")
        if shown is None:
            return Step(None, "the tactic ends the proof's block")
        goals = ["\n".join(line.rstrip() for line in goal.split("\n")) for goal in shown["goals"]]
        if bool(goals) != bool(left):
            return None
        state = State("\n\n".join(goals), len(goals))
        return Step(None, TOO_LONG) if len(state.pp) > LONGEST_STATE else Step(state)

    async def _diagnostics(self) -> list[dict[str, Any]]:
        """Wait for all diagnostics of this file version, and return them."""
        await self._request(
            "textDocument/waitForDiagnostics", {"uri": self._uri, "version": self._version}
        )
        if self._version not in self._reports:
            raise _Died
        return self._reports[self._version]

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        self._id += 1
        await self._send({"id": self._id, "method": method, "params": params})
        while (message := await self._message()).get("id") != self._id or "method" in message:
            pass
        if "error" in message:  # usually because the worker died
            raise _Died
        return message.get("result")

    async def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._input.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await self._input.drain()

    async def _message(self) -> dict[str, Any]:
        """Wait for the server's next message, note its diagnostics or progress, and return it.
        Raises _Died if the server's output ends or is invalid, or if its worker died."""
        try:
            head = await self._output.readuntil(b"\r\n\r\n")
            length = int(head.lower().removeprefix(b"content-length:"))
            message: dict[str, Any] = json.loads(await self._output.readexactly(length))
        except (EOFError, ValueError):
            raise _Died from None
        match message:
            case {
                "method": "textDocument/publishDiagnostics",
                "params": {"version": version, "diagnostics": reports},
            }:
                self._reports = {version: reports}
            case {
                "method": "$/lean/fileProgress",
                "params": {"processing": parts, "textDocument": document},
            }:
                # A request to a dying worker gets no response. (Before the first request, the head
                # is at fault.)
                if self.requests and any(part.get("kind") == FATAL for part in parts):
                    raise _Died
                if not parts:
                    self._done = document.get("version", 0)
        return message


class Workers:
    """A pool of `count` sessions of one Lean, started on demand. Up to `count` more processes check
    whole proofs."""

    def __init__(self, toolchain: Toolchain, count: int, limits: LeanConstants = DEFAULTS) -> None:
        self.toolchain, self.limits = toolchain, limits
        self.sessions = [Session(toolchain, limits.TACTIC_SECONDS) for _ in range(count)]
        self._checks = asyncio.Semaphore(count)
        self._free = asyncio.Semaphore(count)
        self._running: dict[Session, asyncio.Task[Step]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        await ended(self._running.values())
        for session in self.sessions:
            await session.end()

    async def run(self, statement: str, tactics: Sequence[str] = ()) -> Step:
        """Wait for idle sessions, and call `run` of the one whose file shares the longest beginning
        with the proof."""
        path = (statement, *tactics)
        await self._free.acquire()
        idle = (session for session in self.sessions if session not in self._running)
        session = max(idle, key=lambda idle: in_common(idle.open, path))
        task = self._running[session] = asyncio.create_task(session.run(statement, tactics))
        task.add_done_callback(lambda _: self._freed(session))
        return await asyncio.shield(task)

    def _freed(self, session: Session) -> None:
        del self._running[session]
        self._free.release()

    async def rejected(self, theorem: Theorem, tactics: Sequence[str]) -> str:
        """Return why a whole proof is not accepted, or "" if it is."""
        async with self._checks:
            return await rejected(self.toolchain, theorem, tactics, self.limits.ACCEPT_SECONDS)

    def world(self, theorem: Theorem, propose: Proposes, energy: Scores | None = None) -> World:
        """Return the functions that a search of this theorem calls, with `propose` and `energy`."""
        run, check = partial(self.run, theorem.statement), partial(self.rejected, theorem)
        return World(run, propose, check, energy)


def steps(
    lean: Toolchain,
    count: int,
    proofs: Iterable[tuple[str, Sequence[str]]],
    limits: LeanConstants = DEFAULTS,
) -> list[Step]:
    """Return the result of each proof (a statement, and tactics) by `count` processes."""

    async def found() -> list[Step]:
        async with Workers(lean, count, limits) as workers:
            return await asyncio.gather(*(workers.run(*proof) for proof in proofs))

    return asyncio.run(found())


def in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the equal texts at the beginning of two sequences."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))
