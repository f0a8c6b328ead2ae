"""The commands before anything is set up: help, lists, and how a set-up speaks."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPTS = sorted(path.relative_to(ROOT) for path in (ROOT / "scripts").rglob("*.sh") if path.name != "common.sh")


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A clone in which nothing is set up."""
    for name in ("scripts", "experiments", "locks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [ROOT / "setup.sh", *ROOT.glob("requirements*.txt")]:
        shutil.copy(path, tmp_path)
    return tmp_path


def bash(folder: Path, *args: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["bash", *args], capture_output=True, text=True, cwd=folder, env=os.environ | changes)


@pytest.mark.parametrize("script", ["setup.sh", *map(str, SCRIPTS)])
def test_every_script_helps_before_any_set_up(fresh: Path, script: str) -> None:
    done = bash(fresh, script, "-h" if script == "setup.sh" else "--help")
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert len(done.stdout) > 60 and "#" not in done.stdout.splitlines()[0]
    assert Path(script).name.removesuffix(".sh") in done.stdout
    assert not (fresh / ".venv").exists()


def test_an_experiment_is_explained_before_any_set_up(fresh: Path) -> None:
    done = bash(fresh, "scripts/run.sh", "07", "--help")
    assert done.returncode == 0 and done.stdout.startswith("The harness of Nomos")
    assert "\nN = 16  # solutions to begin with" in done.stdout and "import" not in done.stdout
    assert not (fresh / ".venv").exists()


def test_the_list_is_aligned_and_fits_the_terminal(fresh: Path) -> None:
    words = f"It does something, at length: {'word ' * 20}."
    (fresh / "experiments" / "20_an_experiment_of_a_long_name.py").write_text(f'"""{words}"""\n')
    done = bash(fresh, "scripts/run.sh", COLUMNS="80")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and max(map(len, lines)) <= 80
    column = lines[1].index("Baseline")
    assert all(line[column - 1] == " " and line[column] != " " for line in lines[1:])


@pytest.fixture
def python(fresh: Path) -> str:
    """A Python that is new enough, and makes no venv."""
    path = fresh / "python"
    path.write_text('#!/bin/sh\n[ "$1" = -c ] || [ "$1" = --version ]\n')
    path.chmod(0o755)
    return str(path)


def test_a_set_up_says_what_it_does_how_much_and_how_long(fresh: Path, python: str) -> None:
    done = bash(fresh, "setup.sh", "harness", PYTHON=python)
    assert done.returncode == 2 and "can't make a venv" in done.stderr
    assert "setting up .venv from locks/requirements.lock (once; about 700 MB on disk, 1 to 3 minutes)" in done.stderr


def test_a_disk_without_room_for_what_trains_is_one_line_before_anything_is_installed(fresh: Path, python: str) -> None:
    (fresh / "df").write_text("#!/bin/sh\necho Filesystem; echo disk 9 9 2000000 9% /\n")
    (fresh / "df").chmod(0o755)
    done = bash(fresh, "setup.sh", "train", PYTHON=python, PATH=f"{fresh}:{os.environ['PATH']}")
    assert done.returncode == 2 and "error: what trains a model needs" in done.stderr, done.stderr
    assert "GB and this disk has 1 GB free. Make room" in done.stderr and "setting up" not in done.stderr
    done = bash(fresh, "setup.sh", "train", PYTHON=python)
    assert done.returncode == 2 and "1.5 GB with torch for the CPU, 7 GB with CUDA" in done.stderr


@pytest.mark.skipif(not shutil.which("flock"), reason="no flock here")
def test_a_second_terminal_says_that_it_waits(fresh: Path, python: str) -> None:
    holding = ["flock", ".venv.lock", "sh", "-c", "echo held; read line"]
    pipe = subprocess.PIPE
    holder = subprocess.Popen(holding, stdin=pipe, stdout=pipe, text=True, cwd=fresh)
    assert holder.stdin and holder.stdout and holder.stdout.readline() == "held\n"
    setting_up = ["bash", "setup.sh", "harness"]
    second = subprocess.Popen(setting_up, stderr=pipe, text=True, cwd=fresh, env=os.environ | {"PYTHON": python})
    assert second.stderr and "another terminal is setting up" in second.stderr.readline()
    holder.stdin.close()
    holder.wait()
    assert "setting up .venv" in second.stderr.read() and second.wait() == 2
