"""Start programs of this project by forking a process that has loaded their modules.

The imports of numpy, matplotlib and core take 1.2 s of a start, and the tests start hundreds of
programs. The process `python preloaded.py FD` imports them, draws a first figure, and forks for
each program. A program has its own process group, signals, descriptors, environment and folder.
"""

import atexit
import gc
import json
import os
import runpy
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

MODULES = ("matplotlib.pyplot", "pyarrow.parquet", "xllamacpp", "numpy.random", "tqdm", (
    "multiprocessing.synchronize"
),
           "encodings.idna", "core.client.http_client", "core.engines.dialects.other", (
               "core.engines.dialects.sglang"
           ),
           "core.engines.dialects.vllm", "harness.plan.plan", "harness.report.report", (
               "harness.session.equal_compute"
           ),
           "labs.star.experiment", "labs.lean.experiments", "labs.proofs.scored", (
               "labs.proofs.grade.cli"
           ))  # fmt: skip
# If these variables differ, a program must be started by itself, because they are read during the
# imports.
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "HOME", "XDG_", "MPL", "OMP_NUM_THREADS", "OPENBLAS_")
_LONGEST = 1 << 20  # bytes of a request
_NUMBER = struct.Struct("!i")  # first the process id, then the status from waitpid


class Preloaded:
    """The process that forks."""

    def __init__(self, env: Mapping[str, str], heed_signals: Callable[[], None]) -> None:
        self._env = env
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        with theirs:
            self._process = subprocess.Popen(  # held, and ended by the end of the socket
                [sys.executable, __file__, str(theirs.fileno())],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                preexec_fn=heed_signals,
                start_new_session=True,
            )

    def can_start(self, args: Sequence[str], env: Mapping[str, str]) -> bool:
        """Return whether `python ARGS` in `env` behaves the same if it is forked."""
        is_program = args[0] == "-m" or not args[0].startswith("-")
        return is_program and _at_start(env) == _at_start(self._env)

    def ask(
        self, args: Sequence[str], env: Mapping[str, str], cwd: str, fds: Sequence[int]
    ) -> None:
        """Start `python ARGS` with `fds`: standard input, output and error, and the pipe for its id
        and status."""
        content = json.dumps([list(args), dict(env), cwd]).encode()
        socket.send_fds(self._socket, [content], fds)


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


class Program(subprocess.Popen[str]):
    """A forked `python ARGS` with pipes for its output."""

    def __init__(
        self, preloaded: Preloaded, args: Sequence[str], env: Mapping[str, str], cwd: Path
    ) -> None:
        self._asking = preloaded, args, env, str(cwd)
        super().__init__(
            [sys.executable, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _execute_child(self, *given: Any) -> None:
        preloaded, args, env, cwd = self._asking
        output, error = given[13], given[15]
        self._reports, reporting = os.pipe()
        try:
            preloaded.ask(args, env, cwd, (0, output, error, reporting))
        finally:
            for fd in (output, error, reporting):
                os.close(fd)
        (self.pid,) = _NUMBER.unpack(os.read(self._reports, _NUMBER.size))
        self._child_created = True

    def _status(self, timeout: float | None) -> int | None:
        """Wait for the return code. Return None after `timeout` seconds."""
        if self.returncode is None and select.select([self._reports], [], [], timeout)[0]:
            status = os.read(self._reports, _NUMBER.size)
            os.close(self._reports)
            self.returncode = os.waitstatus_to_exitcode(_NUMBER.unpack(status)[0])
        return self.returncode

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._status(0)

    def _wait(self, timeout: float | None) -> int:
        status = self._status(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status


def _serve(ours: socket.socket) -> tuple[list[str], dict[str, str], str] | None:
    """Fork for each request. Return the request in the process for the program, None at the end of
    requests."""
    # by pidfd: the process id and the pipe that gets the status
    running: dict[int, tuple[int, int]] = {}
    while True:
        waited: list[Any] = [*running, ours]
        for ended in select.select(waited, [], [])[0]:
            if ended is not ours:
                pid, reporting = running.pop(ended)
                with suppress(BrokenPipeError):  # the reader has ended
                    os.write(reporting, _NUMBER.pack(os.waitpid(pid, 0)[1]))
                os.close(ended)
                os.close(reporting)
                continue
            content, fds, *_ = socket.recv_fds(ours, _LONGEST, 4)
            if not content:
                return None
            if not (pid := os.fork()):
                ours.close()
                for place, fd in enumerate(fds[:3]):
                    os.dup2(fd, place)
                for fd in (*fds, *running, *(reporting for _, reporting in running.values())):
                    os.close(fd)
                args, env, cwd = json.loads(content)
                return args, env, cwd
            os.setpgid(pid, pid)
            os.write(fds[3], _NUMBER.pack(pid))
            for fd in fds[:3]:
                os.close(fd)
            running[os.pidfd_open(pid)] = pid, fds[3]


def _run(args: list[str], env: dict[str, str], cwd: str) -> None:
    """Run `python ARGS` in this process."""
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)
    os.chdir(cwd)
    if args[0] == "-m":
        sys.argv, sys.path[0] = args[1:], cwd
        sys.modules.pop(args[1], None)  # as in a new process, where it is only __main__
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = args, str(Path(args[0]).parent)
        runpy.run_path(args[0], run_name="__main__")


def _leave(status: Any) -> None:
    """End this process. Python itself would first clear all modules, which takes 0.2 s, because a
    fork copies them."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # a lost pipe or a text as the status: Python reports it
    with suppress(OSError, TypeError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((status or 0) & 0xFF)
    sys.exit(status)


if __name__ == "__main__":
    # read by xllamacpp's import (core/engines)
    os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
    for module in MODULES:
        with suppress(ModuleNotFoundError):  # without the labs
            import_module(module)
    import_module("harness.results.provenance").collect()
    import_module("harness.report.page").html({})
    # fills the caches
    import_module("matplotlib.pyplot").figure(layout="constrained").gca().figure.savefig(BytesIO())
    import_module("matplotlib.pyplot").close()
    gc.freeze()  # otherwise, garbage collection in a fork takes as long as the imports
    if request := _serve(socket.socket(fileno=int(sys.argv[1]))):
        try:
            _run(*request)
        except SystemExit as ending:
            _leave(ending.code)
        _leave(0)
