"""Test the guard: hostile tactics never reach Lean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.files import ROOT
from labs.lean import guard
from labs.lean.guard import refused, refused_statement


def read(name: str) -> list[str]:
    return (ROOT / "tests" / "cases" / name).read_text(encoding="utf-8").splitlines()


ALLOWED = [
    *read("tactics.txt"),
    "constructor\n· exact hp\n· exact hq",
    "calc a = b := by ring\n  _ = c := by ring",
]

HOSTILE = [
    *read("hostile_tactics.txt"),
    "",
    "   ",
    "trivial\n#eval 1",
    "simp ( maxSteps\n:= evil)",
    'trivial\nnotation "x" => y',
    'trivial\nmacro "x" : tactic => y',
    "let  rec f : Nat := f\nexact f",
    "exact h\x00",
    "exact h\x1b[2J",
    "exact h\u202eevil",
    "exact h\u037e trivial",  # looks like a semicolon
    "exact e\u0301",
    "ехact h",  # Cyrillic
    "exact ｈ",  # full width
    "exact " + "h" * 2000,
    "exact h <;> linarith\n(splitNe := (evil))",
]


@pytest.mark.parametrize("tactic", ALLOWED)
def test_what_proofs_are_made_of_is_let_through(tactic: str) -> None:
    assert refused(tactic) == ""


@pytest.mark.parametrize("tactic", HOSTILE)
def test_hostile_text_is_refused(tactic: str) -> None:
    why = refused(tactic)
    assert why and len(why) < 50


WORDS = (
    *sorted(guard.COMMANDS | guard.HOLES | guard.INSIDES),
    *(
        "run_tac",
        "elab_x",
        "declare_x",
        "register_x",
        "unsafeFoo",
        "qed_rsa_theorem",
        "given_qed_rsa_theorem",
    ),
)
# Signs before and after a word that Lean still reads as that word.
BEFORE = (
    " ",
    "\n",
    "(",
    "⟨",
    ";",
    "²",
    "→",
    "1 ",
    "0x1f",
    "1e5",
    "1.",
    "λ",
    "·",
    "!",
    "∀",
    "=",
    ">",
    "‹",
)
BEHIND = " ", "\n", ")", ";", "²", " x", "\n  x", "→", ".x", "", "⟩", "(", "%", "!", "#"
SIGNS = (
    '"',
    "`",
    "#",
    "$(",
    "@[",
    "--",
    "/-",
    "-/",
    "«",
    "»",
    "\t",
    "\r",
    "\u2028",
    "\u200b",
    "\u00a0",
)


def test_no_refused_word_or_sign_is_let_through_wherever_it_stands() -> None:
    for word in WORDS:
        for around in (
            *(f"{before}{word} x" for before in BEFORE),
            *(f" {word}{behind}" for behind in BEHIND),
        ):
            assert refused(f"exact (h){around}") and refused_statement(
                f"(p : Prop) : (p){around}"
            ), around
        assert refused(word) and refused(f"{word} x")
    for sign in SIGNS:
        for around in (sign, f"a{sign}b", f" {sign} ", f"({sign})", f"⟨x{sign}"):
            assert refused(f"exact {around}") and refused_statement(f"(p : Prop) : p {around}"), (
                around
            )


@given(st.text(max_size=60) | st.text(alphabet="()[]{}⟨⟩‹›x", max_size=12))
def test_any_text_is_judged_and_what_is_let_through_has_brackets_that_match(text: str) -> None:
    assert isinstance(refused_statement(text), str)
    if refused(f"exact {text}") == "":
        for opening, closing in ("()", "[]", "{}", "⟨⟩", "‹›"):
            assert text.count(opening) == text.count(closing)


@pytest.mark.parametrize(
    "statement",
    [
        "(p : Prop) : p → p",
        ": 1 + 1 = 2",
        "(f : ℕ → ℕ) (h₀ : ∀ x, f x = x ^ 2) : f 2 = 4",
        "{α : Type} (x : α) : x = x",
        "(x : ℝ) (h₀ : 2 * x = 4) :\n  x = 2",
        "(S : Set ℕ) (u : ℕ) (h₀ : IsLeast (S \\ {u}) 7) : u < 7",
        "(f : ℝ → ℝ) (h₀ : { x | 0 ≤ f x } = f '' { x | 0 ≤ f x }) : f 0 = 0",
    ],
)
def test_statements_are_let_through(statement: str) -> None:
    assert refused_statement(statement) == ""


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (": True := trivial theorem x : False", "a command"),
        (": True := trivial", "a value"),
        ("(p : Prop := by trivial) : p", "a value"),
        (": (by exact True)", "a proof"),
        (": Kᗮby trivial", "a proof"),
        ("p → p", "no type"),
        ("(p : Prop)", "no type"),
        (": True\n#eval 1", "a command's sign"),
        (": sorry", "a hole or code"),
        (": True -- x", "a comment"),
        (": ''' = 1", "a quotation"),
        (": f ''x' = 1", "a quotation"),
        ("", "nothing in it"),
        (": qed_rsa_theorem", "the theorem's own name"),
    ],
)
def test_hostile_statements_are_refused(statement: str, why: str) -> None:
    assert refused_statement(statement) == why
