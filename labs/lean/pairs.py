"""Write and read pairs of a state and a tactic, which train a policy, as rows of JSON lines
(training/rows.py).

A pair can be copied with renamed variables and additional, irrelevant hypotheses. This works for
states like those in data/lean, with variables of one letter and hypotheses h1, h2 and so on. Copies
of other pairs are unchanged.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from core.base.files import write_atomically
from labs.lean.policy import asked
from labs.lean.search import plain
from labs.lean.theorems import decoded

# Possible names of variables, by their type.
POOLS = {"Prop": "pqrstuvw", "Nat": "abcdefgkmn", "Nat → Prop": "PQRSTUV"}
# Hypotheses that do not help to prove the goal.
IRRELEVANT = (
    "{x}",
    "¬{x}",
    "{x} → {y}",
    "{x} ∧ {y}",
    "{x} ∨ {y}",
    "{x} ↔ {y}",
    "({x} → {y}) → {x}",
    "{x} ∧ ¬{y}",
)
MOST_IRRELEVANT = 4
_VARIABLES = re.compile(r"^([A-Za-z](?: [A-Za-z])*) : (.+)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][\w']*(?:\.[A-Za-z_][\w']*)*")


class Pair(Struct, frozen=True, rename={"tactic": "output"}):
    """A proof state as text, the tactic that a proof of the theorem uses there, and the theorem's
    name."""

    theorem: str
    state: str
    tactic: str


def merged(parts: Iterable[Sequence[Pair]]) -> list[Pair]:
    """Merge the pairs of all `parts` in a fixed order. Pairs with equal state and tactic are merged
    into one."""
    once = {(plain(pair.state), pair.tactic): pair for part in parts for pair in part}
    return sorted(once.values(), key=lambda pair: (pair.theorem, pair.state, pair.tactic))


def write(path: Path, pairs: Iterable[Pair]) -> None:
    """Write each pair as a line of JSON, with the fields of a training row and of the pair. Raises
    UserError."""
    rows = (
        {"instruction": asked(pair.state)[0]["content"], "input": "", "output": pair.tactic}
        | {"theorem": pair.theorem, "state": pair.state}
        for pair in pairs
    )
    write_atomically(path, (f"{json.dumps(row, ensure_ascii=True)}\n".encode() for row in rows))


def read(path: Path) -> list[Pair]:
    """Read the pairs of a file. Raises UserError."""
    remedy = "Repeat the command that writes this file, or use another file"
    return list(decoded(path, Pair, "the pairs", remedy, is_lines=True))


def renamed(pair: Pair, rng: random.Random) -> Pair:
    """Return a pair with random names for the variables of its state, if their types are in
    POOLS."""
    names: dict[str, str] = {}
    taken = set(_NAME.findall(pair.state)) | set(_NAME.findall(pair.tactic))
    variables: list[tuple[str, str]] = []  # name and type
    for line in _VARIABLES.finditer(pair.state):
        variables += [(name, line[2]) for name in line[1].split()]
    bound = taken - {name for name, _ in variables}
    for name, type_ in variables:
        pool = POOLS.get(type_, "")
        if name in pool and name not in names:
            unavailable = bound.union(names.values())
            names[name] = rng.choice([letter for letter in pool if letter not in unavailable])

    def new_name(match: re.Match[str]) -> str:
        return names.get(match[0], match[0])

    return Pair(pair.theorem, _NAME.sub(new_name, pair.state), _NAME.sub(new_name, pair.tactic))


def shifted(pair: Pair, rng: random.Random) -> Pair:
    """Insert 0 to MOST_IRRELEVANT hypotheses before a pair's own hypotheses, whose numbers
    increase. The tactic should stay valid. A state without variables of type Prop, or with several
    goals, is unchanged."""
    propositions = re.search(r"^([A-Za-z](?: [A-Za-z])*) : Prop\n", pair.state, re.MULTILINE)
    count = rng.choice((0, 0, *range(1, MOST_IRRELEVANT + 1)))
    if propositions is None or not count or "\n\n" in pair.state:
        return pair

    def moved(text: str) -> str:
        return re.sub(r"\bh(\d+)\b", lambda name: f"h{int(name[1]) + count}", text)

    inserted = []
    for number in range(1, count + 1):
        x, y = rng.choices(propositions[1].split(), k=2)
        inserted.append(f"h{number} : {rng.choice(IRRELEVANT).format(x=x, y=y)}\n")
    before = moved(pair.state[: propositions.end()])
    after = moved(pair.state[propositions.end() :])
    return Pair(pair.theorem, "".join([before, *inserted, after]), moved(pair.tactic))


def drawn(given: Sequence[Pair], seed: int) -> Iterator[Pair]:
    """Yield all pairs without end, in random order in each round, each changed by `renamed` and
    `shifted`."""
    rng = random.Random(seed)
    while True:
        for pair in rng.sample(given, len(given)):
            yield shifted(renamed(pair, rng), rng)
