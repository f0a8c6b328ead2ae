"""Test `bash setup.sh mathlib` with stand-ins for curl, elan and lake. Lean and its compiled
"Mathlib" are real."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labs.lean.toolchain import COMPILED, Toolchain
from tests.conftest import ROOT, environment
from tests.helpers.machine import stand_in
from tests.labs.lean.test_toolchain import installed

COMMIT = "2df2f0150c275ad53cb3c90f7c98ec15a56a1a67"
# "Mathlib" for the check: real numbers that are not, and a lemma with the name of Mathlib's.
MATHLIB = """prelude
import Init
structure Real where
  value : Nat
instance : Add Real := ⟨fun a b => ⟨a.value + b.value⟩⟩
theorem add_comm (a b : Real) : a + b = b + a := congrArg Real.mk (Nat.add_comm a.value b.value)
"""
CURL = """echo "$@" >>{folder}/curl
[ -e {folder}/online ] || { echo "curl: (6) Could not resolve host" >&2; exit 6; }
cat {folder}/elan-init.sh"""
ELAN = """[ "$*" = "-y --default-toolchain none --no-modify-path" ] || exit 9
mkdir -p "$ELAN_HOME/bin" && cp {folder}/lake "$ELAN_HOME/bin/lake"
"""
LAKE = """#!/bin/sh
[ -f lean-toolchain ] || exit 9
echo "$@" >>{folder}/lake.log
[ ! -e {folder}/broken ] || {{ echo "error: mathlib: failed to fetch" >&2; exit 1; }}
case "$*" in
  update)
    [ "$MATHLIB_NO_CACHE_ON_UPDATE" = 1 ] || exit 9
    rev=$(sed -n 's/^rev = //p' lakefile.toml)
    echo '{{"packages": [{{"name": "mathlib", "rev": '"$rev"'}}]}}' >lake-manifest.json ;;
  "exe cache get")
    mkdir -p .lake/lib && cp {compiled}.olean .lake/lib/Init.olean && cp {folder}/Mathlib.lean \
.lake/lib && cd .lake/lib
    LEAN_PATH=. {toolchain}/bin/lean -o Mathlib.olean Mathlib.lean ;;
  "env printenv") echo "LEAN_SYSROOT={toolchain}"; echo "LEAN_PATH=$PWD/.lake/lib" ;;
  *) exit 9 ;;
esac
"""


class Machine:
    """A checkout with the harness, without elan and with stand-ins. `run` runs its setup.sh."""

    def __init__(self, folder: Path, lean: Toolchain) -> None:
        self.folder, self.checkout, self.project = (
            folder,
            folder / "checkout",
            folder / "checkout" / "proofs",
        )
        self.checkout.mkdir()
        for name in (
            "core",
            "labs",
            "data",
            "locks",
            *(path.name for path in ROOT.glob("requirements*.txt")),
        ):
            (self.checkout / name).symlink_to(ROOT / name)
        shutil.copy(ROOT / "setup.sh", self.checkout)
        (self.checkout / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "common.sh", self.checkout / "scripts")
        toolchain = installed(lean, folder / "toolchain")
        (folder / "Mathlib.lean").write_text(MATHLIB)
        (folder / "elan-init.sh").write_text(ELAN.replace("{folder}", str(folder)))
        compiled = Path(lean.variables["LEAN_PATH"]) / COMPILED
        (folder / "lake").write_text(
            LAKE.format(folder=folder, toolchain=toolchain, compiled=compiled)
        )
        (folder / "lake").chmod(0o755)
        path = stand_in(folder / "bin", curl=CURL.replace("{folder}", str(folder)))
        self.environment = {
            "PATH": path,
            "PYTHON": sys.executable,
            "ELAN_HOME": str(folder / "elan"),
        }
        self._harness()

    def _harness(self) -> None:
        """Write the stamp of an installed harness, and a Python that is this test's own."""
        (self.checkout / ".venv" / "bin").mkdir(parents=True)
        program = self.checkout / ".venv" / "bin" / "python"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        program.chmod(0o755)
        stamp = 'cat requirements.txt locks/requirements.lock | cksum; "$PYTHON" --version'
        done = subprocess.run(
            ["bash", "-c", stamp],
            cwd=self.checkout,
            env=os.environ | self.environment,
            text=True,
            capture_output=True,
            check=True,
        )
        (self.checkout / ".venv" / ".installed-requirements").write_text(done.stdout)

    def run(self, **changes: str) -> "subprocess.CompletedProcess[str]":
        env = environment(**self.environment, **changes)
        for name in {"LEAN", "LEAN_HEAD", "MATHLIB_COMMIT"} - {*changes}:
            env.pop(name, None)
        command = ["bash", "setup.sh", "mathlib"]
        return subprocess.run(command, cwd=self.checkout, env=env, capture_output=True, text=True)

    def asked(self, program: str) -> list[str]:
        """Return the arguments of each call of a stand-in so far."""
        path = self.folder / program
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(lean: Toolchain, tmp_path: Path) -> Machine:
    if shutil.which("lake"):
        pytest.skip("this machine has lake")
    return Machine(tmp_path, lean)


def test_mathlib_is_fetched_and_checked_and_a_failure_is_resumed(machine: Machine) -> None:
    done = machine.run()
    assert done.returncode == 2 and "error: elan can't be installed" in done.stderr, "no network"
    (machine.folder / "online").touch()
    (machine.folder / "broken").touch()
    done = machine.run()
    assert done.returncode == 2 and "error: Mathlib can't be fetched to proofs" in done.stderr
    (machine.folder / "broken").unlink()
    done = machine.run()
    assert done.returncode == 0, done.stderr
    name = f"Lean of proofs (leanprover/lean4:v4.26.0) with Mathlib {COMMIT[:12]}"
    assert f"{name} proves a theorem" in done.stdout + done.stderr
    assert (machine.project / "lean-toolchain").read_text() == "leanprover/lean4:v4.26.0\n"
    assert (
        json.loads((machine.project / "lake-manifest.json").read_text())["packages"][0]["rev"]
        == COMMIT
    )
    assert len(machine.asked("curl")) == 2, "elan is installed once"
    assert machine.asked("lake.log") == ["update", "update", "exe cache get", "env printenv"]
    again = machine.run()
    assert again.returncode == 0 and machine.asked("lake.log")[4:] == [
        "exe cache get",
        "env printenv",
    ]


def test_a_mathlib_that_does_not_answer_fails_the_set_up(machine: Machine) -> None:
    (machine.folder / "online").touch()
    (machine.folder / "Mathlib.lean").write_text("prelude\nimport Init\n")
    done = machine.run(LEAN=str(machine.folder / "mine"), MATHLIB_COMMIT="v4.27.0")
    assert (
        done.returncode == 2 and "does not prove" in done.stderr and "Traceback" not in done.stderr
    )
    assert (machine.folder / "mine" / "lean-toolchain").read_text() == "leanprover/lean4:v4.27.0\n"
    assert 'rev = "v4.27.0"' in (machine.folder / "mine" / "lakefile.toml").read_text()


@pytest.mark.parametrize("changes", [{"MATHLIB_COMMIT": "main"}, {"LEAN": "core"}])
def test_a_wrong_tag_or_folder_is_refused_before_anything_is_fetched(
    machine: Machine, changes: dict[str, str]
) -> None:
    done = machine.run(**changes)
    name, value = next(iter(changes.items()))
    assert done.returncode == 2 and name in done.stderr and value in done.stderr
    assert not machine.asked("curl") and not machine.asked("lake.log")
