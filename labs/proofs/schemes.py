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
from itertools import pairwise
from typing import NamedTuple

from core.types import MAX_POINTS

NONE = "none"
CHECKPOINTS, CHAIN, NO_CREDIT, DEDUCTIONS = "Checkpoints", "Chain", "No credit", "Deductions"
NEXT = {CHECKPOINTS: NO_CREDIT, NO_CREDIT: DEDUCTIONS}
RULE = f"one way is worth {MAX_POINTS} points; of several chains only the best counts, they are not added"

_SIGNS = " \t\r#*_"  # with which models set off headings
_HEADING = re.compile(rf"({CHECKPOINTS}|{NO_CREDIT}|{DEDUCTIONS})(?:[ \t]*\([^()]*\))?[ \t]*:?", re.IGNORECASE)
_CHAIN = re.compile(rf"{CHAIN}[ \t]*(\w{{1,3}})?[ \t]*:[{_SIGNS}]*(.*)", re.IGNORECASE)
_POINTS = rf"([1-{MAX_POINTS}])[ \t]+points?"
_WORTH = re.compile(rf"(?:\*\*{_POINTS}(?::\*\*|\*\*[ \t]*:)|{_POINTS}[ \t]*:)[ \t]*(\S.*)", re.IGNORECASE)
_ITEM = re.compile(r"[-*•][ \t]+(\S.*)")


class Scheme(NamedTuple):
    """A scheme in the form above, and why it does not add up: the points of the first way that are not 7 in all."""

    text: str
    fault: str | None


def read(text: str, shown: str = "") -> Scheme | None:
    """Read the scheme that `text` ends with, whether or not it adds up; reasons may precede it. None if there is none,
    or any line of it breaks the form. None, too, if its first two lines stand so in what its writer was `shown`: then
    nobody knows whose words they are."""
    lines = [line.strip() for line in text.split("\n") if line.strip(" \t\r`")]  # without Markdown's fences
    begins = [place for place, line in enumerate(lines) if _section(line) == CHECKPOINTS]
    if not begins or len(lines) < begins[-1] + 2:
        return None
    found = lines[begins[-1] :]
    if (_bare(found[0]), _bare(found[1])) in pairwise(_bare(line) for line in shown.split("\n") if line.strip()):
        return None
    made, section = [f"{CHECKPOINTS} ({RULE}):"], CHECKPOINTS
    ways: list[list[int]] = [[]]  # points of the items above all chains, then of each chain
    for line in found[1:]:
        if heading := _section(line):
            if heading != NEXT.get(section):
                return None
            made, section = [*_filled(made), f"{heading}:"], heading
        elif section == CHECKPOINTS and (chain := _CHAIN.fullmatch(line.strip(_SIGNS))):
            if not (name := (chain[2] or chain[1] or "").strip(_SIGNS)):
                return None
            made.append(f"{CHAIN}: {name}")
            ways.append([])
        elif not (item := _ITEM.fullmatch(line)):
            return None
        elif item[1].strip(" .").lower() == NONE and section != CHECKPOINTS:
            continue
        elif section == NO_CREDIT:
            made.append(f"- {item[1]}")
        elif not (worth := _WORTH.fullmatch(item[1])):
            return None
        else:
            points = int(worth[1] or worth[2])
            made.append(f"- {points} {'point' if points == 1 else 'points'}: {worth[3]}")
            if section == CHECKPOINTS:
                ways[-1].append(points)
    common, *chains = ways
    if section != DEDUCTIONS or not all(chains):
        return None
    return Scheme("\n".join(_filled(made)), _fault(sum(common), [sum(chain) for chain in chains]))


def _filled(lines: list[str]) -> list[str]:
    """Say that the last section is empty, if it is one that may be."""
    return [*lines, f"- {NONE}"] if lines[-1] in (f"{NO_CREDIT}:", f"{DEDUCTIONS}:") else lines


def _fault(common: int, chains: list[int]) -> str | None:
    for number, points in enumerate(chains or [0], 1):
        if common + points != MAX_POINTS:
            return f"{f'chain {number}: ' if chains else ''}{common + points} points"
    return None


def _section(line: str) -> str | None:
    """Return the section that a line is the heading of."""
    found = _HEADING.fullmatch(line.strip(_SIGNS))
    return found[1].capitalize() if found else None


def _bare(line: str) -> str:
    return line.strip().strip(_SIGNS)
