"""The progress of a run: a bar on a terminal, drawn by the clock, and lines in a log file."""

import asyncio
import io
import re
from typing import cast

import pytest

from core.generate import Generator
from core.types import Completion
from harness.session import bar
from harness.session.bar import Bar


class Server:
    """A generator."""

    in_flight, streamed, trouble, reason = 3, 120, "", ""


async def beats(seconds: float, server: Server) -> None:
    with Bar("07_nomos", 10) as shown:
        async with shown.refreshing(
            cast(Generator, server), lambda: "mean accuracy 50.0% at t=1, n=2"
        ):
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
        r"07_nomos: 20%, 2/10 completions, 00:0\d, failed 1, about \S+ left, 3 in flight, 200 tok, "
        r"[\d,]+ tok/s, "
        r"mean accuracy 50.0% at t=1, n=2",
        lines[0],
    )
    away = Server()
    away.trouble, away.reason = "server unreachable for 40 s (run ends at 128 s)", "no connection"
    asyncio.run(beats(0.2, away))
    line = capsys.readouterr().err.splitlines()[0]
    assert (
        f"00:00, {away.trouble}, failed 1, 3 in flight, no connection" in line
        and "left" not in line
    )


def test_on_a_terminal_it_is_redrawn_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr(bar, "SECONDS", 0.05)
    asyncio.run(beats(0.3, Server()))
    drawn = [line for line in shown.getvalue().split("\r") if "2/10 [00:0" in line]
    assert (
        len(drawn) > 2 and "3 in flight, 200 tok" in drawn[0] and "mean accuracy 50.0%" in drawn[0]
    )
