"""Write marking schemes from problems and solutions: `bash scripts/schemes.sh FILE|hub:owner/name GRADER=card`."""

import sys
from collections.abc import Mapping
from typing import Any

from labs.proofs import schemes
from labs.proofs.curate import tool
from labs.proofs.curate.tool import Tool

ABOUT = """Ask a model to write a marking scheme of 7 points for each row of a problem file (.json, .jsonl, .csv or
.parquet), or of a data set on the hub (hub:owner/name[@revision][:split]). The model sees the problem and its solution.
Rows without a solution are not sent.

The command writes the rows to FILE.schemes.jsonl in the same folder, and rows of the hub to
owner--name.schemes.jsonl in the results folder. scripts/grade.sh and 18_proofs read the new column
grading_scheme. If a reply is unusable, or its points do not add up to 7, the command asks once more. If that fails too,
grading_scheme is null and the column schemes_trouble gives the reason. A repeated command does not send rows with a
reply again. Put server settings before the command, as for a run."""

OURS = """You write a marking scheme for a problem of a mathematics olympiad. Graders will give proofs 0 to 7 points \
by it.

The problem:
{problem}

A solution that is known to be right:
{solution}

Find the steps that any proof along these lines has to take, and say what each is worth. A checkpoint is something \
that a grader can find in a proof or miss there: a claim that is proved, a case that is settled, a construction that \
is shown to work. Where there is another way that is truly different, give it a chain of its own."""

# `read` rejects the form below if a model only repeats it.
ENDING = f"""Think first. Then end with the scheme in exactly this form, an item a line, and write nothing below it:

{schemes.CHECKPOINTS}:
- N points: what earns these on every way to a proof
{schemes.CHAIN}: the name of one way
- N points: what earns these on that way
{schemes.CHAIN}: the name of another way
- N points: what earns these there
{schemes.NO_CREDIT}:
- what earns nothing, however true it is
{schemes.DEDUCTIONS}:
- N points: what a proof loses these for

Each N is a whole number from 1 to 7. The checkpoints of each chain, and those above all chains, add up to exactly 7; \
only the best chain counts for a proof, and chains are never added. Where there is one way only, leave out the chains: \
then the checkpoints add up to 7. Write "- {schemes.NONE}" where nothing is to be said under one of the last two."""


def read(reply: str, shown: str) -> Mapping[str, Any] | str | None:
    """Return the new column, or a reason if the scheme does not add up to 7, or None if the reply is unreadable."""
    if not (scheme := schemes.read(reply, shown)):
        return None
    return f"does not add up ({scheme.fault})" if scheme.fault else {"grading_scheme": scheme.text}


SCHEMES = Tool("schemes", "a grading_scheme", ABOUT, OURS, ENDING, ("problem", "solution"), ("grading_scheme",), read)

if __name__ == "__main__":
    tool.main(SCHEMES, sys.argv[1:])
