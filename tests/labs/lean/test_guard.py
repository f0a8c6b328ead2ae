"""The guard: what tactics may be. Hostile ones never reach Lean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.files import ROOT
from labs.lean import guard
from labs.lean.guard import refused, refused_statement

ALLOWED = [
    *(ROOT / "tests" / "cases" / "tactics.txt").read_text(encoding="utf-8").splitlines(),
    "simp!",
    "simp (decide := true)",
    "intro h",
    "exact ⟨h.1, fun x hx => hx.2 x⟩",
    "rcases h with ⟨a, b⟩ | c",
    "induction n with | zero => rfl | succ n ih => rw [Nat.add_succ, ih]",
    "simp only [Finset.sum_range_succ, mul_comm] at h ⊢".replace(" ⊢", ""),
    "have h₁ : 0 < x := by positivity",
    "nlinarith [sq_nonneg (a - b), sq_nonneg (b - c)]",
    "obtain ⟨k, hk⟩ : ∃ k, n = 2 * k := ⟨n / 2, by omega⟩",
    "norm_num [h₀, Nat.ModEq] at *",
    "constructor\n· exact hp\n· exact hq",
    "by_contra! h",
    "norm_num [show 5! = 120 from rfl]",
    "exact fun ⦃y : ℕ⦄ (_ : y = 1) => hx",
    "exact h.symm ▸ rfl",
    "rw [← Nat.add_comm, show (2 : ℕ) = 1 + 1 from rfl]",
    "field_simp [show x ≠ 0 by linarith]",
    "exact Nat.find_min' h hx",
    "simp [Matrix.trace, h']",
    "calc a = b := by ring\n  _ = c := by ring",
    "have : ∑' n, f n = ∏' (i : ι), g i := h",
    "have : Kᗮ ⟂ L ∧ 5‼ = 15 := h",
    "exact (f : R⸨X⸩)",
    "norm_num [show (1e-3 : ℝ) < 1.5e3 from h]",
    "exact h₁.prefix",
]

HOSTILE = [
    "",
    "   ",
    "The next tactic is simp",
    "sorry",
    "exact Foo.sorryAx _",
    "#eval IO.println 1",
    "trivial\n#eval 1",
    "decide +native",
    "exact Lean.ofReduceBool _ _ rfl",
    "simp (config := evil)",
    "simp ( maxSteps\n:= evil)",
    "simp (config.x := evil)",
    "exact?",
    "apply?",
    "simp?",
    "hint",
    'trivial\nnotation "x" => y',
    'trivial\nmacro "x" : tactic => y',
    'exact include_str "/etc/passwd"',
    "let rec f := f",
    "let  rec f : Nat := f\nexact f",
    'exact "',
    "exact 'a'",
    "exact $x",
    "exact (h",
    "exact h)",
    "exact (h]",
    "exact ⟨h",
    "exact ‹h",
    "exact h\x00",
    "exact h\x1b[2J",
    "exact h\u202eevil",
    "ехact h",  # Cyrillic
    "exact ｈ",  # full width
    "exact h\u037e trivial",
    "exact e\u0301",
    "exact _root_.qed_rsa_theorem",
    "exact " + "h" * 2000,
    "exact binop% f x y",
    # Settings that Lean would run as code
    "simp (config := by exact evil)",
    "simp (config := { maxSteps := evil 1 })",
    "simp (config := { maxSteps := evil [1] })",
    "exact foo (config := evil)",
    "simp (maxSteps := .foo evil)",
    "simp! (decide := true) (maxSteps := evil)",
    "simp +contextual (maxSteps := evil)",
    "simp+contextual(maxSteps := evil)",
    "simp +zeta.x -y (maxSteps := evil)",
    "simp (disch := simp (maxSteps := evil))",
    "exact h <;> linarith\n(splitNe := (evil))",
    "conv => rw (occs := evil) [h]",
    "decide (native := true)",
    "norm_num (config := {native := true})",
    # Names that take code, run for long or have effects
    "exact eval% evil",
    "exact _root_.sorryAx _",
    "exact Mathlib.Meta.evil",
    "exact _root_.Lean.ofReduceBool",
    "exact foo (x := (println! 5))",
    "exact foo (x := timeit y z)",
    "simp (disch := run_tac evil)",
    "rw?",
    "exact (h : Foo.IO Unit)",
    "exact f <$>$x",
    "exact x²simp(maxSteps := evil)",
    "solve_by_elim* (maxDepth := evil)",
    "apply_rw (occs := evil) [h]",
    "exact ∑'('",
    "exact ∑ 'a'",
    "exact ∑''a'",
    "exact ∑'by trivial",
    "exact Kᗮend",
    "exact 5‼theorem",
    "exact ⸨h)",
    "exact 1e-3end",
    "exact 1e-3.end",
    "exact 1e5₁.end",
    "exact 1₁.end",
    "exact h².end",
    "exact ₁.end",
    "exact h₁.sorry",
    "exact sorry₁.x",
    "exact (h).end",
    "exact Kᗮlet rec f := f",
    "exact h₁end",
]


@pytest.mark.parametrize("tactic", ALLOWED)
def test_what_proofs_are_made_of_is_let_through(tactic: str) -> None:
    assert refused(tactic) == ""


@pytest.mark.parametrize("tactic", HOSTILE)
def test_hostile_text_is_refused(tactic: str) -> None:
    why = refused(tactic)
    assert why and len(why) < 50


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    assert isinstance(refused(text), str)
    assert isinstance(refused_statement(text), str)


WORDS = (
    *sorted(guard.COMMANDS | guard.HOLES | guard.INSIDES),
    *("run_tac", "elab_x", "declare_x", "register_x", "unsafeFoo", "qed_rsa_theorem", "given_qed_rsa_theorem"),
)
# Signs before and after a word that Lean still reads as that word.
BEFORE = " ", "\n", "(", "⟨", ";", "²", "→", "1 ", "0x1f", "1e5", "1.", "λ", "·", "!", "∀", "=", ">", "‹"
BEHIND = " ", "\n", ")", ";", "²", " x", "\n  x", "→", ".x", "", "⟩", "(", "%", "!", "#"
SIGNS = '"', "`", "#", "$(", "@[", "--", "/-", "-/", "«", "»", "\t", "\r", "\u2028", "\u200b", "\u00a0"


def test_no_refused_word_or_sign_is_let_through_wherever_it_stands() -> None:
    for word in WORDS:
        for around in (*(f"{before}{word} x" for before in BEFORE), *(f" {word}{behind}" for behind in BEHIND)):
            assert refused(f"exact (h){around}") and refused_statement(f"(p : Prop) : (p){around}"), around
        assert refused(word) and refused(f"{word} x")
    for sign in SIGNS:
        for around in (sign, f"a{sign}b", f" {sign} ", f"({sign})", f"⟨x{sign}"):
            assert refused(f"exact {around}") and refused_statement(f"(p : Prop) : p {around}"), around


@given(st.text(alphabet="()[]{}⟨⟩‹›x", max_size=12))
def test_what_is_let_through_has_brackets_that_match(text: str) -> None:
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
