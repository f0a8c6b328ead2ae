"""Generate propositional lemmas: random true formulas, with the shortest proof that a search over a
few tactics finds.

The search is intuitionistic and does not run Lean. make_lemmas.py checks its proofs with Lean.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

ATOMS = "pqrs"
SIGNS = {"and": "∧", "or": "∨", "imp": "→", "iff": "↔"}
BUDGET = 3000  # most goals that the search for one proof examines
LONGEST = 14  # most tactics in a proof


@dataclass(frozen=True)
class Formula:
    """A formula. `kind`: atom, true, false, not, or a key of SIGNS. `parts`: its subformulas, or an
    atom's letter."""

    kind: str
    parts: tuple["Formula | str", ...] = ()

    def __getitem__(self, i: int) -> "Formula":
        part = self.parts[i]
        assert isinstance(part, Formula)
        return part


TRUE, FALSE = Formula("true"), Formula("false")


def shown(formula: Formula, inside: bool = False) -> str:
    """Format a formula for Lean."""
    if formula.kind == "atom":
        return str(formula.parts[0])
    if formula.kind in ("true", "false"):
        return formula.kind.capitalize()
    if formula.kind == "not":
        return f"¬{shown(formula[0], True)}"
    text = f"{shown(formula[0], True)} {SIGNS[formula.kind]} {shown(formula[1], True)}"
    return f"({text})" if inside else text


def letters(formula: Formula) -> set[str]:
    """Return the letters of the atoms in a formula."""
    if formula.kind == "atom":
        return {str(formula.parts[0])}
    return set().union(*(letters(part) for part in formula.parts if isinstance(part, Formula)))


def value(formula: Formula, of: dict[str, bool]) -> bool:
    """Return whether a formula is true. `of` maps each atom's letter to its truth."""
    match formula.kind:
        case "atom":
            return of[str(formula.parts[0])]
        case "true" | "false":
            return formula.kind == "true"
        case "not":
            return not value(formula[0], of)
        case "and":
            return value(formula[0], of) and value(formula[1], of)
        case "or":
            return value(formula[0], of) or value(formula[1], of)
        case "imp":
            return not value(formula[0], of) or value(formula[1], of)
    return value(formula[0], of) == value(formula[1], of)


def is_true(formula: Formula) -> bool:
    """Return whether a formula is true for all values of its atoms."""
    names = sorted(letters(formula))
    tables = itertools.product((False, True), repeat=len(names))
    return all(value(formula, dict(zip(names, table, strict=True))) for table in tables)


def drawn(rng: random.Random, size: int) -> Formula:
    """Draw a random formula with `size` connectives."""
    if size == 0:
        return (
            Formula("atom", (rng.choice(ATOMS[: rng.choice((2, 3, 4))]),))
            if rng.random() < 0.96
            else FALSE
        )
    kind = rng.choices(("imp", "and", "or", "iff", "not"), (45, 22, 18, 5, 10))[0]
    if kind == "not":
        return Formula("not", (drawn(rng, size - 1),))
    left = rng.randrange(size)
    return Formula(kind, (drawn(rng, left), drawn(rng, size - 1 - left)))


def renamed(formula: Formula, names: dict[str, str]) -> Formula:
    """Rename atoms in their order of appearance. Formulas that differ only in names become
    equal."""
    if formula.kind == "atom":
        return Formula(
            "atom", (names.setdefault(str(formula.parts[0]), ATOMS[len(names) % len(ATOMS)]),)
        )
    return Formula(
        formula.kind,
        tuple(renamed(part, names) for part in formula.parts if isinstance(part, Formula)),
    )


class Goal(NamedTuple):
    """A goal. `given`: named hypotheses. `wanted`: the formula to prove. `names`: the number of
    names used so far."""

    given: tuple[tuple[str, Formula], ...]
    wanted: Formula
    names: int

    def without(self, name: str, *new: Formula, wanted: Formula | None = None) -> "Goal":
        kept = tuple(one for one in self.given if one[0] != name)
        added = tuple((f"h{self.names + i}", formula) for i, formula in enumerate(new, 1))
        return Goal(kept + added, wanted or self.wanted, self.names + len(new))


def proof(formula: Formula) -> list[str] | None:
    """Return a formula's shortest proof by the tactics of `_moves`, or None if BUDGET and LONGEST
    allow none."""
    left = [BUDGET]
    for most in range(1, LONGEST + 1):
        if (found := _proved([Goal((), formula, 0)], most, left)) is not None:
            return found
        if left[0] <= 0:
            return None
    return None


def _proved(goals: list[Goal], most: int, left: list[int]) -> list[str] | None:
    if not goals:
        return []
    if len(goals) > most or left[0] <= 0:
        return None
    left[0] -= 1
    for tactic, new in _moves(goals[0]):
        rest = _proved(new + goals[1:], most - 1, left)
        if rest is not None:
            return [tactic, *rest]
    return None


def _moves(goal: Goal) -> Iterator[tuple[str, list[Goal]]]:
    """Yield promising tactics, with the remaining goals. A tactic that keeps the goal provable is
    yielded alone."""
    given, wanted, names = goal
    facts = {formula for _, formula in given}
    if wanted in facts:
        yield "assumption", []
        return
    if FALSE in facts or any(fact.kind == "not" and fact[0] in facts for fact in facts):
        yield "contradiction", []
        return
    if wanted == TRUE:
        yield "trivial", []
        return
    if wanted.kind in ("imp", "not"):
        then = wanted[1] if wanted.kind == "imp" else FALSE
        yield f"intro h{names + 1}", [goal.without("", wanted[0], wanted=then)]
        return
    for name, fact in given:
        if fact.kind in ("and", "iff"):
            a, b = fact[0], fact[1]
            parts = (
                (a, b) if fact.kind == "and" else (Formula("imp", (a, b)), Formula("imp", (b, a)))
            )
            yield f"rcases {name} with ⟨h{names + 1}, h{names + 2}⟩", [goal.without(name, *parts)]
            return
    if wanted.kind in ("and", "iff"):
        a, b = wanted[0], wanted[1]
        parts = (a, b) if wanted.kind == "and" else (Formula("imp", (a, b)), Formula("imp", (b, a)))
        yield "constructor", [Goal(given, part, names) for part in parts]
        return
    for name, fact in given:
        if fact.kind == "or":
            two = [goal.without(name, part) for part in (fact[0], fact[1])]
            yield f"rcases {name} with h{names + 1} | h{names + 1}", two
            return
    for name, fact in given:
        if (premises := _premises(fact, wanted)) is not None:
            yield f"apply {name}", [Goal(given, premise, names) for premise in premises]
    if wanted.kind == "or":
        yield "left", [Goal(given, wanted[0], names)]
        yield "right", [Goal(given, wanted[1], names)]
    for name, fact in given:
        if fact.kind == "imp" and fact[0] in facts and fact[1] not in facts:
            other = next(one for one, formula in given if formula == fact[0])
            yield f"have h{names + 1} := {name} {other}", [goal.without("", fact[1])]
    if wanted != FALSE and any(_premises(fact, FALSE) for fact in facts):
        yield "exfalso", [Goal(given, FALSE, names)]


def _premises(fact: Formula, wanted: Formula) -> list[Formula] | None:
    """Return the goals that remain if `fact` is applied to `wanted`, or None if `fact` does not fit
    or leaves none."""
    premises: list[Formula] = []
    while fact != wanted:
        if fact.kind not in ("imp", "not"):
            return None
        premises.append(fact[0])
        fact = fact[1] if fact.kind == "imp" else FALSE
    return premises or None


def lemmas(seed: int, by_length: dict[int, int]) -> Iterator[tuple[str, list[str]]]:
    """Yield statements and proofs: `by_length[k]` of length k. The largest key includes longer
    proofs."""
    rng = random.Random(seed)
    wanted = dict(by_length)
    longest = max(wanted)
    seen: set[Formula] = set()
    for size in itertools.cycle((1, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8)):
        if not any(wanted.values()):
            return
        formula = renamed(drawn(rng, size), {})
        if (
            formula in seen
            or formula.kind == "atom"
            or not letters(formula)
            or not is_true(formula)
        ):
            continue
        seen.add(formula)
        tactics = proof(formula)
        length = min(len(tactics), longest) if tactics else 0
        if tactics and wanted.get(length):
            wanted[length] -= 1
            yield f"({' '.join(sorted(letters(formula)))} : Prop) : {shown(formula)}", tactics
