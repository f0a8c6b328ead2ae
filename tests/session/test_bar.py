"""The progress of a run: a bar on a terminal, drawn by the clock, and lines in a log file."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from core.generate.generator import Generator
from core.session import bar
from core.session.bar import Bar
from core.types import Completion
from tests.conftest import ROOT, environment, heed_signals
from tests.fakes.http import Request
from tests.fakes.server import ScriptedServer


class Server:
    """A generator, its asker and its wire."""

    in_flight, streamed, trouble, reason = 3, 120, "", ""

    def __init__(self) -> None:
        self.asker = self.wire = self


async def beats(seconds: float, server: Server) -> None:
    with Bar("07_nomos", 10) as shown:
        async with shown.beating(cast(Generator, server), lambda: "mean accuracy 50.0% at t=1, n=2"):
            shown.arrived(Completion("k", 0, answer="x", prompt_tokens=1, completion_tokens=80), True)
            shown.arrived(Completion("k", 0, error="status 500"), True)
            await asyncio.sleep(seconds)


def test_in_a_log_it_is_a_line_by_the_clock(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bar, "SECONDS_IN_A_LOG", 0.05)
    asyncio.run(beats(0.3, Server()))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2, "also if nothing arrives"
    assert re.fullmatch(
        r"07_nomos: 20%, 2/10 completions, 00:0\d, failed 1, about \S+ left, 3 in flight, 200 tok, [\d,]+ tok/s, "
        r"mean accuracy 50.0% at t=1, n=2",
        lines[0],
    )
    away = Server()
    away.trouble, away.reason = "server unreachable for 40 s (run ends at 128 s)", "no connection"
    asyncio.run(beats(0.2, away))
    line = capsys.readouterr().err.splitlines()[0]
    assert f"00:00, {away.trouble}, failed 1, 3 in flight, no connection" in line and "left" not in line


class Slow(ScriptedServer):
    def post(self, request: Request, body: bytes) -> None:
        time.sleep(1.2)
        super().post(request, body)


def shown_on_a_terminal(args: list[str], columns: int, **changes: str) -> str:
    """Return all that a program writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in environment(**changes).items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, *args], env=env, stdout=theirs, stderr=theirs, cwd=ROOT, preexec_fn=heed_signals
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    assert process.wait(300) == 0, seen.decode()
    return seen.decode()


def test_on_a_terminal_of_80_columns_the_clock_ticks_and_all_lines_fit(results: Path) -> None:
    server = Slow()
    try:
        seen = shown_on_a_terminal(
            [str(ROOT / "experiments" / "07_nomos.py"), "LIMIT=1", "N=2", "K=2", "PERFECT=1", "PROBLEMS=sums"],
            80,
            BASE_URL=server.url,
            RESULTS_DIR=str(results),
        )
    finally:
        server.close()
    drawn = [line for line in re.split(r"[\r\n]+", seen) if re.search(r"\d/\d+ \[", line)]
    clocks = {found[0] for line in drawn if (found := re.findall(r"/\d+ \[(\d\d:\d\d)", line))}
    assert len(clocks) >= 3 and any("2 in flight" in line for line in drawn), drawn
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", seen)
    paths = ("results ", "plot ")  # a path is not broken
    assert [line for line in re.split(r"[\r\n]+", plain) if len(line) > 80 and not line.startswith(paths)] == []
    assert "1 judged" in plain and "no room for: " in plain and plain.rstrip().splitlines()[-1].startswith("final: ")
