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


def read(reply: str, shown: str = "") -> dict[str, str] | str | None:
    """Return the new column with the scheme at the end of a reply, or a reason if its points do not
    add up. Returns None if the scheme is missing, breaks the form, or quotes `shown`."""
    # no blank or ``` lines
    lines = [line.strip() for line in reply.split("\n") if line.strip().strip("`").strip()]
    headings = [
        (place, section) for place, line in enumerate(lines) if (section := _section(line))
    ][-3:]
    if tuple(section for _, section in headings) != SECTIONS:
        return None
    ends = [*(place for place, _ in headings), len(lines)]
    first, *others = (
        line.strip().strip(_SIGNS) for line in [lines[ends[0]], *shown.split("\n")] if line.strip()
    )
    if (first, lines[ends[0] + 1].strip(_SIGNS)) in pairwise(others):
        return None
    scheme: list[str] = []
    ways: list[list[int]] = [[]]  # points of the common checkpoints, then of each chain
    for section, (begin, end) in zip(SECTIONS, pairwise(ends), strict=True):
        scheme.append(
            heading := f"{section} ({RULE}):" if section == CHECKPOINTS else f"{section}:"
        )
        for line in lines[begin + 1 : end]:
            item = _ITEM.fullmatch(line)
            if section == CHECKPOINTS and (chain := _CHAIN.fullmatch(line.strip(_SIGNS))):
                if not (name := (chain[2] or chain[1] or "").strip(_SIGNS)):
                    return None
                scheme.append(f"{CHAIN}: {name}")
                ways.append([])
            elif not item:
                return None
            elif section != CHECKPOINTS and item[1].strip(" .").lower() == NONE:
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
        if section != CHECKPOINTS and scheme[-1] == heading:
            scheme.append(f"- {NONE}")
    common, *chains = ways
    if not all(chains):
        return None
    totals = {
        f"chain {number}: ": sum(common + chain) for number, chain in enumerate(chains, 1)
    } or {"": sum(common)}
    fault = next(
        (f"{name}{total} points" for name, total in totals.items() if total != MAX_POINTS), None
    )
    return f"does not add up ({fault})" if fault else {"grading_scheme": "\n".join(scheme)}


def _section(line: str) -> str | None:
    """Return the name of the section that a line opens, or None."""
    found = _HEADING.fullmatch(line.strip(_SIGNS))
    return found[1].capitalize() if found else None


SCHEMES = Tool("schemes", "a grading_scheme", ABOUT, OURS, ENDING, ("grading_scheme",), read)

if __name__ == "__main__":
    tool.main(SCHEMES, sys.argv[1:])
