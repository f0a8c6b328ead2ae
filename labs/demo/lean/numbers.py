"""Generate lemmas about natural numbers: families with known proofs, and statements to prove by
induction.

make_lemmas.py searches for the proofs by induction with Lean.
"""

import itertools
import random
from collections.abc import Iterable, Iterator

LETTERS = "abcdef"
CONTEXTS = (
    "{} + {v}",
    "{v} + {}",
    "{} * {v}",
    "{v} * {}",
    "{} + {n}",
    "{n} * {}",
    "({} + {v}) * {n}",
    "{v} + {} * {v}",
)
REWRITES = ("zero_add", "mul_succ", "add_succ", "succ_add", "add_assoc", "add_comm")
Lemma = tuple[str, list[str]]


def _intros(count: int) -> list[str]:
    return [f"intro h{i}" for i in range(1, count + 1)]


def chains(rng: random.Random) -> Iterator[Lemma]:
    """Yield lemmas that `rw` proves, such as a = b → b = c → a + d = c + d. Their hypotheses are in
    random order."""
    for length, _ in itertools.product((1, 2, 3, 4), range(9)):
        names = list(LETTERS[: length + 1])
        rng.shuffle(names)
        order = list(range(length))
        rng.shuffle(order)
        context = rng.choice(CONTEXTS)
        context = context.replace("{v}", rng.choice(LETTERS))
        context = context.replace("{n}", str(rng.randint(1, 9)))
        given = [f"{names[i]} = {names[i + 1]}" for i in order]
        goal = f"{context.format(names[0])} = {context.format(names[-1])}"
        letters = sorted({letter for letter in goal + "".join(given) if letter in LETTERS})
        tactics = [f"rw [h{order.index(i) + 1}]" for i in range(length)]
        statement = f"({' '.join(letters)} : Nat) : {' → '.join([*given, goal])}"
        yield statement, [*_intros(length), *tactics]


def orders() -> Iterator[Lemma]:
    """Yield lemmas such as a ≤ b → a + i ≤ b + j, and lemmas with chains of ≤."""
    for i, j in itertools.product(range(4), range(1, 7)):
        if i <= j:
            left = "a" + (f" + {i}" if i else "")
            steps = ["apply Nat.le_succ_of_le"] * (j - i) + ["apply Nat.succ_le_succ"] * i
            yield f"(a b : Nat) : a ≤ b → {left} ≤ b + {j}", ["intro h1", *steps, "assumption"]
    for length, more in itertools.product((2, 3, 4), range(4)):
        given = [f"{LETTERS[i]} ≤ {LETTERS[i + 1]}" for i in range(length)]
        goal = f"a ≤ {LETTERS[length]}" + (f" + {more}" if more else "")
        steps = ["apply Nat.le_succ_of_le"] * more
        steps += [f"apply Nat.le_trans h{i}" for i in range(1, length)]
        statement = f"({' '.join(LETTERS[: length + 1])} : Nat) : {' → '.join([*given, goal])}"
        yield statement, [*_intros(length), *steps, "assumption"]


def predicates() -> Iterator[Lemma]:
    """Yield lemmas about predicates of numbers: instances, witnesses, steps from n to n + 1, and
    implications."""
    for number in (0, 1, 2, 3, 5, 8):
        yield f"(P : Nat → Prop) : (∀ x, P x) → P {number}", ["intro h1", f"exact h1 {number}"]
        yield f"(P : Nat → Prop) : P {number} → ∃ x, P x", ["intro h1", f"exact ⟨{number}, h1⟩"]
        yield f"(a : Nat) : ∃ x, x = a + {number}", [f"exact ⟨a + {number}, rfl⟩"]
        yield f"(a : Nat) : ∃ x, a + x = a + {number}", [f"exact ⟨{number}, rfl⟩"]
    for steps in range(1, 9):
        climb = ["apply h2"] * steps
        yield (
            f"(P : Nat → Prop) : P 0 → (∀ x, P x → P (x + 1)) → P {steps}",
            ["intro h1", "intro h2", *climb, "assumption"],
        )
        yield (
            f"(P : Nat → Prop) (a : Nat) : P a → (∀ x, P x → P (x + 1)) → P (a + {steps})",
            ["intro h1", "intro h2", *climb, "assumption"],
        )
    for length, start in itertools.product((1, 2, 3, 4), (0, 1, 4)):
        names = "PQRST"[: length + 1]
        rules = [f"(∀ x, {names[i]} x → {names[i + 1]} x)" for i in range(length)]
        back = [f"apply h{i}" for i in range(length, 0, -1)]
        last = names[-1]
        premises = f"({' '.join(names)} : Nat → Prop) : {' → '.join(rules)}"
        yield (
            f"{premises} → P {start} → {last} {start}",
            [*_intros(length + 1), *back, "assumption"],
        )
        if start == 0:
            yield (
                f"{premises} → (∃ x, P x) → ∃ x, {last} x",
                [
                    *_intros(length + 1),
                    f"rcases h{length + 1} with ⟨x, h{length + 2}⟩",
                    "refine ⟨x, ?_⟩",
                    *back,
                    "assumption",
                ],
            )


def by_induction() -> Iterator[str]:
    """Yield statements to prove with the tactics of `tries`. Most proofs need induction."""
    yield from (
        "(n : Nat) : 0 + n = n",
        "(n : Nat) : 0 * n = 0",
        "(n : Nat) : 1 * n = n",
        "(n : Nat) : n * 1 = n",
        "(n : Nat) : n * 2 = n + n",
        "(a b : Nat) : a + b = b + a",
        "(a b c : Nat) : a + b + c = a + (b + c)",
        "(a b c : Nat) : a + b + c = a + c + b",
        "(a b c : Nat) : a + (b + c) = b + (a + c)",
        "(a b : Nat) : a ≤ a + b",
        "(a b : Nat) : a ≤ b + a",
        "(n : Nat) : n ≤ n",
        "(n : Nat) : 0 ≤ n",
        "(n : Nat) : n ≤ n * 1",
        "(a b : Nat) : 0 ≤ a * b",
        "(n : Nat) : 0 * n + n = n",
        "(n : Nat) : n + 0 * n = n",
    )
    for k in range(1, 6):
        yield f"(n : Nat) : 0 + (n + {k}) = n + {k}"
        yield f"(n : Nat) : n + {k} = {k} + n"
        yield f"(n : Nat) : 0 * (n + {k}) = 0"
        yield f"(n : Nat) : n ≤ n + {k}"
        yield f"(a b : Nat) : a + (b + {k}) = a + b + {k}"
        yield f"(a b : Nat) : a + {k} + b = a + b + {k}"
        yield f"(n : Nat) : 0 + n + {k} = n + {k}"
        yield f"(f : Nat → Nat) : f 0 = {k} → (∀ n, f (n + 1) = f n) → ∀ n, f n = {k}"
        yield f"(f : Nat → Nat) : f 0 = 0 → (∀ n, f (n + 1) = f n + {k}) → ∀ n, f n = {k} * n"
        yield f"(P : Nat → Prop) : P 0 → (∀ n, P n → P (n + 1)) → ∀ n, P (n + {k})"
    yield "(P : Nat → Prop) : P 0 → (∀ n, P n → P (n + 1)) → ∀ n, P n"
    yield "(P Q : Nat → Prop) : P 0 → (∀ n, P n → P (n + 1)) → (∀ n, P n → Q n) → ∀ n, Q n"
    yield "(P Q : Nat → Prop) : P 0 → (∀ n, P n → Q (n + 1)) → (∀ n, Q n → P n) → ∀ n, P n"


def tries(state: str) -> list[str]:
    """Return promising tactics for the first goal of a state in Lean's text format."""
    lines = state.split("\n\n")[0].split("\n")
    wanted = next(line for line in lines if line.startswith("⊢"))[2:]
    given: list[tuple[str, str]] = []  # name and type
    for line in lines:
        if not line.startswith(("⊢", "case")):
            names, _, type_ = line.partition(" : ")
            given += [(name, type_) for name in names.split()]
    new = _unused(name for name, _ in given)
    if wanted.startswith("∀"):
        variable = wanted[1:].strip(" (").split()[0].rstrip(",")
        return [f"intro {variable}"]
    if "→" in wanted:
        return [f"intro {new}"]
    tactics = ["rfl", "assumption", *_uses(given), *_by_library(wanted)]
    if "case" not in state:  # one induction is enough
        numbers = [name for name, type_ in given if type_ == "Nat" and name.isalpha()]
        tactics += [
            f"induction {name} with | zero => ?_ | succ {name} {new} => ?_"
            for name in reversed(numbers)
        ]
    return tactics


def _unused(names: Iterable[str]) -> str:
    """Return the first name of a hypothesis after `names`."""
    numbers = [int(name[1:]) for name in names if name[0] == "h" and name[1:].isdigit()]
    return f"h{max(numbers, default=0) + 1}"


def _uses(given: list[tuple[str, str]]) -> list[str]:
    """Return the tactics that use a hypothesis."""
    rewrites = [f"rw [{name}]" for name, type_ in given if "=" in type_ and name[0] == "h"]
    applications = [
        f"apply {name}" for name, type_ in given if type_.startswith("∀") and "=" not in type_
    ]
    return rewrites + applications


def _by_library(wanted: str) -> list[str]:
    """Return the tactics that use Lean's theorems about natural numbers."""
    tactics = []
    if "≤" in wanted:
        tactics += ["exact Nat.le_refl _", "apply Nat.le_succ_of_le", "exact Nat.zero_le _"]
    if "=" in wanted or "≤" in wanted:
        tactics += [f"rw [Nat.{name}]" for name in REWRITES]
    return tactics
