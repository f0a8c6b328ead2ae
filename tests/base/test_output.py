"""Commands whose output nobody takes (a pipe without a reader, a full disk, closed streams), and few open files."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.base import limits
from tests.conftest import ROOT, environment, heed_signals

RUN = "experiments/02_rsa_basic.py LIMIT=2 T=1 N=2 K=2 MAX_TOKENS=300"
SIGPIPE = 128 + 13


def shell(line: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    """A line of bash in which $P is Python and $S the status of the first command of a pipe."""
    return subprocess.run(
        ["bash", "-c", line.replace("$S", "${PIPESTATUS[0]}")],
        env=environment(**changes) | {"P": sys.executable},
        capture_output=True,
        text=True,
        cwd=ROOT,
        preexec_fn=heed_signals,
        timeout=300,
    )


LOST = [
    ("| head -1; exit $S", SIGPIPE, ""),
    ("2>&1 | head -1; exit $S", SIGPIPE, ""),
    ("| true; exit $S", SIGPIPE, ""),
    ("> /dev/full", 1, "standard output can't be written (No space left on device)"),
    ("> /dev/full 2>&1", 1, ""),
    (">&-", 1, "standard output can't be written (it was closed)"),
    ("2>&-", 0, ""),
    ("2> /dev/full", 0, ""),
    ("2>&1 >/dev/null | head -c 1; exit $S", 0, ""),
    (">&- 2>&-", 1, ""),
    ("<&- >&- 2>&-", 1, ""),
    ("> /dev/null <&-", 0, ""),
]


@pytest.mark.parametrize(("redirected", "status", "words"), LOST)
def test_a_run_whose_output_is_lost_saves_all_and_ends_as_other_programs_do(
    results: Path, redirected: str, status: int, words: str
) -> None:
    done = shell(f"$P {RUN} {redirected}")
    assert done.returncode == status, done.stderr
    assert words in done.stderr and "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stderr and "Broken pipe" not in done.stderr
    document = json.loads((results / "02_rsa_basic.json").read_text())
    assert document["complete"] and [len(problem["steps"]) for problem in document["problems"]] == [2, 2]
    assert (results / "02_rsa_basic.png").exists(), "it went on behind what it could not show"
    kept = (results / "journal" / "02_rsa_basic.jsonl").read_text().splitlines()
    assert len(kept) == 8 and all(line.startswith('{"key":') for line in kept), "no library's words got into a file"


@pytest.mark.parametrize("redirected", ["> /dev/full", "| true; exit $S", ">&- 2>&-"])
@pytest.mark.parametrize(
    "command",
    [
        "-m core.report.report",
        "-m core.report.report 02_rsa_basic --figures",
        "-m core.report.compare 02_rsa_basic 02_rsa_basic",
        "-m core.plan.plan 02_rsa_basic",
        "-m core.plan.plan --help",
    ],
)
def test_so_do_the_other_commands(ran: Path, command: str, redirected: str) -> None:
    ends_as_other_programs_do(command, redirected, ran)


def ends_as_other_programs_do(command: str, redirected: str, ran: Path) -> None:
    done = shell(f"$P {command} {redirected}", RESULTS_DIR=str(ran))
    assert done.returncode == (SIGPIPE if "true" in redirected else 1)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert done.stderr.count("\n") == (redirected == "> /dev/full"), done.stderr


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ran")
    assert shell(f"$P {RUN}", RESULTS_DIR=str(folder)).returncode == 0
    return folder


@pytest.mark.parametrize("redirected", ["2>/dev/full", ">&- 2>&-", "2>&1 | true; exit $S"])
@pytest.mark.parametrize("command", [RUN + " K=9", "-m core.plan.plan 99"])
def test_a_users_error_keeps_its_status_where_it_cannot_be_told(results: Path, command: str, redirected: str) -> None:
    done = shell(f"$P {command} {redirected}")
    assert done.returncode == 2 and "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("redirected", ["> /dev/full", ">&- 2>&-", "> >(true)"])
def test_a_server_serves_on_until_it_is_stopped(results: Path, redirected: str) -> None:
    serves_on_until_it_is_stopped("-m core.engines.start", 29892, redirected)


def serves_on_until_it_is_stopped(command: str, port: int, redirected: str) -> None:
    process = subprocess.Popen(
        ["bash", "-c", f"exec $P {command} {redirected}"],
        env=environment(PORT="29892") | {"P": sys.executable},
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=heed_signals,
    )
    try:
        with socket.socket() as client:
            while client.connect_ex(("127.0.0.1", port)):
                assert process.poll() is None
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    lost = SIGPIPE if "true" in redirected else 1
    assert process.returncode in (lost, 130)  # 130: its port was open, and it was not quite ready
    assert "Traceback" not in err and ("stopped" in err or "2>&-" in redirected)


def test_a_full_disk_under_the_results_is_another_matter(results: Path) -> None:
    program = f"""
import errno, os, runpy, sys
from core.base import files
def full(*_): raise OSError(errno.ENOSPC, "No space left on device")
os.replace = full  # what the disk says when the results are saved
sys.argv = {RUN.split()!r}
runpy.run_path({str(ROOT / RUN.split()[0])!r}, run_name="__main__")
"""
    (results / "program.py").write_text(program)
    done = shell(f"$P {results}/program.py > /dev/full", PYTHONPATH=str(ROOT))
    assert done.returncode == 2 and "the disk is full. Free some space" in done.stderr
    assert "standard output" not in done.stderr and "Traceback" not in done.stderr


def test_what_the_terminal_cannot_encode_is_shown_as_escapes(ran: Path) -> None:
    done = shell("$P -m core.plan.plan 02_rsa_basic", PYTHONIOENCODING="ascii", RESULTS_DIR=str(ran))
    assert done.returncode == 0 and done.stdout.isascii(), done.stderr


@pytest.mark.parametrize("files", [limits.LEAST, 40, 48, 64])
def test_with_few_open_files_a_run_works_or_says_what_does(results: Path, files: int) -> None:
    done = shell(f"ulimit -n {files}; $P {RUN}")
    assert "Traceback" not in done.stderr
    if done.returncode:
        line = done.stderr.splitlines()[-1]
        assert done.returncode == 2 and line.startswith("error: the system allows too few open files for 18 requests")
        advice = re.search(r"Give (CONCURRENCY=\d+), or allow more: (ulimit -n \d+)", line)
        assert advice
        assert shell(f"ulimit -n {files}; $P {RUN} {advice[1]}").returncode == 0
        assert shell(f"{advice[2]}; $P {RUN}").returncode == 0
    assert json.loads((results / "02_rsa_basic.json").read_text())["complete"]


@pytest.mark.parametrize("files", [8, limits.LEAST - 1])
@pytest.mark.parametrize("command", [RUN, "-m core.plan.plan 02_rsa_basic"])
def test_with_too_few_open_files_every_command_says_so_in_a_line(results: Path, command: str, files: int) -> None:
    done = shell(f"ulimit -n {files}; $P {command}")
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    advice = re.search(r"allow more: (ulimit -n \d+)", done.stderr)
    assert advice and shell(f"{advice[1]}; $P {command}").returncode == 0


def test_a_soft_limit_is_no_limit(results: Path) -> None:
    done = shell(f"ulimit -Sn 10; $P {RUN}")
    assert done.returncode == 0, done.stderr


def test_files_that_run_out_in_the_middle_are_told_in_a_line() -> None:
    program = """
import asyncio, os, resource
from core.base.errors import command
async def each():
    while True:
        os.pipe()
async def main():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(each())
with command():
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
    asyncio.run(main())
"""
    done = shell('$P -c "$PROGRAM"', PROGRAM=program)
    assert done.returncode == 2 and done.stderr.startswith("error: no more files may be open; allow more: ulimit -n")
    assert done.stderr.count("\n") == 1
