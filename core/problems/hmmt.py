"""HMMT, February 2025: 30 problems whose answers are numbers or expressions."""

from core.problems.published import TRAIN, Published

# MathArena's: data/hmmt25/test.parquet, which the RSA paper's code reads, lies beside copies of that code on GitHub,
# and in no data set of the hub that is known here. It is laid out for verl, and PROBLEMS=path/to/test.parquet reads it.
HMMT_2025 = Published(
    name="hmmt_2025",
    repo="MathArena/hmmt_feb_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    # Read in public code that pins it (OpenCompass and others, 2026-11), not looked up on the hub itself.
    revision="6fdc4277120810ff75aa22d2d5489b91f7a262a1",
)
