"""Define OpenR1-Math-220k (Open R1, 2025), with problems for STaR's training. Some problems have no answer."""

from core.problems.published import Published

OPENR1 = Published(
    name="openr1",
    repo="open-r1/OpenR1-Math-220k",
    rows=0,  # not checked (the page says 93.7k and 131k)
    licence="Apache 2.0",
    splits=("train", "extended/train"),  # the subsets default (in data/) and extended
    # From the hub's page and public code that uses this revision (2026-11). The hub itself was not checked.
    revision="e4e141ec9dea9f8326f4d347be56105859b2bd68",
    columns="problem, answer, question_type and uuid",
)
