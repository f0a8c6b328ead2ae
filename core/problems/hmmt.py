"""Define HMMT, February 2025: 30 problems whose answers are numbers or expressions."""

from core.problems.published import TRAIN, Published

# The set of MathArena. The RSA paper's code reads data/hmmt25/test.parquet, which is on GitHub with copies of that code
# but in no known data set of the hub. It has verl's layout, and PROBLEMS=path/to/test.parquet reads it.
HMMT_2025 = Published(
    name="hmmt_2025",
    repo="MathArena/hmmt_feb_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    # From public code that pins it (OpenCompass and others, 2026-11), not checked on the hub itself.
    revision="6fdc4277120810ff75aa22d2d5489b91f7a262a1",
)
