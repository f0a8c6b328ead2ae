"""Each rule that rewrites a text is tested by its example."""

import pytest

from core.grading import cleaning, escapes, expressions, plain, spelling
from core.grading.cleaning import clean
from core.grading.rules import Rule

RULES = [
    pytest.param(rule, id=f"{module.__name__.rpartition('.')[2]}: {rule.name} {rule.keeps_units}")
    for module in (cleaning, escapes, expressions, plain, spelling)
    for rule in module.RULES
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_rewrites_its_example(rule: Rule) -> None:
    assert rule.rewrite(rule.before) == rule.after


@pytest.mark.parametrize("rule", escapes.RULES, ids=lambda rule: rule.name)
def test_restored_escapes_stay_as_they_are(rule: Rule) -> None:
    assert escapes.restored(rule.before) == escapes.restored(rule.after) == rule.after


@pytest.mark.parametrize("rule", cleaning.RULES, ids=lambda rule: rule.name)
def test_cleaning_applies_a_rule_to_answers_of_its_type(rule: Rule) -> None:
    keeps_units = rule.keeps_units is not False
    assert clean(rule.before, keeps_units) == clean(rule.after, keeps_units)
