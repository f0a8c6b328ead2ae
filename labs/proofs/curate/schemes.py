"""Write marking schemes from problems and solutions: `bash scripts/schemes.sh FILE|hub:owner/name
GRADER=card`. The checkpoints of each way to a proof add up to 7. A chain is one way, and its sum
includes the common checkpoints."""

import re
import sys
from itertools import pairwise

from core.types import MAX_POINTS
from labs.proofs.curate import tool
from labs.proofs.curate.tool import INPUT, Tool

ABOUT = f"""Ask a model to write a marking scheme of 7 points for {INPUT} The model sees the \
problem and its solution.
scripts/grade.sh and 18_proofs read the new column grading_scheme. If a reply is unusable, or its \
points do not add up
to 7, the command asks once more."""

OURS = """You write a marking scheme for a problem of a mathematics olympiad. Graders will give \
proofs 0 to 7 points \
by it.

The problem:
{problem}

A solution that is known to be right:
{solution}

Find the steps that any proof along these lines has to take, and say what each is worth. A \
checkpoint is something \
that a grader can find in a proof or miss there: a claim that is proved, a case that is settled, \
a construction that \
is shown to work. Where there is another way that is truly different, give it a chain of its own."""

SECTIONS = CHECKPOINTS, NO_CREDIT, DEDUCTIONS = "Checkpoints", "No credit", "Deductions"
CHAIN, NONE = "Chain", "none"
# `read` rejects the form below if a model only repeats it.
ENDING = f"""Think first. Then end with the scheme in exactly this form, an item a line, and \
write nothing below it:

{CHECKPOINTS}:
- N points: what earns these on every way to a proof
{CHAIN}: the name of one way
- N points: what earns these on that way
{CHAIN}: the name of another way
- N points: what earns these there
{NO_CREDIT}:
- what earns nothing, however true it is
{DEDUCTIONS}:
- N points: what a proof loses these for

Each N is a whole number from 1 to 7. The checkpoints of each chain, and those above all chains, \
add up to exactly 7; \
only the best chain counts for a proof, and chains are never added. Where there is one way only, \
leave out the chains: \
then the checkpoints add up to 7. Write "- {NONE}" where nothing is to be said under one of the \
last two."""


RULE = (
    f"one way is worth {MAX_POINTS} points; of several chains only the best counts, they are not "
    "added"
)
_SIGNS = " \t\r#*_"  # around headings
_HEADING = re.compile(rf"({'|'.join(SECTIONS)})(?:[ \t]*\([^()]*\))?[ \t]*:?", re.IGNORECASE)
_CHAIN = re.compile(rf"{CHAIN}[ \t]*(\w{{1,3}})?[ \t]*:[{_SIGNS}]*(.*)", re.IGNORECASE)
_POINTS = rf"([1-{MAX_POINTS}])[ \t]+points?"
_WORTH = re.compile(
    rf"(?:\*\*{_POINTS}(?::\*\*|\*\*[ \t]*:)|{_POINTS}[ \t]*:)[ \t]*(\S.*)", re.IGNORECASE
)
_ITEM = re.compile(r"[-*•][ \t]+(\S.*)")


class _Unreadable(Exception):
    """The exception for a scheme that breaks the form."""


def read(reply: str, shown: str = "") -> dict[str, str] | str | None:
    """Return the new column with the scheme at the end of a reply, or a reason if its points do not
    add up. Returns None if the scheme is missing, breaks the form, or quotes `shown`."""
    # no blank or ``` lines
    lines = [line.strip() for line in reply.split("\n") if line.strip().strip("`").strip()]
    headings = [(i, section) for i, line in enumerate(lines) if (section := _section(line))][-3:]
    if tuple(section for _, section in headings) != SECTIONS:
        return None
    first, second, third = (i for i, _ in headings)
    if _is_quoted(lines[first], lines[first + 1], shown):
        return None
    try:
        checkpoints, ways = _checkpoints(lines[first + 1 : second])
        no_credit = _entries(lines[second + 1 : third], have_points=False)
        deductions = _entries(lines[third + 1 :], have_points=True)
    except _Unreadable:
        return None
    if fault := _fault(ways):
        return f"does not add up ({fault})"
    scheme = [
        f"{CHECKPOINTS} ({RULE}):",
        *checkpoints,
        f"{NO_CREDIT}:",
        *(no_credit or [f"- {NONE}"]),
        f"{DEDUCTIONS}:",
        *(deductions or [f"- {NONE}"]),
    ]
    return {"grading_scheme": "\n".join(scheme)}


def _is_quoted(heading: str, line: str, shown: str) -> bool:
    """Return whether two lines of a reply follow each other in the text `shown` to the model."""
    others = [line.strip().strip(_SIGNS) for line in shown.split("\n") if line.strip()]
    return (heading.strip(_SIGNS), line.strip(_SIGNS)) in pairwise(others)


def _checkpoints(lines: list[str]) -> tuple[list[str], list[list[int]]]:
    """Return the lines of the checkpoints, and the points of the common checkpoints and of each
    chain. Raises _Unreadable."""
    written: list[str] = []
    ways: list[list[int]] = [[]]
    for line in lines:
        chain = _CHAIN.fullmatch(line.strip(_SIGNS))
        if chain:
            name = (chain[2] or chain[1] or "").strip(_SIGNS)
            if not name:
                raise _Unreadable
            written.append(f"{CHAIN}: {name}")
            ways.append([])
        else:
            points, entry = _worth(_item(line))
            written.append(entry)
            ways[-1].append(points)
    if not all(ways[1:]):
        raise _Unreadable  # a chain without a checkpoint
    return written, ways


def _entries(lines: list[str], have_points: bool) -> list[str]:
    """Return the entries of a section after the checkpoints. Raises _Unreadable."""
    items = [_item(line) for line in lines]
    entries = [item for item in items if item.strip(" .").lower() != NONE]
    if have_points:
        return [_worth(entry)[1] for entry in entries]
    return [f"- {entry}" for entry in entries]


def _item(line: str) -> str:
    match = _ITEM.fullmatch(line)
    if not match:
        raise _Unreadable
    return match[1]


def _worth(item: str) -> tuple[int, str]:
    """Return the points of an item, and the item in the scheme's form. Raises _Unreadable."""
    match = _WORTH.fullmatch(item)
    if not match:
        raise _Unreadable
    points = int(match[1] or match[2])
    unit = "point" if points == 1 else "points"
    return points, f"- {points} {unit}: {match[3]}"


def _fault(ways: list[list[int]]) -> str:
    """Return the first way whose checkpoints do not add up to MAX_POINTS, or ""."""
    common, *chains = ways
    if not chains:
        total = sum(common)
        return "" if total == MAX_POINTS else f"{total} points"
    for number, chain in enumerate(chains, 1):
        total = sum(common) + sum(chain)
        if total != MAX_POINTS:
            return f"chain {number}: {total} points"
    return ""


def _section(line: str) -> str | None:
    """Return the name of the section that a line opens, or None."""
    heading = _HEADING.fullmatch(line.strip(_SIGNS))
    return heading[1].capitalize() if heading else None


SCHEMES = Tool("schemes", "a grading_scheme", ABOUT, OURS, ENDING, ("grading_scheme",), read)

if __name__ == "__main__":
    tool.main(SCHEMES, sys.argv[1:])
