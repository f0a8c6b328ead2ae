"""Theorems from files: read and checked before anything is searched."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean import theorems
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers


def file(folder: Path, value: Any) -> Path:
    path = folder / "theorems.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def row(name: str, statement: str = "(p : Prop) : p → p") -> dict[str, str]:
    return {"name": name, "statement": statement}


def test_a_file_is_read_in_order(tmp_path: Path) -> None:
    rows = [row("b"), row("a", ": True") | {"proof": "more than is needed"}]
    assert theorems.read(file(tmp_path, {"theorems": rows})) == [
        Theorem("b", rows[0]["statement"]),
        Theorem("a", ": True"),
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "holds no theorems"),
        ({"theorems": []}, "holds no theorems"),
        ({"theorems": {}}, "holds no theorems"),
        ({"theorems": [3]}, "theorem 1 has no name"),
        ({"theorems": [{"statement": ": True"}]}, "theorem 1 has no name"),
        ({"theorems": [row("a\nb")]}, "theorem 1 has no name"),
        ({"theorems": [{"name": "a"}]}, "a has no statement"),
        ({"theorems": [row("a"), row("b"), row("a", ": True")]}, "the name a stands there twice"),
        ({"theorems": [row("a", ": True := trivial\n#eval 1")]}, "the statement of a is refused: a command's sign"),
        ({"theorems": [row("a", ": False := sorry")]}, "the statement of a is refused: a hole or code"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, value: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        theorems.read(file(tmp_path, value))


def test_of_a_published_set_those_that_do_not_elaborate_are_left_out_and_told(
    lean: Toolchain, capfd: pytest.CaptureFixture[str]
) -> None:
    good, bad = Theorem("a", ": True"), [Theorem(name, "(p : Prop) : q") for name in "bc"]

    async def body() -> None:
        async with Workers(lean, 1) as workers:
            assert await theorems.elaborating([bad[0], good, bad[1]], workers, "minif2f") == [good]
            assert await theorems.elaborating([good], workers, "minif2f") == [good]
            with pytest.raises(UserError, match="minif2f: none of 2 statements elaborates .the first is b: Unknown"):
                await theorems.elaborating(bad, workers, "minif2f")

    asyncio.run(body())
    said = "".join(capfd.readouterr())
    assert said.count("note: ") == 1 and "2 of 3 theorems of minif2f do not elaborate, and are left out" in said


def test_statements_that_do_not_elaborate_are_told_before_any_search(lean: Toolchain) -> None:
    async def body() -> None:
        async with Workers(lean, 1) as workers:
            first = await theorems.check([Theorem("a", ": True")], workers, "here")
            assert first[0].state and first[0].state.pp == "⊢ True"
            with pytest.raises(UserError, match="here: the statement of b does not elaborate: Unknown identifier `q`"):
                await theorems.check([Theorem("a", ": True"), Theorem("b", "(p : Prop) : q")], workers, "here")

    asyncio.run(body())
