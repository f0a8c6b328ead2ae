"""Start server processes under a supervisor, wait until they answer, explain their failures, and
stop them completely.

`python -m core.engines.process COMMAND …` is the supervisor. It runs COMMAND in its own process
group and ends this group when the supervisor's standard input closes. So even if the parent is
killed, no server keeps a GPU's memory."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from core.base.errors import UserError, command, one_line
from core.base.files import open_log
from core.engines import environment

# for an engine on a GPU to answer (the first start loads 8 GB and captures CUDA graphs)
START_SECONDS = 1200
KILL_SECONDS = 10.0  # between terminating a process group and killing it
TAIL = 400  # lines of output kept to explain a failure
WORDS = 200  # characters of the engine's own reason
SHOWN = 15  # of these lines, printed if the server does not start and its output is in a log
POLL = 0.5  # seconds between checks of a starting server
HIDDEN = "(not shown)"  # in place of a secret

# Patterns of servers' errors, with an explanation and a remedy. The first match counts. Other
# errors are quoted.
FAILURES = (
    (
        r"address already in use|errno 98|port \d+ is (already )?in use",
        "port {port} is in use. Stop the program that uses it, or choose another PORT",
    ),
    (
        r"no nvidia driver|driver (on your system )?is too old|driver version is insufficient|"
        r"libcuda\.so|no cuda gpus are available|no cuda-capable device|"
        r"cuda driver initialization failed|driver/library version mismatch",
        "the NVIDIA driver is missing, too old or sees no GPU. Install a driver whose nvidia-smi "
        "shows CUDA 13 and the GPU, or rent a machine with such a driver",
    ),
    (
        r"out of memory|outofmemory|not enough (gpu )?memory|no available memory for the cache|"
        r"free memory on device .* is less than desired|larger than the maximum number of tokens",
        "the GPU's memory is too small ({words}). End other programs on it (nvidia-smi lists "
        "them), lower MAX_TOKENS, or set KV=fp8 if the GPU supports it",
    ),
    (
        r"cannot find any model weights|no such file.*(safetensors|config\.json)|"
        r"does not appear to have a file named|safetensorerror",
        "the weights are missing or damaged. Fetch them again. For QED-Nano, remove its folder "
        "and run setup.sh",
    ),
)

# an exception's name and text at the end of a traceback, also after the prefix of a log
_EXCEPTION = re.compile(r"(?:(?<=\] )|^)[\w.]+(?:Error|Exception): .*")
Answer = TypeVar("Answer")


@dataclass
class Process:
    """A server process that `running` has started."""

    name: str  # the engine's name in messages
    port: int
    log: Path | None
    supervisor: "subprocess.Popen[str]"
    sink: IO[str] = field(repr=False)
    secret: str = field(default="", repr=False)  # removed from its output
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL))

    def __post_init__(self) -> None:
        self._where = f". Its log is {self.log}" if self.log else ""
        self._reader = threading.Thread(target=self._copy, daemon=True)
        self._reader.start()

    def _copy(self) -> None:
        """Copy the output to `sink` without the secret. SGLang prints its settings, including the
        API key."""
        spellings = {self.secret, repr(self.secret)[1:-1], json.dumps(self.secret)[1:-1]} - {""}
        assert self.supervisor.stdout
        for line in self.supervisor.stdout:
            for spelling in spellings:
                line = line.replace(spelling, HIDDEN)
            self.tail.append(line)
            # read on if the sink is closed or full, or else the pipe fills up
            with suppress(ValueError, OSError):
                self.sink.write(line)
                self.sink.flush()

    def status(self) -> int | None:
        """Return the exit status (above 128, or negative, for a signal), or None while the process
        runs."""
        status = self.supervisor.poll()
        if status is not None:
            self._reader.join(5)  # for its last lines
        return status

    def failure(self) -> str | None:
        """Return why the process ended, with a remedy if one is known, in one line, or None while
        the process runs."""
        status = self.status()
        if status is None:
            return None
        reason = explanation(self.tail, status, self.port)
        return f"{self.name} ended with status {status}: {reason}{self._where}"

    def wait_until(self, ready: Callable[[], Answer | None], seconds: float) -> Answer:
        """Return the first result of `ready` except None. Raises UserError if the process ends or
        after `seconds`. Then the log's last lines are printed, because the chosen explanation may
        be wrong."""
        deadline = time.monotonic() + seconds
        failure = self.failure()
        while not failure and time.monotonic() < deadline:
            if (answer := ready()) is not None:
                return answer
            time.sleep(POLL)
            failure = self.failure()
        if self.log:
            for line in list(self.tail)[-SHOWN:]:
                print(f"  | {line.rstrip()}", file=sys.stderr)
        late = f"{self.name} did not answer within {seconds:.0f} s. Look for errors above"
        raise UserError(failure or f"{late}{self._where}")

    def stop(self) -> None:
        """Have the supervisor end the whole process group, and wait for it, up to 2 * KILL_SECONDS
        + 5 seconds."""
        assert self.supervisor.stdin
        with suppress(OSError):
            self.supervisor.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.supervisor.wait(2 * KILL_SECONDS + 5)
        self._reader.join(5)
        if self.log:
            with suppress(OSError):  # if the disk is full, only the last lines are lost
                self.sink.close()


@contextmanager
def running(
    name: str,
    args: Sequence[str],
    port: int,
    log: Path | None = None,
    changes: Mapping[str, str] | None = None,
    secret: str = "",
) -> Iterator[Process]:
    """Run `args` under a supervisor during the block, in an environment with `changes`.
    The output, without the `secret`, is appended to `log` or printed on standard error."""
    sink = open_log(log) if log else sys.stderr
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "core.engines.process", *args],
        env=environment.with_changes(changes or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C reaches this process only, which then stops the server
    )
    process = Process(name, port, log, supervisor, sink, secret)
    try:
        yield process
    finally:
        process.stop()


def free_port() -> int:
    """Return a port on which no program listens now."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def explanation(lines: Iterable[str], status: int, port: int) -> str:
    """Return why a server ended, from the last `lines` of its output, with a remedy if FAILURES has
    one."""
    text = "".join(lines)
    for pattern, meaning in FAILURES:
        if match := re.search(f"({pattern}).*", text, re.IGNORECASE):
            words = one_line(match[0], WORDS).rstrip(".")
            return meaning.format(port=port, words=words)
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return (
            "it was killed, most often because the machine's memory (not the GPU's) ran out. Free "
            "some memory"
        )
    return last_words(lines) or "it printed nothing"


def last_words(lines: Iterable[str]) -> str:
    """Return the last exception in `lines` that names a cause. Without one, return the last line
    that mentions an error, else the last line with text, else ""."""
    filled = [line.rstrip() for line in lines if line.strip()]
    if not filled:
        return ""
    last = _last_exception(filled)
    if not last:
        errors = [line for line in filled if "error" in line.lower()]
        last = errors[-1] if errors else filled[-1]
    return last.strip()[:300].rstrip(".")  # the message continues after it


def _last_exception(lines: Sequence[str]) -> str:
    """Return the last exception in `lines`, without the log's prefix and with an indented line that
    follows, or "". vLLM's last exception only refers to the "root cause" above it."""
    for i in reversed(range(len(lines))):
        match = _EXCEPTION.search(lines[i])
        if not match or "root cause" in lines[i]:
            continue
        following = lines[i + 1] if i + 1 < len(lines) else ""
        return match[0] + following if following.startswith(" ") else match[0]
    return ""


def hold(args: Sequence[str]) -> int:
    """Run the command `args` until it ends or standard input closes, then end its group. Return the
    exit status."""
    try:
        child = subprocess.Popen(args, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        raise UserError(
            f"{args[0]} can't be started ({error.strerror}). Check its path and permissions"
        ) from None
    watch = threading.Thread(target=sys.stdin.read, daemon=True)
    watch.start()
    while child.poll() is None and watch.is_alive():
        watch.join(0.1)
    end_group(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Terminate the group of `process`. Kill the rest when `process` has ended, or after
    KILL_SECONDS."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILL_SECONDS)


if __name__ == "__main__":
    with command():
        raise SystemExit(hold(sys.argv[1:]))
