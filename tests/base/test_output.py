"""Commands whose output nobody takes (a pipe without a reader, a full disk), signals, and few open files."""

import errno
import io
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from core.base import signals
from core.base.errors import RunFailed, UserError, command, kept
from core.base.terminal import columns
from core.engines.server import Server
from core.generate import wire
from tests.conftest import ROOT, environment, heed_signals
from tests.fakes.server import ScriptedServer

SIGPIPE = 128 + signal.SIGPIPE
PLACE: Any = {"text": True, "cwd": ROOT, "preexec_fn": heed_signals}
RUN = "experiments/02_rsa_basic.py LIMIT=2 T=1 N=2 K=2 MAX_TOKENS=60"
# Statuses: that of SIGPIPE where the reader has left, as other programs have it; 1 where a disk is full.
LOST = [("2>&1 | head -1; exit $S", SIGPIPE), ("> /dev/full", 1), ("2> /dev/full", 0)]


def shell(line: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of bash in which $P is Python and $S the status of the first command of a pipe."""
    args, env = ["bash", "-c", line.replace("$S", "${PIPESTATUS[0]}")], environment(P=sys.executable, **changes)
    return subprocess.run(args, env=env, **PLACE, capture_output=True, timeout=300)


@pytest.mark.parametrize(("redirected", "status"), LOST)
def test_a_run_whose_output_is_lost_saves_all_and_ends_as_other_programs_do(
    results: Path, server: ScriptedServer, redirected: str, status: int
) -> None:
    done = shell(f"$P {RUN} PROBLEMS=sums {redirected}", BASE_URL=server.url)
    assert done.returncode == status, done.stderr
    for words in ("Traceback", "Exception ignored", "Broken pipe"):
        assert words not in done.stdout + done.stderr
    document = json.loads((results / "02_rsa_basic.json").read_text())
    assert document["complete"] and [len(problem["steps"]) for problem in document["problems"]] == [2, 2]
    assert (results / "02_rsa_basic.png").exists(), "it went on behind what it could not show"
    assert len((results / "journal" / "02_rsa_basic.jsonl").read_text().splitlines()) == 8


ENDS: list[tuple[Any, int, int]] = [  # what a command's body raises, its status, and lines on standard error
    (None, 1, 1),
    (UserError("no\x1b[2J\nsuch thing"), 2, 1),
    (RunFailed("nothing"), 1, 1),
    (KeyboardInterrupt(), 130, 1),
    (SystemExit(3), 3, 0),
    (ExceptionGroup("tasks", [OSError(errno.EMFILE, "Too many open files")]), 2, 1),
]


@pytest.mark.parametrize(("raised", "status", "lines"), ENDS)
def test_a_command_ends_in_a_line_and_its_own_status_whether_it_is_shown_or_not(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException | None, status: int, lines: int
) -> None:
    errors = io.StringIO()
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stderr", errors)
        with pytest.raises(SystemExit) as ended, command():
            print("shown")
            if raised:
                raise raised
        assert sys.stdout is full
    assert ended.value.code == status
    assert errors.getvalue().count("\n") == lines and errors.getvalue().replace("\n", "").isprintable()


def test_what_the_terminal_cannot_encode_is_shown_as_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown := io.BytesIO(), "ascii"))
    with kept():
        print("π…")
    assert shown.getvalue() == b"\\u03c0\\u2026\n"


def test_a_notebook_has_no_width_even_if_it_was_started_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert columns() == 0


def test_errors_wrap_at_words_to_the_terminal_they_are_shown_on(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, end = pty.openpty()
    termios.tcsetwinsize(begin, (24, 50))
    with open(end, "w") as terminal, pytest.raises(SystemExit), command():
        monkeypatch.setattr(sys, "stderr", terminal)
        raise UserError("a word " * 20)
    shown = os.read(begin, 10_000).decode().split("\r\n")
    assert max(map(len, shown)) <= 50 < len(" ".join(shown)) and " ".join(" ".join(shown).split()).count("a word") == 20


# Open files


def test_the_soft_limit_on_open_files_is_raised_as_far_as_the_hard_one_lets(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, asked, server = [256, 1024], [], Server("other", "http://elsewhere/v1", "m", "x")

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        if -1 < wanted[1] < wanted[0]:
            raise ValueError("current limit exceeds maximum limit")
        asked.append(wanted)

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limit))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    used = len(os.listdir("/dev/fd")) + wire.SPARE_FILES
    wire._allow(100, server)
    assert not asked, "as it is"
    wire._allow(500, server)
    assert asked.pop() == (500 + used, 1024)
    with pytest.raises(UserError, match="CONCURRENCY"):
        wire._allow(2000, server)
    limit[:] = [256, resource.RLIM_INFINITY]
    wire._allow(2000, server)
    assert asked == [(2000 + used, resource.RLIM_INFINITY)]


def test_with_few_open_files_a_run_says_what_works(results: Path) -> None:
    done = shell(f"ulimit -n 40; $P {RUN}")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "CONCURRENCY" in done.stderr and shell(f"ulimit -n 40; $P {RUN} CONCURRENCY=2").returncode == 0


# Signals


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(signals, "_stop", signals._stop)
    before = {sign: signal.getsignal(sign) for sign in signals.STOPS}
    yield
    for sign, handler in before.items():
        signal.signal(sign, handler)


def test_the_first_signal_stops_and_only_a_second_ctrl_c_leaves(
    handlers: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    signals.catch()
    signal.raise_signal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)  # from timeout, say, in a pair
    assert not left and "Ctrl-C" in capfd.readouterr().err
    signal.raise_signal(signal.SIGINT)
    assert left == [130]


def test_held_signals_arrive_when_the_block_ends(handlers: None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seen = []
    with pytest.raises(KeyboardInterrupt), signals.held():
        signal.raise_signal(signal.SIGINT)
        seen.append("to the end")
    assert seen == ["to the end"]
