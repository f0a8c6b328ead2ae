"""Find the faults of problems and their solutions: `bash scripts/filter.sh FILE|hub:owner/name
GRADER=card`. It reads the columns of AI-MO/aops, as QED-Nano's eval/scripts/filtering.py does. The
new columns are our own."""

import re
import sys
from collections.abc import Mapping
from typing import Any

from labs.proofs.curate import tool
from labs.proofs.curate.tool import INPUT, Tool
from labs.proofs.rubric import ends_with_a_quotation

ABOUT = f"""Ask a model to find faults in {INPUT} The rows have the columns of AI-MO/aops: \
problem, solution and,
optionally, candidates (other posts) and path. The new columns are incomplete, difficulty (1 to \
10), gaps, wrong,
disagreement (with other posts) and computational."""

OURS = """You look through problems that were posted in a forum, with a solution, to find those \
from which one can \
learn to write proofs.

Where it was posted:
{path}

The problem:
{problem}

The solution:
{solution}

Other posts below the problem:
{candidates}

Say first what you find. Incomplete: the problem or its solution is not all there; a condition, a \
picture or a case is \
missing, or the solution breaks off or only points elsewhere. Difficulty: 1 is an exercise from \
school, 4 an easy \
problem of a national contest, 7 a problem of middling difficulty at an international olympiad, \
10 the hardest ever \
set there. Gaps: a step of the solution that needs an argument has none. Wrong: a step does not \
follow, or what it \
comes to is false. Disagreement: another post comes to something else, or finds a mistake. \
Computational: what is \
asked for is a value that a calculation gives, with nothing to be proved."""

ENDING = """End with six lines, in this order, and write nothing below them. Each says yes or no, \
and the second one a \
whole number from 1 to 10 in place of N:

Incomplete: yes or no
Difficulty: N
Gaps: yes or no
Wrong: yes or no
Disagreement: yes or no
Computational: yes or no"""

COLUMNS = ("incomplete", "difficulty", "gaps", "wrong", "disagreement", "computational")
_SIGNS = r"[ \t*_`$#]*+"  # white space and the signs of Markdown and TeX around a word


def read(reply: str, shown: str) -> Mapping[str, Any] | None:
    """Return the columns in a reply's last six lines, or None if a line is unreadable or the last
    two quote `shown`."""
    lines = [line.strip() for line in reply.split("\n") if line.strip()]
    if len(lines) < len(COLUMNS) or ends_with_a_quotation(reply, shown):
        return None
    found: dict[str, bool | int] = {}
    for name, line in zip(COLUMNS, lines[-len(COLUMNS) :], strict=True):
        values = "10|[1-9]" if name == "difficulty" else "yes|no"
        cell = re.fullmatch(
            rf"{_SIGNS}{name}{_SIGNS}:{_SIGNS}({values}){_SIGNS}\.?{_SIGNS}", line, re.IGNORECASE
        )
        if not cell:
            return None
        found[name] = int(cell[1]) if name == "difficulty" else cell[1].lower() == "yes"
    return found


FILTER = Tool("filter", "all six columns", ABOUT, OURS, ENDING, COLUMNS, read)

if __name__ == "__main__":
    tool.main(FILTER, sys.argv[1:])
