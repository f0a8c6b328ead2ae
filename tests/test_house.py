"""The house: who may import whom, and what an import loads."""

import ast
import subprocess
import sys
import tomllib
from glob import glob
from pathlib import Path

import pytest

from core.base.files import ROOT
from tests.helpers.processes import loads_none

FOLDERS = [name for name in ("core", "labs") if (ROOT / name).exists()]
# Lines of Python that a room may have. A commit that raises one says why; a commit that cuts a room lowers it.
BUDGETS = {
    "core": 18_000,
    "core/base": 990,
    "core/problems": 850,
    "core/grading": 2_030,
    "core/engines": 2_930,
    "core/generate": 1_630,
    "core/scaffolds": 2_400,
    "core/results": 1_810,
    "core/report": 2_310,
    "core/plan": 940,
    "core/session": 1_510,
    "labs": 11_500,
    "labs/proofs": 2_400,
    "labs/star": 2_020,
    "labs/lean": 4_370,
    "labs/endpoint": 730,
    "labs/training": 1_991,
    "tests": 27_800,
}
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def modules() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.skipif("labs" not in FOLDERS, reason="the contracts name the labs")
def test_rooms_import_lower_floors_only() -> None:
    """The contracts stand in pyproject.toml; import-linter keeps them."""
    done = subprocess.run([sys.executable, "-c", LINT], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_keeps_its_budget_of_lines(room: str) -> None:
    lines = sum(len(path.read_bytes().splitlines()) for path in (ROOT / room).rglob("*.py"))
    assert lines <= BUDGETS[room], f"{room} has {lines} lines: cut some, or raise its budget in a commit that says why"


def test_nothing_imports_what_is_run() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            assert not {name.split(".")[0] for name in names} & {"experiments", "scripts", "tests"}, path


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("core.scaffolds.rsa", ["openai", "aiohttp", "core.engines", "core.generate", "torch", "sympy", "jinja2"]),
        ("core.results.read", ["openai", "core.engines", "core.generate", "torch", "sympy", "matplotlib"]),
        ("core.session.run", ["torch", "sympy", "matplotlib", "pyarrow", "huggingface_hub", "openai", "aiohttp"]),
        ("core.base.errors", ["numpy"]),
    ],
)
def test_an_import_loads_no_more_than_it_needs(module: str, heavy: list[str]) -> None:
    loads_none(module, heavy)


def test_every_wing_is_a_package_that_is_installed() -> None:
    folders = {path.parent for path in modules()}
    assert all((folder / "__init__.py").exists() for folder in folders)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    wings = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert {name for name in project["packages"] if name.split(".")[0] in FOLDERS} == wings | {"core.bundled"}
    for package, patterns in project["package-data"].items():
        if (folder := ROOT / project["package-dir"].get(package, package)).exists():
            packed = {name for pattern in patterns for name in glob(pattern, root_dir=folder, recursive=True)}
            files = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
            assert {path.relative_to(folder).as_posix() for path in files} <= packed
