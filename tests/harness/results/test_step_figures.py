"""The names of a step, and ties among counts."""

from collections import Counter

from harness.results.step_figures import StepCounts, commonest
from tests.helpers import documents


def test_the_commonest_text_is_the_first_of_the_alphabet_in_a_tie() -> None:
    assert commonest(Counter(["b", "a", "b", "a", "c"])) == "a"
    assert commonest(Counter()) is None


def test_a_step_with_several_names_has_the_commonest_and_a_mark() -> None:
    step = StepCounts()
    assert step.stage == ""
    for stage in ("reviews", "reviews", "plans"):
        step.add(documents.step(0, [documents.member()]) | {"stage": stage}, [], {"": None})
    assert step.stage == "reviews …"
    assert step.fields(has_prices=False)["problems"] == 3
