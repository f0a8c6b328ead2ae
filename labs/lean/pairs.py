"""Pairs of a state and a tactic that a proof takes there: what a policy is trained on, as rows of JSON lines
(training/rows.py), asked as the search asks.

A pair may be given other guises: other names of variables, and hypotheses that say nothing of the goal. That is made
for states such as those of data/lean: variables of one letter, hypotheses h1, h2 and so on. A pair without such stays
as it is.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from core.base.files import write_atomically
from labs.lean.download import decoded
from labs.lean.policy import asked
from labs.lean.search import plain

# Variables by what stands behind their colon, and the names that they may get.
POOLS = {"Prop": "pqrstuvw", "Nat": "abcdefgkmn", "Nat → Prop": "PQRSTUV"}
# Hypotheses that say nothing of the goal.
BESIDE = ("{x}", "¬{x}", "{x} → {y}", "{x} ∧ {y}", "{x} ∨ {y}", "{x} ↔ {y}", "({x} → {y}) → {x}", "{x} ∧ ¬{y}")
MOST_BESIDE = 4
_VARIABLES = re.compile(r"^([A-Za-z](?: [A-Za-z])*) : (.+)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][\w']*(?:\.[A-Za-z_][\w']*)*")
WHAT, REMEDY = "the pairs", "Remove the file, and run the same command again"


@dataclass(frozen=True)
class Pair:
    """`state`: goals as text. `theorem`: whose proof it is."""

    theorem: str
    state: str
    tactic: str


class _Row(Struct):
    """The fields of a line that make a pair."""

    theorem: str
    state: str
    output: str


def merged(parts: Iterable[Sequence[Pair]]) -> list[Pair]:
    """Those of all `parts`, each state and tactic once."""
    once = {(plain(pair.state), pair.tactic): pair for part in parts for pair in part}
    return sorted(once.values(), key=lambda pair: (pair.theorem, pair.state, pair.tactic))


def write(path: Path, pairs: Iterable[Pair]) -> None:
    """An object a line: what a training reads, and the pair itself. Raises UserError."""
    write_atomically(path, (f"{json.dumps(_row(pair), ensure_ascii=True)}\n".encode() for pair in pairs))


def read(path: Path) -> list[Pair]:
    """Raises UserError."""
    rows = decoded(path, _Row, WHAT, REMEDY, is_lines=True)
    return [Pair(row.theorem, row.state, row.output) for row in rows]


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "instruction": asked(pair.state)[0]["content"],
        "input": "",
        "output": pair.tactic,
        "theorem": pair.theorem,
        "state": pair.state,
    }


# Guises


def renamed(pair: Pair, rng: random.Random) -> Pair:
    """The same with other names for the variables of its state; those that are bound in it keep theirs."""
    names: dict[str, str] = {}
    taken = set(_NAME.findall(pair.state)) | set(_NAME.findall(pair.tactic))
    for found in _VARIABLES.finditer(pair.state):
        pool = POOLS.get(found[2], "")
        for name in found[1].split():
            if name in pool and name not in names:
                own = {each for each in taken if each in pool and not _is_variable(pair.state, each)}
                names[name] = rng.choice([each for each in pool if each not in own and each not in names.values()])
    by_name = lambda found: names.get(found[0], found[0])  # noqa: E731
    return Pair(pair.theorem, _NAME.sub(by_name, pair.state), _NAME.sub(by_name, pair.tactic))


def shifted(pair: Pair, rng: random.Random) -> Pair:
    """The same behind up to MOST_BESIDE hypotheses of other formulas; its own get the numbers behind them: what
    is right is right with more known. A state without propositions, or of several goals, stays as it is."""
    found = re.search(r"^([A-Za-z](?: [A-Za-z])*) : Prop\n", pair.state, re.MULTILINE)
    more = rng.choice((0, 0, *range(1, MOST_BESIDE + 1)))
    if found is None or not more or "\n\n" in pair.state:
        return pair

    def moved(text: str) -> str:
        return re.sub(r"\bh(\d+)\b", lambda name: f"h{int(name[1]) + more}", text)

    lines = []
    for number in range(1, more + 1):
        x, y = rng.choices(found[1].split(), k=2)
        lines.append(f"h{number} : {rng.choice(BESIDE).format(x=x, y=y)}\n")
    state = moved(pair.state)
    place = found.end()
    return Pair(pair.theorem, state[:place] + "".join(lines) + state[place:], moved(pair.tactic))


def _is_variable(state: str, name: str) -> bool:
    return any(name in found[1].split() for found in _VARIABLES.finditer(state))


def drawn(given: Sequence[Pair], seed: int) -> Iterator[Pair]:
    """All pairs again and again, in random order, each time renamed."""
    rng = random.Random(seed)
    while True:
        for pair in rng.sample(given, len(given)):
            yield shifted(renamed(pair, rng), rng)
