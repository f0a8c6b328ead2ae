"""Test theorems of files, miniF2F with generated files of its shape, and statements from Lean's
source."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean import guard, theorems
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


TYPES = [
    "∀ p : Prop, p → p",
    "∀ (n : Nat), n = n",
    "∃ f : Nat → Nat, f 0 = 0",
    "forall p : Prop, p → p",
    "¬ False",
    "True",
    "(1 : Nat) = 1",
    "id (0 : Nat) = (0 : Nat)",
]
WITH_BINDERS = [
    ": True",
    "(p : Prop) : p → p",
    "p q : p → q → p",
    "{p : Prop} (h : p) : p",
    "(p : Prop)\n  : p → p",
]


@pytest.mark.parametrize("statement", TYPES)
def test_a_type_alone_is_a_statement(statement: str, tmp_path: Path) -> None:
    [theorem] = theorems.read(file(tmp_path, {"theorems": [row("a", statement)]}))
    assert theorem.statement == f": {statement}" and not guard.refused_statement(theorem.statement)


@pytest.mark.parametrize("statement", WITH_BINDERS)
def test_a_statement_with_a_colon_stays_as_it_is(statement: str) -> None:
    assert theorems.with_colon(statement) == statement


def test_real_lean_reads_types_alone(lean: Toolchain) -> None:
    given = [Theorem(each, theorems.with_colon(each)) for each in TYPES if "id" not in each]
    assert theorems.elaborating(given, "mine.json", lean, LeanConstants(NUM_WORKERS=1)) == given


def test_long_statements_are_read_in_no_time() -> None:
    for words in ("a" * 50_000, "a " * 50_000, "(a) " * 50_000):
        assert theorems.with_colon(f"{words}=") == f": {words}="


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"theorems": []},
        {"theorems": [row("a\nb")]},
        {"theorems": [{"name": "a"}]},
        {"theorems": [row("a"), row("b"), row("a", ": True")]},
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
    assert theorems.elaborating(
        [bad[0], good, Theorem("c", ": sorry")], "minif2f", lean, config
    ) == [good]
    with pytest.raises(UserError, match="minif2f"):
        theorems.elaborating(bad, "minif2f", lean, config)
    with pytest.raises(UserError, match="here: .* of d .*refused"):
        theorems.elaborating(
            [good, Theorem("d", ": True := trivial\n#eval 1")], "here", lean, config
        )
    timing_out: Any = SimpleNamespace(NUM_WORKERS=1, TACTIC_SECONDS=0)
    assert theorems.elaborating([good, *bad], "minif2f", lean, timing_out) == [good, *bad]
    output = "".join(capfd.readouterr())
    assert output.count("note: ") == 1 and "2 of 3 theorems of minif2f" in output


# miniF2F

HEADER = (
    "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen BigOperators Real Nat "
    "Topology Rat\n\n"
)
OPENS = "open BigOperators Real Nat Topology Rat\n"
MATHLIB = Toolchain(
    ("lean",), "import Mathlib\nset_option autoImplicit false\n", "a Lean with Mathlib"
)


def problem(
    name: str,
    split: str = "test",
    output: str = "(a b : ℕ) (h₀ : a < b) :\n  a + 1 ≤ b",
    **changes: Any,
) -> dict[str, Any]:
    return {
        "name": name,
        "split": split,
        "informal_prefix": "/-- Show that it is so.-/\n",
        "formal_statement": f"theorem {name} {output} := by\n",
        "goal": "a b : ℕ\nh₀ : a < b\n⊢ a + 1 ≤ b",
        "header": HEADER,
    } | changes


def published(folder: Path, *changed: dict[str, Any], count: int = theorems.EACH) -> Path:
    """Write the file, with `changed` rows as the first of test."""
    rows = [problem(f"valid_{i}", "valid") for i in range(count)]
    rows += [*changed, *(problem(f"test_{i}") for i in range(count - len(changed)))]
    path = folder / "minif2f.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return path


def test_the_splits_are_apart_and_statements_are_binders_and_a_type(tmp_path: Path) -> None:
    path = published(tmp_path, problem("one", output=": 2 + 2 = 4"))
    found, lean = theorems.minif2f("minif2f", MATHLIB, tmp_path)
    assert path.exists() and len(found) == theorems.EACH
    names = [(each.name, each.statement) for each in found[:2]]
    assert names == [("one", ": 2 + 2 = 4"), ("test_0", "(a b : ℕ) (h₀ : a < b) : a + 1 ≤ b")]
    assert lean.head == MATHLIB.head + theorems.IMPLICIT + OPENS
    valid, _ = theorems.minif2f("minif2f:valid", MATHLIB, tmp_path)
    assert {each.name for each in valid} == {f"valid_{i}" for i in range(theorems.EACH)}


@pytest.mark.parametrize(
    ("output", "read"),
    [
        ("∑ k in Finset.range n, k = 3", "∑ k ∈ Finset.range n, k = 3"),
        ("(∏ i in s, ∑ j in t i, j) = 1", "(∏ i ∈ s, ∑ j ∈ t i, j) = 1"),
        ("∑ k : ℤ in Finset.Icc 1 12, k = 78", "∑ k ∈ (Finset.Icc 1 12 : Finset ℤ), k = 78"),
        ("∑ k:ℤ in Finset.Icc 1 12, k = 78", "∑ k ∈ (Finset.Icc 1 12 : Finset ℤ), k = 78"),
        ("∑ k ∈ s, k = 3", "∑ k ∈ s, k = 3"),
        ("x in s", "x in s"),
    ],
)
def test_sums_are_written_as_mathlib_reads_them(output: str, read: str) -> None:
    assert theorems.modern(output) == read


@pytest.mark.parametrize(
    "line", ["{", "[1]", json.dumps(problem("x") | {"header": None}), json.dumps(problem("x"))]
)
def test_another_file_of_minif2f_is_refused(line: str, tmp_path: Path) -> None:
    path = published(tmp_path)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(UserError, match=str(path)):
        theorems.minif2f("minif2f", MATHLIB, tmp_path)
    for wrong in (problem("test_0"), problem("b", formal_statement="def b := 1\n")):
        with pytest.raises(UserError, match=str(path)):
            theorems.minif2f("minif2f", MATHLIB, published(tmp_path, wrong).parent)


def test_mistakes_are_found_before_anything_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="minif2f:train"):
        theorems.minif2f("minif2f:train", MATHLIB, tmp_path)
    with pytest.raises(UserError, match="LEAN"):
        theorems.minif2f("minif2f", Toolchain(("lean",), "", "x"), tmp_path)


# Statements


@pytest.mark.parametrize(
    ("source", "name", "statement"),
    [
        ("theorem a : True := by", "a", ": True"),
        ("theorem a : True := by sorry", "a", ": True"),
        ("theorem a : True :=\n  sorry\n", "a", ": True"),
        ("theorem a : True :=", "a", ": True"),
        ("theorem a : True", "a", ": True"),
        ("theorem a (x : ℕ) : x = x := by\n  rfl", "a", "(x : ℕ) : x = x"),
        ("lemma A.b' {x : ℕ} (h : x = 1 := by simp) : x = 1 := by", "A.b'", (
            "{x : ℕ} (h : x = 1 := by simp) : x = 1"
        )),
        ("theorem a(x : ℕ):x = x := rfl", "a", "(x : ℕ):x = x"),
        ("theorem a.{u, v} {α : Type u} : α = α := by", "a", "{α : Type u} : α = α"),
        ("@[simp, norm_cast (attr := a[b])] @[x]\nprotected nonrec theorem a : True := by", "a", (
            ": True"
        )),
        ("/-- of x : y := z -/\ntheorem a -- (h :\n  : /- a := b -/ True := by", "a", ": True"),
        ("theorem a : let x := 2; x = 2 := by", "a", ": let x := 2; x = 2"),
        ("theorem a (f : ℕ → ℕ) : (∀ x : ℕ, f x = 0) := by", "a", (
            "(f : ℕ → ℕ) : (∀ x : ℕ, f x = 0)"
        )),
        ("theorem a ⦃x : ℕ⦄ [inst : Fact (x = 1)] : ⌊x⌋ = x := by", "a", (
            "⦃x : ℕ⦄ [inst : Fact (x = 1)] : ⌊x⌋ = x"
        )),
    ],
)  # fmt: skip
def test_statements_are_read_out_of_leans_source(source: str, name: str, statement: str) -> None:
    assert theorems.theorem_in(source) == (name, statement)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "def a : ℕ := 1",
        "theorem",
        "theorem a",
        "theorem a (x : ℕ) := by",
        "instance : A := b",
        "@[simp",
    ],
)
def test_what_is_no_theorem_gives_none(source: str) -> None:
    assert theorems.theorem_in(source) is None
