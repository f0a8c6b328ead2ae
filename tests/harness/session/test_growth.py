"""The growth of a run's requests: later prompts show candidates."""

import pytest

from core.rsa import RSA, RsaConstants
from core.types import Completion
from harness.plan.lengths import Lengths
from harness.plan.roofline import Load
from harness.plan.work import loads_of
from harness.session.growth import Growth, Span

CONFIG = RsaConstants(N=4, K=2, T=1, MAX_TOKENS=1000, ANSWER_TOKENS=0)
FIRST: Span = (0.0, 0.5)
SECOND: Span = (0.5, 1.0)


def growth(reading: float) -> Growth:
    def groups(lengths: Lengths) -> list[Load]:
        return loads_of(CONFIG, 1, lengths, RSA)

    grown = Growth(groups, reading)
    for _ in range(3):
        grown.add(Completion("", 0, answer="An answer.", prompt_tokens=100, completion_tokens=200))
    return grown


@pytest.mark.parametrize(
    ("reading", "ended", "left", "factor"),
    [
        (0.5, FIRST, SECOND, (0.5 * 500 + 200) / (0.5 * 100 + 200)),  # K=2 candidates of 200
        (0.5, (0.0, 0.25), (0.25, 1.0), (250 / 3 + 450 * 2 / 3) / 250),
        (0.5, SECOND, SECOND, 1.0),
        (0.0, FIRST, SECOND, 1.0),
    ],
)
def test_requests_that_read_candidates_take_longer(
    reading: float, ended: Span, left: Span, factor: float
) -> None:
    assert growth(reading).factor(ended, left) == pytest.approx(factor)


def test_thinking_is_not_shown_to_later_requests() -> None:
    grown = Growth(lambda lengths: loads_of(CONFIG, 1, lengths, RSA), 1.0)
    half = Completion(
        "", 0, thinking="x" * 50, answer="y" * 50, prompt_tokens=100, completion_tokens=200
    )
    grown.add(half)
    assert grown.factor(FIRST, SECOND) == pytest.approx((100 + 2 * 100 + 200) / (100 + 200))


def test_without_token_counts_nothing_grows() -> None:
    grown = Growth(lambda lengths: loads_of(CONFIG, 1, lengths, RSA), 1.0)
    grown.add(Completion("", 0, answer="An answer."))
    assert grown.factor(FIRST, SECOND) == 1.0
