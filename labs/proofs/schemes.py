"""A marking scheme as a text: what earns points, what earns none, and what is taken off; read, and checked to add up.

It is what a column `grading_scheme` holds and the prompt for grading by a scheme shows, in lines of plain text. (In
JSON, which knows \\f and \\b, a model's \\frac and \\beta would turn into other characters, and nobody would notice.)

    Checkpoints:
    - 2 points: what earns these, on every way to a proof
    Chain: one way to a proof
    - 5 points: what earns these on that way
    Chain: another one
    - 1 point: a step of it
    - 4 points: the rest
    No credit:
    - what earns nothing, however true it is
    Deductions:
    - 1 point: what these are taken off for

Points are whole. The checkpoints of every way add up to 7, with those that stand before all chains; of several chains
only the best counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from core.types import MAX_POINTS

NONE = "none"
CHECKPOINTS, CHAIN, NO_CREDIT, DEDUCTIONS = "Checkpoints", "Chain", "No credit", "Deductions"
RULE = f"one way is worth {MAX_POINTS} points; of several chains only the best counts, they are not added"

_SIGNS = " \t\r#*_"  # with which models set off headings
_HEADING = re.compile(rf"({CHECKPOINTS}|{NO_CREDIT}|{DEDUCTIONS})(?:[ \t]*\([^()]*\))?[ \t]*:?", re.IGNORECASE)
_CHAIN = re.compile(rf"{CHAIN}[ \t]*(\w{{1,3}})?[ \t]*:[{_SIGNS}]*(.*)", re.IGNORECASE)
_POINTS = rf"([1-{MAX_POINTS}])[ \t]+points?"
_WORTH = re.compile(rf"(?:\*\*{_POINTS}(?::\*\*|\*\*[ \t]*:)|{_POINTS}[ \t]*:)[ \t]*(\S.*)", re.IGNORECASE)
_ITEM = re.compile(r"[-*•][ \t]+(\S.*)")


class Item(NamedTuple):
    """So many points, and for what."""

    points: int
    words: str


class Chain(NamedTuple):
    """One of several ways to a proof."""

    name: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Scheme:
    """What earns points on every way (`common`) and on each of the `chains`, where there are any."""

    common: tuple[Item, ...] = ()
    chains: tuple[Chain, ...] = ()
    no_credit: tuple[str, ...] = ()
    deductions: tuple[Item, ...] = ()

    @property
    def fault(self) -> str | None:
        """Why it does not add up: the points of the first way that are not 7 in all; None where all are."""
        common = sum(item.points for item in self.common)
        ways = [(f"chain {number}: ", chain.items) for number, chain in enumerate(self.chains, 1)] or [("", ())]
        for which, items in ways:
            if (points := common + sum(item.points for item in items)) != MAX_POINTS:
                return f"{which}{points} points"
        return None

    @property
    def text(self) -> str:
        """In the form above; `read` reads it."""
        lines = [f"{CHECKPOINTS} ({RULE}):", *map(_line, self.common)]
        for chain in self.chains:
            lines += [f"{CHAIN}: {chain.name}", *map(_line, chain.items)]
        lines += [f"{NO_CREDIT}:", *(f"- {words}" for words in self.no_credit or (NONE,))]
        return "\n".join(
            [*lines, f"{DEDUCTIONS}:", *(map(_line, self.deductions) if self.deductions else [f"- {NONE}"])]
        )


def read(text: str, shown: str = "") -> Scheme | None:
    """The scheme that `text` ends with, whether or not it adds up; reasons may stand above it. None where there is
    none, or any line of it is not as it should be. None, too, where its first two lines stand so in what its writer was
    `shown`: then nobody knows whose words they are."""
    lines = [line.strip() for line in text.split("\n") if line.strip(" \t\r`")]  # a fence of Markdown says nothing
    begins = [place for place, line in enumerate(lines) if _section(line) == CHECKPOINTS]
    if not begins or len(lines) < begins[-1] + 2:
        return None
    found = lines[begins[-1] :]
    if (_bare(found[0]), _bare(found[1])) in pairwise(_bare(line) for line in shown.split("\n") if line.strip()):
        return None
    return _scheme(iter(found[1:]))


def _scheme(lines: Iterator[str]) -> Scheme | None:
    """The scheme in the lines below its first heading."""
    section, common = CHECKPOINTS, list[Item]()
    chains, no_credit, deductions = list[tuple[str, list[Item]]](), list[str](), list[Item]()
    for line in lines:
        if heading := _section(line):
            if (section, heading) not in ((CHECKPOINTS, NO_CREDIT), (NO_CREDIT, DEDUCTIONS)):
                return None
            section = heading
        elif section == CHECKPOINTS and (chain := _CHAIN.fullmatch(line.strip(_SIGNS))):
            if not (name := (chain[2] or chain[1] or "").strip(_SIGNS)):
                return None
            chains.append((name, []))
        elif not (item := _ITEM.fullmatch(line)):
            return None
        elif item[1].strip(" .").lower() == NONE and section != CHECKPOINTS:
            continue
        elif section == NO_CREDIT:
            no_credit.append(item[1])
        elif not (worth := _WORTH.fullmatch(item[1])):
            return None
        else:
            into = deductions if section == DEDUCTIONS else chains[-1][1] if chains else common
            into.append(Item(int(worth[1] or worth[2]), worth[3]))
    if section != DEDUCTIONS or not all(items for _, items in chains):
        return None
    made = tuple(Chain(name, tuple(items)) for name, items in chains)
    return Scheme(tuple(common), made, tuple(no_credit), tuple(deductions))


def _section(line: str) -> str | None:
    """The section that a line is the heading of."""
    found = _HEADING.fullmatch(line.strip(_SIGNS))
    return found[1].capitalize() if found else None


def _bare(line: str) -> str:
    return line.strip().strip(_SIGNS)


def _line(item: Item) -> str:
    return f"- {item.points} {'point' if item.points == 1 else 'points'}: {item.words}"
