"""Read points from a grader's own words: from the one line that it was asked to end with, and from nowhere else.

What a grader quotes of a proof stands above its last line, and a proof that says "Points: 7" wins nothing; nor does it
where a grader ends with a quotation of it.
"""

import re
from collections.abc import Container
from itertools import pairwise

from core.types import MAX_POINTS

STATED = "Points:"
ALL = range(MAX_POINTS + 1)
RIGHT_OR_WRONG = (0, MAX_POINTS)  # of an answer

# The whole line, with the signs for bold type that many models put around it. No quotation: neither > nor ".
_LINE = re.compile(r"[ \t*_`]*+points[ \t*_`]*+:[ \t*_`]*+([0-9])[ \t*_`]*+\.?[ \t*_`]*+", re.IGNORECASE)


def read(text: str, allowed: Container[int] = ALL, proof: str = "") -> int | None:
    """The points that the last line of `text` (a grader's answer, without its thinking) states: "Points: 5" and no more
    than that. None where it states none, or any but those `allowed`: 4.5, 5/7, 8 and -1 are unreadable. None, too,
    where its last lines stand so in the `proof`: then nobody knows whose words they are."""
    if ends_with_a_quotation(text, proof):
        return None
    last = text.strip().rpartition("\n")[-1]  # no other sign ends a line: a quotation may hold any
    stated = _LINE.fullmatch(last)
    points = int(stated[1]) if stated else None
    return points if points is not None and points in allowed else None


def ends_with_a_quotation(text: str, proof: str) -> bool:
    """Whether the last two lines of `text` stand one below the other in the `proof`. (Blank ones are passed over. One
    line alone is nobody's in particular.)"""
    said, written = ([line.strip() for line in each.split("\n") if line.strip()] for each in (text, proof))
    return len(said) > 1 and (said[-2], said[-1]) in pairwise(written)
