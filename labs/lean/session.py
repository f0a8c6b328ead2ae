"""One `lean --server`: the goals after each tactic of a proof, and what is wrong with the last one.

A file is open in it: the toolchain's head, the theorem, a tactic a line, and `skip`. What changes is sent from the
first line that differs, and Lean elaborates from there: tactics before it are not run again. `$/lean/plainGoal` at
`skip` gives the goals, and the file's diagnostics say whether the tactics are right: Lean recovers from errors and
shows goals behind a tactic that failed, so goals alone prove nothing. Tactics that the guard refuses (guard.py) never
reach Lean.
"""

import asyncio
import json
import math
import re
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self

from core.base.errors import UserError, one_line
from labs.lean import guard
from labs.lean.search import TOO_LONG
from labs.lean.theorem import State, Step, opening, proof
from labs.lean.toolchain import Toolchain

TACTIC_SECONDS = 30.0  # for one tactic
START_SECONDS = 300.0  # for the first file of a process: Mathlib is read from the disk
LONGEST_ERROR = 300  # characters
LONGEST_STATE = 200_000  # characters: no model's context holds more
ERROR = 1  # a severity
FATAL = 2  # of progress: the worker has died
SORRY = re.compile(r"declaration uses .sorry.")
UNSOLVED = "unsolved goals"


class _Died(Exception):
    """The process is gone, or says what no server says."""


class Session:
    """A Lean server, started when it is first asked and again after it died or was ended: one request at a time.
    `requests` and `born` (time.monotonic) belong to the present process."""

    def __init__(self, toolchain: Toolchain, seconds: float = TACTIC_SECONDS) -> None:
        self.toolchain = toolchain
        self.seconds = seconds
        self.requests, self.born = 0, math.inf
        self.open: tuple[str, ...] = ()  # statement and tactics of the file that is open
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._said: dict[int, list[dict[str, Any]]] = {}  # diagnostics by the version they are of; the last alone
        self._lines: list[str] = []
        self._version = 0
        self._id = 0
        self._is_gone = False  # it has ended by itself
        self._done = 0  # the last version that Lean was through with
        self._through = asyncio.Event()  # news of that, or of diagnostics

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    async def run(self, statement: str, tactics: Sequence[str] = ()) -> Step:
        """Return the state after `tactics`, of which all but the last are known to work; without any, the first state,
        or an error if the statement does not elaborate."""
        if why := guard.refused_proof(statement, tactics):
            return Step(None, f"refused: {why}")
        return await self._ask(statement, tuple(tactics))

    async def end(self) -> None:
        """End the process and all that it started; the next request starts another."""
        process, self._process = self._process, None
        if self._reader:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
            self._reader = None
        self._fail_waiting()
        self._waiting.clear()
        self.open = ()
        self.requests, self.born = 0, math.inf
        if process:
            await self._stack.aclose()

    async def _ask(self, statement: str, tactics: tuple[str, ...]) -> Step:
        try:
            for _ in range(2):
                if self._process is None:
                    await self._begin()
                was_new = not self.requests
                self.requests += 1
                try:
                    async with asyncio.timeout(self.seconds):
                        step = await self._step(statement, tactics)
                    self.open = (statement, *tactics)
                    return step
                except TimeoutError:
                    await self.end()
                    return Step(None, "timed out")
                except (_Died, ConnectionError):
                    await self.end()
                    if was_new:
                        break
                # It may have died before this request, of old age or killed from outside: it is asked once more.
            return Step(None, "died")
        except BaseException:  # cancelled, say: what it is busy with belongs to nobody
            await self.end()
            raise

    async def _begin(self) -> None:
        """Start the process with the head alone. Raises UserError where that fails twice."""
        for is_last in (False, True):
            try:
                async with asyncio.timeout(START_SECONDS):
                    await self._open()
                return
            except TimeoutError:
                why = f"did not answer within {START_SECONDS:.0f} s"
            except (_Died, ConnectionError):
                why = "ended as soon as it was started"
            await self.end()
            if is_last:
                raise UserError(f"{self.toolchain.name} {why}. See that it works here, or name another LEAN")

    async def _open(self) -> None:
        self._stack = AsyncExitStack()
        args = ("-Dserver.reportDelayMs=0", "--server")
        process, folder = await self._stack.enter_async_context(self.toolchain.started(*args, stdin=True))
        self._process = process
        self._reader = asyncio.create_task(self._read(process))
        self.requests, self.born, self._version = 0, time.monotonic(), 1
        self._done, self._is_gone = 0, False
        self._said.clear()
        self._lines = self.toolchain.head.splitlines()
        self._uri = (folder / "proof.lean").as_uri()
        settings = {
            "processId": None,
            "rootUri": None,
            "capabilities": {},
            "initializationOptions": {"editDelay": 0, "hasWidgets": False},  # nobody is typing
        }
        await self._request("initialize", settings)
        await self._send({"method": "initialized", "params": {}})
        text = "\n".join(self._lines) + "\n"
        document = {"uri": self._uri, "languageId": "lean4", "version": self._version, "text": text}
        await self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        wrong = [said for said in await self._diagnostics() if said["severity"] == ERROR]
        if wrong:
            raise UserError(
                f"{self.toolchain.name} can't read what heads each file ({_shown(wrong[0])}). Build the project "
                "(lake exe cache get, lake build), or name another LEAN"
            )

    async def _step(self, statement: str, tactics: tuple[str, ...]) -> Step:
        head = self.toolchain.head.splitlines()
        first = len(head)
        await self._change(head + proof(statement, tactics).splitlines())
        at = {"line": len(self._lines) - 1, "character": 2}
        position = {"textDocument": {"uri": self._uri}, "position": at}
        shown, said = await asyncio.gather(self._request("$/lean/plainGoal", position), self._reported())
        step = self._judged(first, statement, shown, said)
        if step is None or (step.state and not step.state.goals):
            # Where the proof seems to be done, or what was reported does not fit the goals, Lean is asked whether that
            # was all. It takes 100 ms to say so, which most tactics need not wait for.
            step = self._judged(first, statement, shown, await self._diagnostics())
        return step or Step(None, "Lean shows other goals than it reports")

    def _judged(self, first: int, statement: str, shown: Any, said: list[dict[str, Any]]) -> Step | None:
        """What the goals `shown` at the end and the diagnostics `said` mean for a theorem on line `first`; None where
        they do not fit each other."""
        by = {"line": first, "character": _utf16(opening(statement)) - 2}
        wrong = [one for one in said if one["severity"] == ERROR]
        left = [one for one in wrong if one["range"]["start"] == by and one["message"].startswith(UNSOLVED)]
        if others := [one for one in wrong if one not in left]:
            return Step(None, _shown(min(others, key=_place)))
        if any(SORRY.search(one["message"]) for one in said):
            return Step(None, "it uses sorry")
        if shown is None:
            return Step(None, "it ends the proof's block")
        goals = ["\n".join(line.rstrip() for line in goal.split("\n")) for goal in shown["goals"]]
        if bool(goals) != bool(left):
            return None
        state = State("\n\n".join(goals), len(goals))
        return Step(None, TOO_LONG) if len(state.pp) > LONGEST_STATE else Step(state)

    async def _change(self, lines: list[str]) -> None:
        """Have the file hold `lines`: all from the first that differs is sent."""
        same = next((i for i, (a, b) in enumerate(zip(self._lines, lines, strict=False)) if a != b), None)
        if same is None:
            same = min(len(self._lines), len(lines))
        end = {"line": len(self._lines), "character": 0}
        text = "".join(line + "\n" for line in lines[same:])
        self._lines = lines
        self._version += 1
        change = {"range": {"start": {"line": same, "character": 0}, "end": end}, "text": text}
        document = {"uri": self._uri, "version": self._version}
        params = {"textDocument": document, "contentChanges": [change]}
        await self._send({"method": "textDocument/didChange", "params": params})

    async def _reported(self) -> list[dict[str, Any]]:
        """What Lean has said of the present version when it first was through with it: most often all."""
        version = self._version
        self._through.clear()
        while self._done != version or version not in self._said:
            await self._through.wait()
            self._through.clear()
            if self._process is None or self._is_gone:
                raise _Died
        return self._said[version]

    async def _diagnostics(self) -> list[dict[str, Any]]:
        """All that Lean has to say of the present version, when it has said all."""
        version = self._version
        await self._request("textDocument/waitForDiagnostics", {"uri": self._uri, "version": version})
        if version not in self._said:
            raise _Died
        return self._said[version]

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        self._id += 1
        number = self._id
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": number, "method": method, "params": params})
            return await future
        finally:
            self._waiting.pop(number, None)

    async def _send(self, message: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None or self._process.returncode is not None:
            raise _Died
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await self._process.stdin.drain()

    async def _read(self, process: Process) -> None:
        """Hand what the server says to who waits for it, until it ends or says what can't be read."""
        assert process.stdout
        with suppress(OSError, ValueError, KeyError, asyncio.IncompleteReadError):
            while True:
                length = 0
                while line := (await process.stdout.readline()).strip():
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                if not length:
                    break
                self._take(json.loads(await process.stdout.readexactly(length)))
        self._fail_waiting()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            if params["uri"] == self._uri and params.get("version") is not None:
                self._said = {params["version"]: params["diagnostics"]}
                self._through.set()
            return
        if message.get("method") == "$/lean/fileProgress":
            params = message["params"]
            # What was sent as it died is answered by nobody. (Before the first request it is the head that is wrong.)
            if self.requests and any(part.get("kind") == FATAL for part in params["processing"]):
                self._fail_waiting()
            elif params["textDocument"]["uri"] == self._uri and not params["processing"]:
                self._done = params["textDocument"].get("version", 0)
                self._through.set()
            return
        future = self._waiting.get(message.get("id", -1)) if "method" not in message else None
        if future is None or future.done():
            return
        if "error" in message:  # of a worker that died, above all
            future.set_exception(_Died(one_line(str(message["error"]), 200)))
        else:
            future.set_result(message.get("result"))

    def _fail_waiting(self) -> None:
        self._is_gone = True
        self._through.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_Died())


def _place(said: dict[str, Any]) -> tuple[int, int]:
    start = said["range"]["start"]
    return start["line"], start["character"]


def _shown(said: dict[str, Any]) -> str:
    return one_line(said["message"], LONGEST_ERROR)


def _utf16(text: str) -> int:
    """The length of `text` as the protocol counts it."""
    return len(text.encode("utf-16-le")) // 2
