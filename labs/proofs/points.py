"""Read points from the last line of a grader's reply. A reply that ends with two lines of the proof has no points."""

import re
from collections.abc import Container
from itertools import pairwise

from core.types import MAX_POINTS

STATED = "Points:"
ALL = range(MAX_POINTS + 1)
RIGHT_OR_WRONG = (0, MAX_POINTS)  # the points of an answer

# Matches a whole line, with or without Markdown's signs for bold type or code. Lines after > or " do not match.
_LINE = re.compile(r"[ \t*_`]*+points[ \t*_`]*+:[ \t*_`]*+([0-9])[ \t*_`]*+\.?[ \t*_`]*+", re.IGNORECASE)


def read(text: str, allowed: Container[int] = ALL, proof: str = "") -> int | None:
    """Return the points in `text`'s last line, or None if they are missing, not `allowed`, or quoted from `proof`."""
    if ends_with_a_quotation(text, proof):
        return None
    last = text.strip().rpartition("\n")[-1]  # not splitlines, because a quotation may contain other line ends
    stated = _LINE.fullmatch(last)
    points = int(stated[1]) if stated else None
    return points if points is not None and points in allowed else None


def ends_with_a_quotation(text: str, proof: str) -> bool:
    """Return whether the last two lines of `text` follow each other in the `proof`. Blank lines are skipped."""
    own, written = ([line.strip() for line in each.split("\n") if line.strip()] for each in (text, proof))
    return len(own) > 1 and (own[-2], own[-1]) in pairwise(written)
