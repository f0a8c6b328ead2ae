"""Server processes: started under a supervisor, watched until they answer, their failures explained, stopped whole.

`python -m core.engines.process COMMAND …` is the supervisor: it runs COMMAND in a process group of its own and ends
that group when its standard input closes. The parent may end in any way, even be killed, and no server is left behind
holding a GPU's memory.
"""

import ctypes
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from core.base.errors import UserError, command
from core.base.files import open_log
from core.engines import environment

START_SECONDS = 1200  # for an engine on a GPU to answer: the first start loads 8 GB and captures CUDA graphs
KILL_SECONDS = 10.0  # between asking a process group to end and killing it
TAIL = 400  # lines of output that are kept to explain a failure
SHOWN = 15  # of them, shown when it does not start
POLL = 0.5  # seconds between looks at a starting server
BLOT = "(not shown)"  # in a secret's place

# What servers say when they cannot start, and what to do about it; the first that fits. {port} is filled in. What is
# not here is told in the server's own words.
FAILURES = (
    (
        r"address already in use|errno 98|port \d+ is (already )?in use",
        "port {port} is in use. Stop what listens there, or choose another PORT",
    ),
    (
        r"no nvidia driver|driver (on your system )?is too old|driver version is insufficient|libcuda\.so|"
        r"no cuda gpus are available|no cuda-capable device|cuda driver initialization failed|"
        r"driver/library version mismatch",
        "the NVIDIA driver is missing, or too old for it. Install a driver whose nvidia-smi shows CUDA 13, or rent an "
        "image that has one",
    ),
    (
        r"out of memory|outofmemory|not enough memory|no available memory for the cache|"
        r"free memory on device .* is less than desired|larger than the maximum number of tokens",
        "the GPU's memory does not suffice. End other programs on it (nvidia-smi lists them), or give the cache less: "
        "KV=fp8, or a smaller MAX_TOKENS",
    ),
    (
        r"cannot find any model weights|no such file.*(safetensors|config\.json)|does not appear to have a file named|"
        r"safetensorerror",
        "the model's weights are missing or damaged. Remove their folder and run 'bash setup.sh', which fetches them "
        "again",
    ),
)

PR_SET_PDEATHSIG = 1  # Linux's <sys/prctl.h>

Answer = TypeVar("Answer")


@dataclass
class Process:
    """A server process that `running` has started. `name` is the engine's, for messages."""

    name: str
    port: int
    log: Path | None
    supervisor: "subprocess.Popen[str]"
    sink: IO[str] = field(repr=False)
    secret: str = field(default="", repr=False)  # blotted out of all it says
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL))

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._copy, daemon=True)
        self._reader.start()

    def _copy(self) -> None:
        """Its output, to `sink`, without the secret: SGLang prints its settings, the API key too."""
        spellings = {self.secret, repr(self.secret)[1:-1], json.dumps(self.secret)[1:-1]} - {""}
        assert self.supervisor.stdout
        with suppress(ValueError, OSError):  # the sink was closed: the server's words are not worth a crash
            for line in self.supervisor.stdout:
                for spelling in spellings:
                    line = line.replace(spelling, BLOT)
                self.tail.append(line)
                self.sink.write(line)
                self.sink.flush()

    def status(self) -> int | None:
        """The status that it ended with, 128 and more for a signal; None while it runs."""
        status = self.supervisor.poll()
        if status is not None:
            self._reader.join(5)  # for its last words
        return status

    def failure(self) -> str | None:
        """Why it ended, in one line with a remedy; None while it runs."""
        status = self.status()
        if status is None:
            return None
        where = f". Its log is {self.log}" if self.log else ""
        return f"{self.name} ended with status {status}: {explanation(list(self.tail), status, self.port)}{where}"

    def wait_until(self, ready: Callable[[], Answer | None], seconds: float) -> Answer:
        """What `ready` gives, as soon as it gives anything. Raises UserError when the process ends before, at once, or
        takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if why := self.failure():
                self._show_tail()
                raise UserError(why)
            if (answer := ready()) is not None:
                return answer
            time.sleep(POLL)
        self._show_tail()
        where = f" Its log is {self.log}" if self.log else ""
        raise UserError(f"{self.name} did not answer within {seconds:.0f} s.{where}")

    def _show_tail(self) -> None:
        """Its last lines, where they went to a log: the line that explains them may be wrong."""
        if self.log:
            print("".join(f"  | {line.rstrip()}\n" for line in list(self.tail)[-SHOWN:]), end="", file=sys.stderr)

    def stop(self) -> None:
        """End its whole process group, and wait until that is done: up to 2 * KILL_SECONDS."""
        assert self.supervisor.stdin
        with suppress(OSError):
            self.supervisor.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.supervisor.wait(2 * KILL_SECONDS + 5)
        self._reader.join(5)
        if self.log:
            with suppress(OSError):  # a full disk: its last words are lost, and what it did is not
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
    """Run `args` under a supervisor while the block runs, in an environment with `changes`. Its output goes to the end
    of `log`, or to standard error, with the `secret` blotted out. However the block ends, it is stopped."""
    sink = open_log(log) if log else sys.stderr
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "core.engines.process", *args],
        env=environment.with_changes(changes or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C in the terminal is ours to hear, and ours to pass on
    )
    process = Process(name, port, log, supervisor, sink, secret)
    try:
        yield process
    finally:
        process.stop()


def free_port() -> int:
    """One that nothing listens on just now."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def explanation(lines: Sequence[str], status: int, port: int) -> str:
    """What the last `lines` of a server that ended mean, and what to do."""
    text = "".join(lines)
    for pattern, words in FAILURES:
        if re.search(pattern, text, re.IGNORECASE):
            return words.format(port=port)
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "it was killed, most often because the machine's memory (not the GPU's) ran out"
    return last_words(lines) or "it said nothing"


def last_words(lines: Sequence[str]) -> str:
    """The last of `lines` that speaks of an error, else the last of all; "" where there is none."""
    said = [line.strip() for line in lines if line.strip()]
    words = next((line for line in reversed(said) if "error" in line.lower()), said[-1] if said else "")
    return words[:300].rstrip(".")  # a sentence goes on behind it


def hold(args: Sequence[str]) -> int:
    """Run `args` until they end or standard input closes; their group ends with them. Returns the exit status."""
    try:
        child = subprocess.Popen(args, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_parent)
    except OSError as error:
        raise UserError(f"{args[0]} can't be started ({error.strerror})") from None
    let_go = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        let_go.set()

    threading.Thread(target=watch, daemon=True).start()
    while child.poll() is None and not let_go.wait(0.1):
        pass
    end_group(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _die_with_parent() -> None:
    """In the child: have Linux kill it if its supervisor is killed, which could not end it any more. The processes that
    SGLang and vLLM start end with their first one by themselves."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process group whose leader is `process`: asked first, killed after KILL_SECONDS. What the leader left
    behind is killed too."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILL_SECONDS)


if __name__ == "__main__":
    with command():
        raise SystemExit(hold(sys.argv[1:]))
