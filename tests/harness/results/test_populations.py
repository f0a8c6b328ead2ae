"""Sums with unknown amounts, and populations after each number of waits."""

from typing import Any

import pytest

from harness.results.populations import Population, Sum
from tests.helpers import documents


@pytest.mark.parametrize(
    ("amounts", "value"),
    [([], 0), ([1, 2], 3), ([1, None], 1), ([None], None), ([0, None], None)],
)
def test_a_sum_is_unknown_only_if_no_amount_is_known(
    amounts: list[float | None], value: float | None
) -> None:
    total = Sum.from_amounts(amounts)
    assert (total.value, total.dollars) == (value, value)
    assert total.unknown == amounts.count(None)
    assert total + Sum.from_amounts([None]) == Sum(total.total, total.unknown + 1)


def reading(correct: bool, tokens: int) -> dict[str, Any]:
    return {"answer": "1", "correct": correct, "doubt": None, "completion_tokens": tokens}


def test_a_member_with_fewer_waits_counts_with_its_last_reading() -> None:
    waited = documents.member(30, before_waits=[reading(False, 10), reading(False, 20)])
    carried = documents.member(50, correct=False, carried_over=True)
    population = Population.from_record(documents.step(0, [waited, carried]))
    assert (population.size, population.correct) == (2, 1)
    assert [after.mean for after in population.after] == [0.0, 0.0, 0.5]
    assert [after.waited for after in population.after] == [0, 1, 1]
    assert [after.tokens.value for after in population.after] == [10, 20, 30]
    assert population.after_waits(7) == population.after[-1]
