"""Pairs of a state and a tactic in other guises: other names of variables, and hypotheses that say nothing of the goal.

It is made for states such as those of data/lean: variables of one letter, hypotheses h1, h2 and so on. A pair without
such stays as it is.
"""

import random
import re
from collections.abc import Iterator, Sequence

from labs.lean.pairs import Pair

# Variables by what stands behind their colon, and the names that they may get.
POOLS = {"Prop": "pqrstuvw", "Nat": "abcdefgkmn", "Nat → Prop": "PQRSTUV"}
# Hypotheses that say nothing of the goal.
BESIDE = ("{x}", "¬{x}", "{x} → {y}", "{x} ∧ {y}", "{x} ∨ {y}", "{x} ↔ {y}", "({x} → {y}) → {x}", "{x} ∧ ¬{y}")
MOST_BESIDE = 4
_VARIABLES = re.compile(r"^([A-Za-z](?: [A-Za-z])*) : (.+)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][\w']*(?:\.[A-Za-z_][\w']*)*")


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
