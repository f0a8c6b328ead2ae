"""Define MATH-500 (Lightman et al. 2023, arXiv 2305.20050): 500 problems of MATH, whose answers are LaTeX."""

from core.problems.published import Published

MATH500 = Published(
    name="math500",
    repo="HuggingFaceH4/MATH-500",
    rows=500,
    licence=None,  # the card was not checked (its source, openai/prm800k, is MIT)
    files={"": "test.jsonl"},
    # The revision and the file name are from public code that uses them (2026-11). The hub itself was not checked.
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    columns="problem, answer and unique_id",
)
