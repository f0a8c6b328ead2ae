"""Test the theorems of files, which are checked before any search."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean import theorems
from labs.lean.constants import LeanConstants
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain


def file(folder: Path, value: Any) -> Path:
    path = folder / "theorems.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def row(name: str, statement: str = "(p : Prop) : p → p") -> dict[str, str]:
    return {"name": name, "statement": statement}


def test_a_file_is_read_in_order(tmp_path: Path) -> None:
    rows = [row("b"), row("a", ": True") | {"proof": "more than is needed"}]
    expected = [Theorem("b", rows[0]["statement"]), Theorem("a", ": True")]
    assert theorems.read(file(tmp_path, {"theorems": rows})) == expected


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"theorems": []},
        {"theorems": [row("a\nb")]},
        {"theorems": [{"name": "a"}]},
        {"theorems": [row("a"), row("b"), row("a", ": True")]},
        {"theorems": [row("a", ": True := trivial\n#eval 1")]},
    ],
)
def test_another_file_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(UserError, match=r"theorems\.json"):
        theorems.read(file(tmp_path, value))


def test_statements_that_do_not_elaborate_are_refused_or_left_out_of_a_published_set(
    lean: Toolchain, capfd: pytest.CaptureFixture[str]
) -> None:
    good, bad = Theorem("a", ": True"), [Theorem(name, "(p : Prop) : q") for name in "bc"]
    config = LeanConstants(NUM_WORKERS=1)
    with pytest.raises(UserError, match="here: .* of b .*`q`"):
        theorems.elaborating([good, *bad], "here", lean, config)
    assert theorems.elaborating([bad[0], good, bad[1]], "minif2f", lean, config) == [good]
    with pytest.raises(UserError, match="minif2f"):
        theorems.elaborating(bad, "minif2f", lean, config)
    timing_out: Any = SimpleNamespace(NUM_WORKERS=1, TACTIC_SECONDS=0)
    assert theorems.elaborating([good, *bad], "minif2f", lean, timing_out) == [good, *bad]
    output = "".join(capfd.readouterr())
    assert output.count("note: ") == 1 and "2 of 3 theorems of minif2f" in output
