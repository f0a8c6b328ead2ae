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

    @property
    def subformulas(self) -> list["Formula"]:
        return [part for part in self.parts if isinstance(part, Formula)]


TRUE, FALSE = Formula("true"), Formula("false")


def in_lean(formula: Formula, inside: bool = False) -> str:
    """Format a formula for Lean. With `inside`, it has the parentheses of a part."""
    if formula.kind == "atom":
        return str(formula.parts[0])
    if formula.kind in ("true", "false"):
        return formula.kind.capitalize()
    if formula.kind == "not":
        return f"¬{in_lean(formula[0], True)}"
    text = f"{in_lean(formula[0], True)} {SIGNS[formula.kind]} {in_lean(formula[1], True)}"
    return f"({text})" if inside else text


def letters(formula: Formula) -> set[str]:
    """Return the letters of the atoms in a formula."""
    if formula.kind == "atom":
        return {str(formula.parts[0])}
    return set().union(*(letters(part) for part in formula.subformulas))


def value(formula: Formula, truth: dict[str, bool]) -> bool:
    """Return whether a formula is true. `truth` maps each atom's letter to its truth."""
    if formula.kind == "atom":
        return truth[str(formula.parts[0])]
    parts = [value(part, truth) for part in formula.subformulas]
    match formula.kind:
        case "true" | "false":
            return formula.kind == "true"
        case "not":
            return not parts[0]
        case "and":
            return parts[0] and parts[1]
        case "or":
            return parts[0] or parts[1]
        case "imp":
            return not parts[0] or parts[1]
    return parts[0] == parts[1]


def is_tautology(formula: Formula) -> bool:
    """Return whether a formula is true for all values of its atoms."""
    names = sorted(letters(formula))
    for row in itertools.product((False, True), repeat=len(names)):
        if not value(formula, dict(zip(names, row, strict=True))):
            return False
    return True


def drawn(rng: random.Random, size: int) -> Formula:
    """Draw a random formula with `size` connectives."""
    if size == 0:
        if rng.random() >= 0.96:
            return FALSE
        atoms = ATOMS[: rng.choice((2, 3, 4))]
        return Formula("atom", (rng.choice(atoms),))
    kind = rng.choices(("imp", "and", "or", "iff", "not"), (45, 22, 18, 5, 10))[0]
    if kind == "not":
        return Formula("not", (drawn(rng, size - 1),))
    left = rng.randrange(size)
    return Formula(kind, (drawn(rng, left), drawn(rng, size - 1 - left)))


def renamed(formula: Formula, names: dict[str, str]) -> Formula:
    """Rename atoms in their order of appearance. Formulas that differ only in names become
    equal."""
    if formula.kind == "atom":
        next_name = ATOMS[len(names) % len(ATOMS)]
        return Formula("atom", (names.setdefault(str(formula.parts[0]), next_name),))
    return Formula(formula.kind, tuple(renamed(part, names) for part in formula.subformulas))


class Goal(NamedTuple):
    """A goal. `given`: named hypotheses. `wanted`: the formula to prove. `names`: the number of
    names used so far."""

    given: tuple[tuple[str, Formula], ...]
    wanted: Formula
    names: int

    def without(self, name: str, *new: Formula, wanted: Formula | None = None) -> "Goal":
        """Replace a hypothesis by `new` ones, which get the next names."""
        others = tuple(hypothesis for hypothesis in self.given if hypothesis[0] != name)
        added = tuple((f"h{self.names + i}", formula) for i, formula in enumerate(new, 1))
        return Goal(others + added, wanted or self.wanted, self.names + len(new))

    def towards(self, wanted: Formula) -> "Goal":
        return Goal(self.given, wanted, self.names)

    @property
    def facts(self) -> set[Formula]:
        return {formula for _, formula in self.given}


Move = tuple[str, list[Goal]]  # a tactic, and the goals that it leaves


def proof(formula: Formula) -> list[str] | None:
    """Return a formula's shortest proof by the tactics of `_moves`, or None if BUDGET and LONGEST
    allow none."""
    search = _Search()
    for length in range(1, LONGEST + 1):
        tactics = search.proved([Goal((), formula, 0)], length)
        if tactics is not None:
            return tactics
        if search.budget <= 0:
            return None
    return None


class _Search:
    """A depth-first search for a proof. `budget` is the number of goals that it may still
    examine."""

    def __init__(self) -> None:
        self.budget = BUDGET

    def proved(self, goals: list[Goal], length: int) -> list[str] | None:
        """Return at most `length` tactics that prove the goals, or None."""
        if not goals:
            return []
        if len(goals) > length or self.budget <= 0:
            return None
        self.budget -= 1
        for tactic, new in _moves(goals[0]):
            rest = self.proved(new + goals[1:], length - 1)
            if rest is not None:
                return [tactic, *rest]
        return None


def _moves(goal: Goal) -> list[Move]:
    """Return promising tactics, with the remaining goals. A tactic that keeps the goal provable is
    returned alone."""
    for rule in (_close, _introduce, _split_hypothesis, _split_goal, _distinguish_cases):
        move = rule(goal)
        if move:
            return [move]
    return [*_applications(goal), *_sides(goal), *_conclusions(goal), *_absurdity(goal)]


def _close(goal: Goal) -> Move | None:
    facts = goal.facts
    if goal.wanted in facts:
        return "assumption", []
    if FALSE in facts or any(fact.kind == "not" and fact[0] in facts for fact in facts):
        return "contradiction", []
    if goal.wanted == TRUE:
        return "trivial", []
    return None


def _introduce(goal: Goal) -> Move | None:
    wanted = goal.wanted
    if wanted.kind not in ("imp", "not"):
        return None
    conclusion = wanted[1] if wanted.kind == "imp" else FALSE
    return f"intro h{goal.names + 1}", [goal.without("", wanted[0], wanted=conclusion)]


def _split_hypothesis(goal: Goal) -> Move | None:
    for name, fact in goal.given:
        if fact.kind in ("and", "iff"):
            first, second = goal.names + 1, goal.names + 2
            remaining = goal.without(name, *_conjuncts(fact))
            return f"rcases {name} with ⟨h{first}, h{second}⟩", [remaining]
    return None


def _split_goal(goal: Goal) -> Move | None:
    if goal.wanted.kind not in ("and", "iff"):
        return None
    return "constructor", [goal.towards(part) for part in _conjuncts(goal.wanted)]


def _distinguish_cases(goal: Goal) -> Move | None:
    for name, fact in goal.given:
        if fact.kind == "or":
            new = goal.names + 1
            cases = [goal.without(name, fact[0]), goal.without(name, fact[1])]
            return f"rcases {name} with h{new} | h{new}", cases
    return None


def _applications(goal: Goal) -> Iterator[Move]:
    for name, fact in goal.given:
        premises = _premises(fact, goal.wanted)
        if premises is not None:
            yield f"apply {name}", [goal.towards(premise) for premise in premises]


def _sides(goal: Goal) -> Iterator[Move]:
    if goal.wanted.kind == "or":
        yield "left", [goal.towards(goal.wanted[0])]
        yield "right", [goal.towards(goal.wanted[1])]


def _conclusions(goal: Goal) -> Iterator[Move]:
    """Yield the uses of implications whose premise is a hypothesis."""
    facts = goal.facts
    for name, fact in goal.given:
        if fact.kind == "imp" and fact[0] in facts and fact[1] not in facts:
            premise = next(other for other, formula in goal.given if formula == fact[0])
            yield f"have h{goal.names + 1} := {name} {premise}", [goal.without("", fact[1])]


def _absurdity(goal: Goal) -> Iterator[Move]:
    if goal.wanted != FALSE and any(_premises(fact, FALSE) for fact in goal.facts):
        yield "exfalso", [goal.towards(FALSE)]


def _conjuncts(formula: Formula) -> tuple[Formula, Formula]:
    """Return the two sides of a conjunction, or the two implications of an equivalence."""
    left, right = formula[0], formula[1]
    if formula.kind == "and":
        return left, right
    return Formula("imp", (left, right)), Formula("imp", (right, left))


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
        if formula in seen or not is_worth_proving(formula):
            continue
        seen.add(formula)
        tactics = proof(formula)
        if not tactics:
            continue
        length = min(len(tactics), longest)
        if wanted.get(length):
            wanted[length] -= 1
            yield f"({' '.join(sorted(letters(formula)))} : Prop) : {in_lean(formula)}", tactics


def is_worth_proving(formula: Formula) -> bool:
    """Return whether a formula is true, and has atoms but is not one."""
    return formula.kind != "atom" and bool(letters(formula)) and is_tautology(formula)
