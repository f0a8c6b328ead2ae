"""Imports of the labs load no more than they need."""

import re

import pytest

from core.base.files import ROOT
from tests.helpers.processes import loads_none


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("labs.training.process", ["torch", "transformers", "trl", "peft", "tokenizers"]),
        ("labs.lean.energy", ["torch", "safetensors", "pyarrow", "xllamacpp", "openai"]),
        ("labs.lean.trees", ["torch", "openai", "aiohttp", "core.generate", "msgspec"]),
        (
            "labs.lean.report",
            ["torch", "openai", "aiohttp", "xllamacpp", "matplotlib", "core.engines"],
        ),
    ],
)
def test_an_import_loads_no_more_than_it_needs(module: str, heavy: list[str]) -> None:
    loads_none(module, heavy)


def test_only_training_imports_torch_and_nothing_imports_training_when_it_is_loaded() -> None:
    heavy = re.compile(
        r"^\s*(?:import|from) (?:torch|sglang|transformers|trl|peft|tokenizers)\b", re.MULTILINE
    )
    paths = [path for room in ("core", "harness", "labs") for path in (ROOT / room).rglob("*.py")]
    files = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    found = {name for name, text in files.items() if heavy.search(text)}
    training = {f"labs/training/{name}.py" for name in ("encode", "loop", "network", "sft")}
    names = ("chances", "gguf_file", "lean/train_policy", "train")
    demo = {f"labs/demo/{name}.py" for name in names}
    assert found == training | demo | {"labs/lean/energy_training.py"}
    modules = (
        r"(?:training(?:\.| import )(?:encode|loop|network|sft)|lean(?:\.| import )energy_training)"
    )
    imports = re.compile(rf"^(?:import|from) labs\.{modules}\b", re.MULTILINE)
    assert {name for name, text in files.items() if imports.search(text)} <= found
