"""The progress of a run: a bar on a terminal, drawn by the clock, and lines in a log file."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import termios
from pathlib import Path
from typing import cast

import pytest

from core.generate import Generator
from core.types import Completion
from harness.results import progress
from harness.session import bar
from harness.session.bar import Bar


class Server:
    """A generator."""

    in_flight, streamed, trouble, reason = 3, 120, "", ""
    ages = (1.0, 1.0, 1.0)


async def beats(seconds: float, server: Server) -> None:
    with Bar("07_nomos", 10) as shown:
        async with shown.refreshing(cast(Generator, server), lambda: "t=0 50%, 1 of 5 problems"):
            shown.arrived(
                Completion("k", 0, answer="x", prompt_tokens=1, completion_tokens=80), True
            )
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
        r"07_nomos: 20%, 00:0\d, t=0 50%, 1 of 5 problems, 00:0\d left, failed 1, "
        r"2/10 completions, [\d,]+ tok/s, 3 in flight, 200 tok",
        lines[0],
    )
    away = Server()
    away.trouble, away.reason = "server unreachable for 40 s (run ends at 128 s)", "no connection"
    asyncio.run(beats(0.2, away))
    line = capsys.readouterr().err.splitlines()[0]
    assert (
        f"00:00, {away.trouble}, t=0 50%" in line and "no connection" in line and "left" not in line
    )


def test_a_live_page_reads_the_progress_while_requests_run(tmp_path: Path) -> None:
    path = progress.path_of(tmp_path, "07_nomos")

    async def state() -> dict[str, str] | None:
        generator = cast(Generator, Server())
        with Bar("07_nomos", 10) as shown:
            shown.arrived(Completion("k", 0, answer="x", completion_tokens=80), True)
            async with shown.refreshing(generator, lambda: "t=0 50%", path):
                await asyncio.sleep(0.1)
                return progress.read(path)

    stored = asyncio.run(state())
    assert stored and stored["name"] == "07_nomos"
    assert re.fullmatch(
        r"10% of 10 completions, about 00:0\d left, [\d,]+ tok/s, t=0 50%", stored["text"]
    )
    assert list(tmp_path.iterdir()) == [], "it is removed with its draft"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_texts_that_do_not_fit_are_left_out(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with open(follower, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setattr(bar, "SECONDS", 0.05)
        asyncio.run(beats(0.3, Server()))
        drawn = os.read(leader, 100_000).decode().split("\r")
    os.close(leader)
    lines = [line.rstrip() for line in drawn if "1 of 5 problems" in line]
    assert len(lines) > 2, "also if nothing arrives"
    assert all(len(line) <= width for line in lines)
    assert all("07_nomos:  20%" in line and "left" in line for line in lines)
    assert ("3 in flight" in lines[0]) == (width == 120)
