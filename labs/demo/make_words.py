"""Write word problems to data/words.json, and to data/words_train.json for STaR's training.

    python -m labs.demo words

A template has a text and its steps. Small letters are numbers from 2 to 12, and capital letters are
numbers from 20 to 99. x, y and z are the results of the steps. No problem of words_train has the
template and the numbers of a problem of words."""

import argparse
import random
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.demo.make_sums import write

SIZES = {"words": 200, "words_train": 600}
NAMES = "Ada Ben Chloe David Emma Felix Grace Hugo Iris Jonas Kira Leo Mia Noah Olga Paul".split()
THINGS = (
    "apples marbles shells stamps stickers buttons pencils cookies coins cards flowers beads"
).split()
Key = tuple[Any, ...]  # a template with its numbers
MOST = 999  # the largest result of a step

ONE = (
    (
        (
            "{name} has {a} {things}. {other} gives {name} {b} more. How many {things} does {name} "
            "have now?"
        ),
        "a + b",
    ),
    (
        (
            "There are {a} {things} on a table. {name} takes {b} of them away. How many {things} "
            "are left there?"
        ),
        "a - b",
    ),
    (
        "{name} buys {a} boxes. Every box holds {b} {things}. How many {things} does {name} buy?",
        "a * b",
    ),
    (
        (
            "{name} shares {a} {things} equally among {b} children. How many {things} does each "
            "child get?"
        ),
        "a / b",
    ),
    (
        (
            "There are {a} people on a bus. At a stop, {b} people get on. How many people are on "
            "the bus then?"
        ),
        "a + b",
    ),
    (
        "{name} is {a} years old. {other} is {b} years younger than {name}. How old is {other}?",
        "a - b",
    ),
    ("A museum ticket costs {a} dollars. How many dollars do {b} tickets cost?", "a * b"),
    ("{name} plants {a} trees in {b} equal rows. How many trees are in each row?", "a / b"),
    (
        "{name} walks {a} miles today and {b} miles tomorrow. How many miles is that in all?",
        "a + b",
    ),
    ("{name} needs {a} {things} but has only {b}. How many {things} are missing?", "a - b"),
    (
        "{name} reads {a} pages every evening. How many pages does {name} read in {b} evenings?",
        "a * b",
    ),
    (
        "{name} puts {a} {things} into bags, {b} in each bag. How many bags does {name} fill?",
        "a / b",
    ),
    (
        (
            "A red ribbon is {a} feet long and a blue one {b} feet. How much longer in feet is the "
            "red ribbon?"
        ),
        "a - b",
    ),
    ("A shop sells {a} green hats and {b} white hats. How many hats does the shop sell?", "a + b"),
)
TWO = (
    (
        (
            "{name} has {a} {things}, finds {b} more and then loses {c}. How many {things} does "
            "{name} have now?"
        ),
        "a + b; x - c",
    ),
    (
        (
            "{name} fills {a} jars with {b} {things} each. {c} {things} are left over. How many "
            "{things} are there in all?"
        ),
        "a * b; x + c",
    ),
    (
        (
            "{name} has {A} dollars and buys {b} shirts for {c} dollars each. How many dollars "
            "does {name} have then?"
        ),
        "b * c; A - x",
    ),
    (
        (
            "{name} picks {a} {things} and {other} picks {b}. The two of them share all equally. "
            "How many does each get?"
        ),
        "a + b; x / 2",
    ),
    (
        (
            "A pen costs {a} dollars and a lamp costs {b} dollars. How many dollars do {c} pens "
            "and one lamp cost?"
        ),
        "a * c; x + b",
    ),
    (
        (
            "{name} saves {a} dollars a week for {b} weeks and then spends {c} dollars. How many "
            "dollars are left?"
        ),
        "a * b; x - c",
    ),
    (
        (
            "A hall has {a} rows of {b} chairs. People sit on {c} of the chairs. How many chairs "
            "are free?"
        ),
        "a * b; x - c",
    ),
    (
        (
            "{name} bakes {A} rolls and eats {b} of them. The rest fill {c} equal baskets. How "
            "many rolls are in a basket?"
        ),
        "A - b; x / c",
    ),
    (
        (
            "{other} owns {a} {things}. {name} owns {b} times as many. How many {things} do they "
            "own together?"
        ),
        "a * b; x + a",
    ),
    (
        (
            "A garden is {a} meters long and {b} meters wide. How many meters of fence go all "
            "around it?"
        ),
        "a + b; x * 2",
    ),
    (
        "A gift costs {A} dollars and its wrapping {b} dollars. {c} friends share the cost "
        "equally. How many dollars does each friend pay?",
        "A + b; x / c",
    ),
    (
        (
            "There are {A} ducks on a lake. {b} ducks fly away and {c} new ones arrive. How many "
            "are on the lake now?"
        ),
        "A - b; x + c",
    ),
    (
        (
            "Each of {a} hens lays {b} eggs. The eggs are packed in cartons of {c}. How many "
            "cartons are filled?"
        ),
        "a * b; x / c",
    ),
    (
        (
            "{A} liters of juice fill {b} equal bottles. How many liters of juice fill {c} such "
            "bottles?"
        ),
        "A / b; x * c",
    ),
)
THREE = (
    (
        "{name} buys {a} packs of {b} {things}, keeps {c} of the {things}, and divides the "
        "others equally among {d} friends. How many {things} does each friend get?",
        "a * b; x - c; y / d",
    ),
    (
        (
            "{name} lays {a} rows of {b} red tiles and {c} rows of {d} gray tiles. How many tiles "
            "does {name} lay in all?"
        ),
        "a * b; c * d; x + y",
    ),
    (
        "{name} works {a} hours a day for {b} days and earns {c} dollars an hour. Then {name} "
        "pays a bill of {A} dollars. How many dollars are left?",
        "a * b; x * c; y - A",
    ),
    (
        "{name} picks {a} baskets of {b} pears. {other} picks {c} baskets of {d} pears. How many "
        "more pears does {name} pick than {other}?",
        "a * b; c * d; x - y",
    ),
    (
        "A school has {a} classes of {b} children. Today {c} children are ill. The others form "
        "teams of {d}. How many teams are there?",
        "a * b; x - c; y / d",
    ),
    (
        "{name} owns {a} {things} and {other} owns {b} times as many. Then {other} loses {c} of "
        "them. How many {things} do they own together now?",
        "a * b; x - c; y + a",
    ),
    (
        "A market has {A} melons. It sells {b} melons in the morning and twice as many in the "
        "afternoon. How many melons does it have in the evening?",
        "b * 2; b + x; A - y",
    ),
    (
        "A tank contains {A} liters of water. {name} adds {b} buckets of {c} liters each and "
        "then takes out {d} liters. How many liters does the tank contain now?",
        "b * c; A + x; y - d",
    ),
    (
        "{name} grows {a} rows of {b} pumpkins. {c} of the pumpkins rot. {name} sells the others "
        "for {d} dollars each. How many dollars does {name} get?",
        "a * b; x - c; y * d",
    ),
    (
        "{name} swims {a} laps on Monday, and {b} laps more on Tuesday than on Monday. The goal "
        "is {A} laps. How many laps are missing after these two days?",
        "a + b; x + a; A - y",
    ),
)
LEVELS = {"one step": ONE, "two steps": TWO, "three steps": THREE}


@dataclass(frozen=True)
class Drawn:
    """A problem: its statement, its answer, and its template with the numbers (`key`)."""

    statement: str
    answer: int
    key: Key


def result(steps: str, numbers: dict[str, int]) -> int | None:
    """Return the last step's result, or None if a result is no whole number from 1 to MOST, or a
    quotient is 1."""
    values = dict(numbers)
    value = 0
    for name, step in zip("xyz", steps.split("; "), strict=False):
        left, sign, right = step.split()
        a = values[left]
        b = values[right] if right in values else int(right)
        if sign == "/" and (a % b or a == b):
            return None
        value = {"+": a + b, "-": a - b, "*": a * b, "/": a // b}[sign]
        if not 1 <= value <= MOST:
            return None
        values[name] = value
    return value


def draw(chance: random.Random, text: str, steps: str) -> Drawn:
    """Draw names, things and numbers for a template until every step has a valid result."""
    name, other = chance.sample(NAMES, 2)
    words = {"name": name, "other": other, "things": chance.choice(THINGS)}
    letters = re.findall(r"{(\w)}", text)
    while True:
        numbers = {}
        for letter in letters:
            span = (20, 99) if letter.isupper() else (2, 12)
            numbers[letter] = chance.randint(*span)
        if answer := result(steps, numbers):
            return Drawn(text.format(**words, **numbers), answer, (text, *numbers.values()))


def rows(
    name: str, size: int, seed: int, taken: Collection[Key] = ()
) -> tuple[list[dict[str, Any]], set[Key]]:
    """Return the rows of a set with different statements, and their keys. Keys in `taken` are left
    out."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    keys: set[Key] = set()
    seen: set[str] = set()
    levels = list(LEVELS.items())
    while len(rows) < size:
        # levels alternate, and within a level its templates
        turn, level_number = divmod(len(rows), len(levels))
        level, templates = levels[level_number]
        text, steps = templates[turn % len(templates)]
        drawn = draw(chance, text, steps)
        if drawn.key in taken or drawn.statement in seen:
            continue
        keys.add(drawn.key)
        seen.add(drawn.statement)
        id_ = f"{name}_{len(rows) + 1:03d}"
        rows.append({"id": id_, "problem": drawn.statement, "answer": drawn.answer, "split": level})
    return rows, keys


def bundled() -> dict[str, list[dict[str, Any]]]:
    words, keys = rows("words", SIZES["words"], 1)
    words_train, _ = rows("words_train", SIZES["words_train"], 2, keys)
    return {"words": words, "words_train": words_train}


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    for name, problems in bundled().items():
        write(Path(__file__).resolve().parents[2] / "data" / f"{name}.json", problems)
