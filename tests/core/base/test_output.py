"""Commands whose output nobody takes (a pipe without a reader, a full disk), signals, and few open
files."""

import errno
import io
import json
import os
import pty
import resource
import signal
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from core.base import signals
from core.base.errors import RunFailed, UserError, command, guarded_output
from core.base.terminal import columns
from core.client import http_client
from core.engines.protocol import Server
from tests.conftest import ROOT, ended, python
from tests.fakes.server import ScriptedServer

SIGPIPE = 128 + signal.SIGPIPE
SMALL = ("LIMIT=2", "T=1", "N=2", "K=2", "MAX_TOKENS=60")
HEAD = (
    "head = Popen(['head', '-1'], stdin=PIPE); [os.dup2(head.stdin.fileno(), fd) for fd in (1, 2)]"
)
# Statuses: that of SIGPIPE where the reader has left, as other programs have it; 1 where a disk is
# full.
LOST = [
    (HEAD, SIGPIPE),
    *((f"os.dup2(os.open('/dev/full', os.O_WRONLY), {fd})", 2 - fd) for fd in (1, 2)),
]


def after(line: str, folder: Path, *args: str, **changes: str) -> tuple[int, str, str]:
    """Run an experiment in a process that first runs a line of Python."""
    run = f"runpy.run_path('{ROOT}/experiments/02_rsa_basic.py', run_name='__main__')"
    (folder / "program.py").write_text(
        f"import os, resource, runpy\nfrom subprocess import *\n{line}\n{run}\n"
    )
    return ended(python(str(folder / "program.py"), *SMALL, *args, **changes))


@pytest.mark.parametrize(("line", "status"), LOST)
def test_a_run_whose_output_is_lost_saves_all_and_ends_as_other_programs_do(
    results: Path, server: ScriptedServer, tmp_path: Path, line: str, status: int
) -> None:
    # a process that is not forked, so that Python itself ends it
    own = {"PYTHONHASHSEED": "0"} if line == HEAD else {}
    ended_as, out, err = after(line, tmp_path, "PROBLEMS=sums", BASE_URL=server.url, **own)
    assert ended_as == status, err
    for words in ("Traceback", "Exception ignored", "Broken pipe"):
        assert words not in out + err
    document = json.loads((results / "02_rsa_basic.json").read_text())
    assert document["complete"] and [len(problem["steps"]) for problem in document["problems"]] == [
        2,
        2,
    ]
    assert (results / "02_rsa_basic.png").exists(), "it went on behind what it could not show"
    assert len((results / "journal" / "02_rsa_basic.jsonl").read_text().splitlines()) == 8


# what a command's body raises, its status, and lines on standard error
ENDS: list[tuple[Any, int, int]] = [
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
    assert (
        errors.getvalue().count("\n") == lines and errors.getvalue().replace("\n", "").isprintable()
    )


def test_what_the_terminal_cannot_encode_is_shown_as_escapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown := io.BytesIO(), "ascii"))
    with guarded_output():
        print("π…")
    assert shown.getvalue() == b"\\u03c0\\u2026\n"


def test_a_notebook_has_no_width_even_if_it_was_started_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert columns() == 0


def test_errors_wrap_at_words_to_the_terminal_they_are_shown_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin, end = pty.openpty()
    termios.tcsetwinsize(begin, (24, 50))
    with open(end, "w") as terminal, pytest.raises(SystemExit), command():
        monkeypatch.setattr(sys, "stderr", terminal)
        raise UserError("a word " * 20)
    shown = os.read(begin, 10_000).decode().split("\r\n")
    assert (
        max(map(len, shown)) <= 50 < len(" ".join(shown))
        and " ".join(" ".join(shown).split()).count("a word") == 20
    )


# Open files


def test_the_soft_limit_on_open_files_is_raised_as_far_as_the_hard_one_lets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit, asked, server = [256, 1024], [], Server("other", "http://elsewhere/v1", "m", "x")

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        if -1 < wanted[1] < wanted[0]:
            raise ValueError("current limit exceeds maximum limit")
        asked.append(wanted)

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limit))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    used = len(os.listdir("/dev/fd")) + http_client.SPARE_FILES
    http_client._allow_connections(100, server)
    assert not asked, "as it is"
    http_client._allow_connections(500, server)
    assert asked.pop() == (500 + used, 1024)
    with pytest.raises(UserError, match="CONCURRENCY"):
        http_client._allow_connections(2000, server)
    limit[:] = [256, resource.RLIM_INFINITY]
    http_client._allow_connections(2000, server)
    assert asked == [(2000 + used, resource.RLIM_INFINITY)]


def test_with_few_open_files_a_run_says_what_works(results: Path, tmp_path: Path) -> None:
    few = "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))"
    status, _, err = after(few, tmp_path)
    assert status == 2 and "Traceback" not in err
    assert "CONCURRENCY" in err and after(few, tmp_path, "CONCURRENCY=2")[0] == 0


# Signals


def test_the_first_signal_stops_and_only_a_second_ctrl_c_leaves(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
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


def test_held_signals_arrive_when_the_block_ends() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seen = []
    with pytest.raises(KeyboardInterrupt), signals.held():
        signal.raise_signal(signal.SIGINT)
        seen.append("to the end")
    assert seen == ["to the end"]
