"""Read a marking scheme from a model's reply, and check that the checkpoints of each way to a proof add up to 7.
ENDING in curate/schemes.py sets the form. A chain is one way, and its sum includes the common checkpoints."""

import re
from itertools import pairwise
from typing import NamedTuple

from core.types import MAX_POINTS

NONE = "none"
CHECKPOINTS, CHAIN, NO_CREDIT, DEDUCTIONS = "Checkpoints", "Chain", "No credit", "Deductions"
NEXT = {CHECKPOINTS: NO_CREDIT, NO_CREDIT: DEDUCTIONS}
RULE = f"one way is worth {MAX_POINTS} points; of several chains only the best counts, they are not added"

_SIGNS = " \t\r#*_"  # around headings
_HEADING = re.compile(rf"({CHECKPOINTS}|{NO_CREDIT}|{DEDUCTIONS})(?:[ \t]*\([^()]*\))?[ \t]*:?", re.IGNORECASE)
_CHAIN = re.compile(rf"{CHAIN}[ \t]*(\w{{1,3}})?[ \t]*:[{_SIGNS}]*(.*)", re.IGNORECASE)
_POINTS = rf"([1-{MAX_POINTS}])[ \t]+points?"
_WORTH = re.compile(rf"(?:\*\*{_POINTS}(?::\*\*|\*\*[ \t]*:)|{_POINTS}[ \t]*:)[ \t]*(\S.*)", re.IGNORECASE)
_ITEM = re.compile(r"[-*•][ \t]+(\S.*)")


class Scheme(NamedTuple):
    """A marking scheme. `fault` is None, or gives the points (and the chain) of a way that does not add up to 7."""

    text: str
    fault: str | None


def read(text: str, shown: str = "") -> Scheme | None:
    """Return the scheme at the end of `text`. Returns None if it is missing, breaks the form, or quotes `shown`."""
    lines = [line.strip() for line in text.split("\n") if line.strip().strip("`").strip()]  # no blank or ``` lines
    begins = [place for place, line in enumerate(lines) if _section(line) == CHECKPOINTS]
    if not begins or len(lines) < begins[-1] + 2:
        return None
    found = lines[begins[-1] :]
    first, second, *others = (line.strip().strip(_SIGNS) for line in [*found[:2], *shown.split("\n")] if line.strip())
    if (first, second) in pairwise(others):
        return None
    scheme, section = [f"{CHECKPOINTS} ({RULE}):"], CHECKPOINTS
    ways: list[list[int]] = [[]]  # points of the common checkpoints, then of each chain
    for line in found[1:]:
        if heading := _section(line):
            if heading != NEXT.get(section):
                return None
            scheme, section = [*_filled(scheme), f"{heading}:"], heading
        elif section == CHECKPOINTS and (chain := _CHAIN.fullmatch(line.strip(_SIGNS))):
            if not (name := (chain[2] or chain[1] or "").strip(_SIGNS)):
                return None
            scheme.append(f"{CHAIN}: {name}")
            ways.append([])
        elif not (item := _ITEM.fullmatch(line)):
            return None
        elif item[1].strip(" .").lower() == NONE and section != CHECKPOINTS:
            continue
        elif section == NO_CREDIT:
            scheme.append(f"- {item[1]}")
        elif not (worth := _WORTH.fullmatch(item[1])):
            return None
        else:
            points = int(worth[1] or worth[2])
            scheme.append(f"- {points} {'point' if points == 1 else 'points'}: {worth[3]}")
            if section == CHECKPOINTS:
                ways[-1].append(points)
    common, *chains = ways
    if section != DEDUCTIONS or not all(chains):
        return None
    return Scheme("\n".join(_filled(scheme)), _fault(sum(common), [sum(chain) for chain in chains]))


def _filled(lines: list[str]) -> list[str]:
    """Return the lines, with the item "none" added if the last section is empty."""
    return [*lines, f"- {NONE}"] if lines[-1] in (f"{NO_CREDIT}:", f"{DEDUCTIONS}:") else lines


def _fault(common: int, chains: list[int]) -> str | None:
    totals = {f"chain {number}: ": common + points for number, points in enumerate(chains, 1)} or {"": common}
    return next((f"{name}{total} points" for name, total in totals.items() if total != MAX_POINTS), None)


def _section(line: str) -> str | None:
    """Return the name of the section that a line opens, or None."""
    found = _HEADING.fullmatch(line.strip(_SIGNS))
    return found[1].capitalize() if found else None
