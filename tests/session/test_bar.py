"""What a run says of itself while it runs: drawn by the clock, fitted to the terminal, and lines in a log file."""

import asyncio
import os
import pty
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.terminal import aligned, short, wrapped
from core.plan.progress import ANY, Expected, Forecast
from core.session import bar
from core.session.bar import Bar, fitting
from core.types import Completion
from tests.conftest import ROOT, environment, heed_signals, python, run
from tests.fakes.http import HttpFake, Request, answer, reset
from tests.generate.test_retry import MODELS, chat


@given(st.lists(st.text(st.characters(categories=["L"]), max_size=30), max_size=6), st.integers(0, 90))
def test_what_is_said_fits_and_keeps_its_order(parts: list[str], columns: int) -> None:
    kept = fitting(parts, columns)
    assert sum(len(part) + 2 for part in kept) <= columns
    whole = [part for part in kept if not part.endswith("…")]
    positions = iter(parts)
    assert all(any(part == other for other in positions) for part in whole)
    assert not parts or columns < max(bar.LEAST, 3) or len(kept) > 0


def test_the_most_important_is_rather_cut_than_left_out() -> None:
    words = "retrying 16: status 501: not implemented by this server at all, and never will be"
    assert fitting([words, "3 in flight"], 30) == [words[:27] + "…"]


class Server:
    in_flight, streamed, trouble, reason = 3, 120, "", ""


async def beats(seconds: float, server: Server) -> None:
    forecast = Forecast({ANY: Expected(10, 1.0, 1.0)})
    with Bar("07_nomos", 10, forecast) as shown:
        async with shown.beating(server, lambda: "mean accuracy 50.0% at t=1, n=2"):
            shown.arrived(Completion("k", 0, answer="x", prompt_tokens=1, completion_tokens=80), True)
            forecast.arrived(("judge", 0), 80.0)
            shown.arrived(Completion("k", 0, error="status 500"), True)
            await asyncio.sleep(seconds)


def test_in_a_log_it_is_a_line_by_the_clock(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bar, "SECONDS_IN_A_LOG", 0.05)
    asyncio.run(beats(1.0, Server()))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2, "nothing arrives, and it is still said how it is"
    assert re.fullmatch(
        r"07_nomos: 20%, 2/10 gen, 00:0\d, failed 1, ≤ \S+ left, 3 in flight, 200 tok, [\d,]+ tok/s, "
        r"mean accuracy 50.0% at t=1, n=2",
        lines[0],
    )


def test_a_server_in_trouble_comes_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bar, "SECONDS_IN_A_LOG", 0.05)
    away = Server()
    away.trouble, away.reason = "server away 40 of 124 s", "no connection"
    asyncio.run(beats(0.5, away))
    line = capsys.readouterr().err.splitlines()[0]
    assert "00:00, server away 40 of 124 s, failed 1, 3 in flight, no connection" in line and "left" not in line


class Slow(HttpFake):
    """A server that answers after so many seconds."""

    seconds, is_gone = 3.0, False

    def get(self, request: Request) -> None:
        answer(200 if request.path == "/v1/models" else 404, MODELS)(request)

    def post(self, request: Request, body: bytes) -> None:
        time.sleep(self.seconds)
        if self.is_gone:
            return reset(request)
        answer(200, chat("\\boxed{1}"))(request)


def shown_on_a_terminal(args: list[str], columns: int, until: str = "", **changes: str) -> str:
    """All that a program writes to a terminal so wide; it is ended when it has written `until`, if that is anything."""
    import fcntl
    import struct
    import subprocess
    import sys
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in environment(**changes).items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, *args], env=env, stdout=theirs, stderr=theirs, cwd=ROOT, preexec_fn=heed_signals
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
        if until and until.encode() in seen and seen.endswith(b"]"):
            process.kill()
            break
    os.close(ours)
    assert process.wait(300) == (-9 if until else 0), seen.decode()
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
    drawn = [line for line in re.split(r"[\r\n]+", seen) if "gen [" in line]
    clocks = {found[0] for line in drawn if (found := re.findall(r"gen \[(\d\d:\d\d)", line))}
    assert len(clocks) >= 3 and any("2 in flight" in line for line in drawn), drawn
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", seen)
    paths = ("results ", "plot ")  # a path is not broken
    assert [line for line in re.split(r"[\r\n]+", plain) if len(line) > 80 and not line.startswith(paths)] == []
    assert "1 judged" in plain and "no room for: " in plain and plain.rstrip().splitlines()[-1].startswith("final: ")


def test_a_server_that_goes_away_is_told_as_it_is(results: Path) -> None:
    """It answers once, and then nobody does."""
    server = Slow()
    server.seconds = 0.3
    process = python(
        str(ROOT / "experiments" / "02_rsa_basic.py"), "LIMIT=1", "T=3", "PROBLEMS=sums", "CONCURRENCY=1",
        BASE_URL=server.url, RESULTS_DIR=str(results),
    )  # fmt: skip
    journal = results / "journal" / "02_rsa_basic.jsonl"
    assert process.stderr
    try:
        while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
            time.sleep(0.02)
        server.is_gone = True
        server.close()
        while line := process.stderr.readline():
            if "server away" in line:
                break
        assert re.search(r"server away \d+ of \d+ s, \d in flight, no connection, ", line)
    finally:
        process.kill()
        process.communicate()


def test_prose_is_broken_between_words_and_tables_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    text = wrapped("note: " + "word " * 20, "  ")
    assert max(map(len, text.splitlines())) <= 44 and text.splitlines()[1].startswith("  word")
    assert aligned([["step", "n"], ["0 a", "1"], ["1 longer", "22"]]).splitlines()[2:] == [
        "0 a        1",
        "1 longer  22",
    ]
    assert [short(n) for n in (0, 812, 2400, 175_300, 4_560_000)] == ["0", "812", "2.4k", "175k", "4.6M"]


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["n=4"], "Did you mean N=4?"),
        (["--limit", "3"], "Did you mean LIMIT=3?"),
        (["--temperature=0.2"], "Did you mean TEMPERATURE=0.2?"),
        (["TEMP=1"], "Did you mean TEMPERATURE=1?"),
        (["MAXTOKENS=9"], "Did you mean MAX_TOKENS=9?"),
    ],
)
def test_what_was_meant_is_said(results: Path, args: list[str], meant: str) -> None:
    status, _, err = run("02_rsa_basic", *args)
    assert status == 2 and meant in err and err.count("\n") == 1


def test_what_stands_before_a_command_and_what_behind_it_is_said(results: Path) -> None:
    status, _, err = run("02_rsa_basic", "BASE_URL=http://127.0.0.1:1/v1")
    assert status == 2 and "BASE_URL stands before the command: BASE_URL=http://127.0.0.1:1/v1 bash" in err
    status, _, err = run("02_rsa_basic", "API_KEY=secret")
    assert status == 2 and "secret" not in err
    status, _, err = run("02_rsa_basic", MODEL="/nowhere.gguf", N="4")
    assert status == 2 and "note: N=4 in the environment says nothing to a run" in err
    assert "error: MODEL=/nowhere.gguf: nothing here serves it" in err


def test_an_experiment_explains_itself_at_80_columns(results: Path) -> None:
    status, out, err = run("07_nomos", "--help", COLUMNS="80")
    assert status == 0 and not err
    assert out.startswith("The harness of Nomos") and max(map(len, out.splitlines())) <= 80
    assert re.search(r"^  N=16 +solutions to begin with \(1 to 1,024\)$", out, re.MULTILINE)
    assert re.search(r"^  TOP_P=1.0 +nucleus sampling", out, re.MULTILINE)


class Failing(Slow):
    """A server that answers three requests, and says why not to all others."""

    seconds, asked = 0.0, 0

    def post(self, request: Request, body: bytes) -> None:
        self.asked += 1
        if self.asked <= 3:
            return super().post(request, body)
        answer(501, {"error": {"message": "not implemented on this server, and a long text about why"}})(request)


def test_on_a_terminal_a_failing_server_is_told_without_a_line_that_is_too_wide(results: Path) -> None:
    server = Failing()
    try:
        seen = shown_on_a_terminal(
            [str(ROOT / "experiments" / "02_rsa_basic.py"), "LIMIT=1", "T=0", "PROBLEMS=sums", "CONCURRENCY=4"],
            80,
            until="sends nothing usable",
            BASE_URL=server.url,
            RESULTS_DIR=str(results),
        )
    finally:
        server.close()
    lines = re.split(r"[\r\n]+", seen)
    told = re.compile(r"3/8 gen \[\d\d:\d\d, retrying \d( in \d s)?, \d in flight, status 501")
    assert any(map(told.search, lines)), seen
    assert "sends nothing usable" in seen and max(map(len, lines)) <= 80
