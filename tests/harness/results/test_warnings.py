"""Warnings about runs: each rule, and its example."""

from typing import Any

import pytest

from harness.results.warnings import RULES, Rule, Run, of_run
from tests.helpers import documents
from tests.helpers.documents import VALIDATOR
from tests.helpers.graded import collected


def document(rule: Rule | None = None) -> Any:
    """Return a run without faults, or the example of a rule."""
    changes = dict(rule.step) if rule else {}
    step = documents.metrics_of_step(completions=30, problems=3) | changes
    parts = rule.document if rule else {}
    return documents.document([], [step], provenance=collected(), **parts)


def test_a_run_without_faults_has_no_warning() -> None:
    assert of_run(document(), None) == []


@pytest.mark.parametrize(("full", "warnings"), [(0.0, 1), (0.5, 0)])
def test_scores_without_a_full_score_warn(full: float, warnings: int) -> None:
    """A mean score above 0 does not show that a reply is right."""
    example = document()
    step = example["metrics"]["steps"][0]
    step |= {"partly_right": 3, "pass_at_k": {"1": documents.RATE | {"value": full}}}
    found = of_run(example, None)
    assert len(found) == warnings and all("full score" in warning for warning in found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.warn.__name__.strip("_"))
def test_each_rule_warns_about_its_example_and_no_other_rule_does(rule: Rule) -> None:
    example = document(rule)
    warnings = rule.warn(Run(example, "status 500"))
    assert len(warnings) == 1 and "\n" not in warnings[0]
    assert of_run(example, "status 500") == warnings
    VALIDATOR.validate(example)
