"""The house: who may import whom, and what an import loads."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from core.files import ROOT

GROUND = {
    "arguments",
    "bar",
    "constants",
    "contract",
    "errors",
    "files",
    "guard",
    "interrupts",
    "limits",
    "output",
    "prices",
    "progress",
    "prompts",
    "seeds",
    "signals",
    "stats",
    "terminal",
    "types",
}
# Of each wing: the other modules and wings of core that it may import, besides the ground floor.
MAY: dict[str, set[str]] = {
    "problems": set(),
    "grading": set(),
    "generate": {"engines.server"},
    "engines": set(),
    "scaffolds": {"grading"},
    "results": {"grading", "generate.journal"},
    "plan": {"results", "engines", "problems", "experiment_file"},
    "report": {
        "results",
        "generate.journal",
        "spending",
        "engines.shape",
        "lean.constants",
        "lean.figures",
        "lean.outcome",
        "lean.record",
        "lean.theorem",
        "lean.trajectories",
    },
    "endpoint": {"engines", "generate", "grading", "scaffolds", "run"},
    "experiment_file": set(),
    "chosen": {"experiment_file"},
    "training": {"engines"},
    "lean": {"engines", "generate", "report.lean", "report.tables", "results", "run", "training"},
    "experiment": {"engines", "generate", "grading", "problems", "results", "report", "plan"},
    "runs": {"results", "report"},
    "run": {"engines", "generate", "grading", "problems", "results", "experiment", "runs"},
    "spending": {"engines.shape"},
    "regrade": {"experiment_file", "generate.journal", "grading", "problems", "results", "report", "run"},
    "grade": {"engines", "generate", "grading", "problems", "regrade", "report", "results", "run"},
    "curate": {"engines.server", "grade", "grading", "problems", "report.tables"},
    "star": {
        "engines",
        "experiment",
        "generate",
        "grading",
        "problems",
        "report",
        "results",
        "run",
        "runs",
        "scaffolds",
        "training",
    },
    "equal_compute": {
        "engines",
        "grading",
        "problems",
        "results",
        "report",
        "run",
        "experiment",
        "experiment_file",
        "spending",
    },
}


def modules() -> list[Path]:
    return sorted((ROOT / "core").rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "core").with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> set[str]:
    """The modules of core that a file imports, anywhere in it, as "wing.module"; other roots as they are."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                is_module = (ROOT / f"{whole.replace('.', '/')}.py").exists()
                found.add(whole if is_module else node.module)
    return found


def of_core(path: Path) -> set[str]:
    return {name.removeprefix("core.") for name in imported(path) if name.startswith("core.")}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_data_flows_one_way(path: Path) -> None:
    me = name_of(path)
    wing = me.partition(".")[0]
    assert not {name for name in imported(path) if name.split(".")[0] in ("experiments", "scripts", "tests")}
    if me == "types":
        assert of_core(path) == {"constants"}
    elif wing in GROUND:
        assert of_core(path) <= GROUND
    elif wing != "__init__":
        allowed = MAY[wing] | GROUND | {wing}
        wrong = {name for name in of_core(path) if not any(name == a or name.startswith(a + ".") for a in allowed)}
        assert not wrong, f"{me} may not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("core.scaffolds.rsa", ["openai", "aiohttp", "core.engines", "core.generate", "torch", "sympy", "jinja2"]),
        ("core.results.read", ["openai", "core.engines", "core.generate", "torch", "sympy", "matplotlib"]),
        ("core.run", ["torch", "sympy", "matplotlib", "pyarrow", "huggingface_hub", "openai", "aiohttp"]),
        ("core.errors", ["numpy"]),
        ("core.training.process", ["torch", "transformers", "trl", "peft", "tokenizers"]),
        ("core.lean.guide", ["torch", "safetensors", "pyarrow", "xllamacpp"]),
        ("core.lean.energy_training", ["torch", "openai", "aiohttp", "core.generate"]),
        ("core.report.trees", ["torch", "openai", "aiohttp", "xllamacpp", "matplotlib", "core.engines"]),
    ],
)
def test_an_import_loads_no_more_than_it_needs(module: str, heavy: list[str]) -> None:
    program = f"import {module}, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_importing_errors_changes_nothing_in_the_interpreter() -> None:
    program = "import sys, signal; a = sys.excepthook, signal.getsignal(2); import core.errors; "
    program += "print(a == (sys.excepthook, signal.getsignal(2)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "True"


def test_every_wing_is_a_package_that_is_installed() -> None:
    folders = {path.parent for path in modules()}
    assert all((folder / "__init__.py").exists() for folder in folders)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    wings = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert set(project["packages"]) == wings | {"core.bundled"}
    assert project["package-data"]["core"] == ["results/schema.json", "report/web/**"]
