"""The commands before anything is set up: help, lists, and the messages of a set-up."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPTS = sorted(
    path.relative_to(ROOT) for path in (ROOT / "scripts").rglob("*.sh") if path.name != "common.sh"
)
MINE = "99_an_experiment_of_mine"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which nothing is set up, and a Python that can't make a venv."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("scripts", "experiments", "locks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [ROOT / "setup.sh", *ROOT.glob("requirements*.txt")]:
        shutil.copy(path, folder)
    (folder / "experiments" / f"{MINE}.py").write_text(
        f'"""It does something: {"word " * 20}."""\n'
    )
    (folder / "python").write_text('#!/bin/sh\n[ "$1" = -c ] || [ "$1" = --version ]\n')
    (folder / "python").chmod(0o755)
    return folder


def bash(folder: Path, *args: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    env = os.environ | {"PYTHON": str(folder / "python")} | changes
    done = subprocess.run(["bash", *args], capture_output=True, text=True, cwd=folder, env=env)
    assert not (folder / ".venv").exists()
    return done


@pytest.mark.parametrize("script", ["setup.sh", *map(str, SCRIPTS)])
def test_every_script_helps_before_any_set_up(clone: Path, script: str) -> None:
    done = bash(clone, script, "-h" if script == "setup.sh" else "--help")
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert len(done.stdout) > 60 and "#" not in done.stdout.splitlines()[0]
    assert Path(script).name.removesuffix(".sh") in done.stdout


def test_an_experiment_is_explained_before_any_set_up(clone: Path) -> None:
    done = bash(clone, "scripts/run.sh", "07", "--help")
    assert done.returncode == 0 and done.stdout.startswith("The harness of Nomos")
    assert (
        "\nN = 16  # number of solutions before the first wave" in done.stdout
        and "import" not in done.stdout
    )
    assert all(f"\n  {name}" in done.stdout for name in ("MODEL", "BASE_URL", "ENGINE", "PORT"))


def test_each_experiment_has_a_row_of_the_list_that_fits_the_terminal(clone: Path) -> None:
    done = bash(clone, "scripts/run.sh", COLUMNS="80")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if line[:4].strip().isdigit()]
    assert sorted(listed) == sorted(path.stem for path in (clone / "experiments").glob("*.py"))
    assert listed[-1] == MINE and "\nOthers\n" in done.stdout
    assert all(f"\n  {name}" in done.stdout for name in ("MODEL", "BASE_URL", "ENGINE", "PORT"))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("rsa_basc", "02_rsa_basic"),
        ("rsa_p", "16_rsa_paper"),
        ("99_zzz", ""),
        ("0", "01_baseline, "),
    ],
)
def test_a_wrong_name_of_an_experiment_is_answered_by_the_name_that_is_meant(
    clone: Path, given: str, meant: str
) -> None:
    done = bash(clone, "scripts/run.sh", given)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert (f"Did you mean {meant}" in done.stderr) == bool(meant)


def test_a_set_up_shows_its_size_and_duration_and_no_words_of_pip(clone: Path) -> None:
    done = bash(clone, "setup.sh", "harness")
    assert done.returncode == 2 and "can't make a venv" in done.stderr
    assert (
        done.stderr.startswith("setting up .venv (once): about 530 MB")
        and done.stderr.count("\n") == 2
    )


def test_a_full_disk_is_reported_before_anything_is_installed(clone: Path) -> None:
    (clone / "df").write_text("#!/bin/sh\necho Filesystem; echo disk 9 9 2000000 9% /\n")
    (clone / "df").chmod(0o755)
    done = bash(clone, "setup.sh", "train", PATH=f"{clone}:{os.environ['PATH']}")
    assert done.returncode == 2 and "only 1 GB" in done.stderr and "setting up" not in done.stderr


def test_a_file_system_without_locks_is_no_second_terminal(clone: Path) -> None:
    """flock ends with 71 for ENOLCK, as on Lustre or some NFS. Only 1 means that another process
    has the lock."""
    (clone / "flock").write_text("#!/bin/sh\necho 'flock: 9: No locks available' >&2; exit 71\n")
    (clone / "flock").chmod(0o755)
    done = bash(clone, "setup.sh", "harness", PATH=f"{clone}:{os.environ['PATH']}")
    assert "warning: " in done.stderr and "another terminal" not in done.stderr
    assert done.returncode == 2 and "setting up .venv" in done.stderr


@pytest.mark.skipif(not shutil.which("flock"), reason="no flock here")
def test_a_second_terminal_waits_and_shows_it(clone: Path) -> None:
    holding = ["flock", ".venv.lock", "sh", "-c", "echo held; read line"]
    pipe = subprocess.PIPE
    holder = subprocess.Popen(holding, stdin=pipe, stdout=pipe, text=True, cwd=clone)
    assert holder.stdin and holder.stdout and holder.stdout.readline() == "held\n"
    env = os.environ | {"PYTHON": str(clone / "python")}
    second = subprocess.Popen(
        ["bash", "setup.sh", "harness"], stderr=pipe, text=True, cwd=clone, env=env
    )
    assert second.stderr and "another terminal is setting up" in second.stderr.readline()
    holder.stdin.close()
    holder.wait()
    assert "setting up .venv" in second.stderr.read() and second.wait() == 2


def test_a_clone_with_crlf_has_lf_in_every_text() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--eol"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    texts = [line for line in listed.stdout.splitlines() if line.startswith("i/lf ")]
    assert len(texts) > 500
    assert [line for line in texts if "attr/text=auto eol=lf" not in line] == []
