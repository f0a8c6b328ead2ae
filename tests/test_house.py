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

FOLDERS = [name for name in ("core", "harness", "labs") if (ROOT / name).exists()]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def modules() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.skipif("labs" not in FOLDERS, reason="the contracts name the labs")
def test_rooms_import_lower_floors_only() -> None:
    """The contracts stand in pyproject.toml; import-linter keeps them."""
    done = subprocess.run([sys.executable, "-c", LINT], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_nothing_imports_what_is_run() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            assert not {name.split(".")[0] for name in names} & {
                "experiments",
                "scripts",
                "tests",
            }, path


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        (
            "core.rsa",
            ["openai", "aiohttp", "core.engines", "core.generate", "torch", "sympy", "jinja2"],
        ),
        (
            "harness.results.read",
            ["openai", "core.engines", "core.generate", "torch", "sympy", "matplotlib"],
        ),
        (
            "harness.run",
            ["torch", "sympy", "matplotlib", "pyarrow", "huggingface_hub", "openai", "aiohttp"],
        ),
        ("core.base.errors", ["numpy"]),
    ],
)
def test_an_import_loads_no_more_than_it_needs(module: str, heavy: list[str]) -> None:
    loads_none(module, heavy)


def test_every_wing_is_a_package_that_is_installed() -> None:
    folders = {path.parent for path in modules()}
    assert all((folder / "__init__.py").exists() for folder in folders)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    wings = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert {name for name in project["packages"] if name.split(".")[0] in FOLDERS} == wings | {
        "core.bundled"
    }
    for package, patterns in project["package-data"].items():
        if (folder := ROOT / project["package-dir"].get(package, package)).exists():
            packed = {
                name
                for pattern in patterns
                for name in glob(pattern, root_dir=folder, recursive=True)
            }
            files = {
                path
                for path in folder.rglob("*")
                if path.is_file() and path.suffix not in (".py", ".pyc")
            }
            assert {path.relative_to(folder).as_posix() for path in files} <= packed
