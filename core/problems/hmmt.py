"""Define HMMT, February 2025: 30 problems whose answers are numbers or expressions."""

from core.problems.published import TRAIN, Published

# MathArena's data set. The RSA paper's code reads data/hmmt25/test.parquet instead. This file is on GitHub, but in no
# known data set of the hub. PROBLEMS=path/to/test.parquet can read it, because it has verl's columns.
HMMT_2025 = Published(
    name="hmmt_2025",
    repo="MathArena/hmmt_feb_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    # From public code that uses this revision (OpenCompass and others, 2026-11). The hub itself was not checked.
    revision="6fdc4277120810ff75aa22d2d5489b91f7a262a1",
)
