"""OpenR1-Math-220k (Open R1, 2025): problems of NuminaMath 1.5 whose answers are known. STaR trains on them; they are
no set to measure with, and some rows have no answer."""

from core.problems.published import Published

OPENR1 = Published(
    name="openr1",
    repo="open-r1/OpenR1-Math-220k",
    rows=0,  # its page says 93.7k and 131k, which was not compared with the files
    licence="Apache 2.0",
    splits=("train", "extended/train"),  # its subsets default (in data/) and extended
    # Read on the hub's page and in public code that pins it (2026-11), not looked up on the hub itself.
    revision="e4e141ec9dea9f8326f4d347be56105859b2bd68",
    columns="problem, answer, question_type and uuid",
)
