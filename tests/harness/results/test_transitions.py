"""Transitions: a population that was counted by hand, and a run that is counted again."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from core.engines.protocol import Server
from core.rsa import RSA
from harness.report.data import Results
from harness.results import transitions
from harness.results.model import MemberResult, ProblemResult
from harness.results.transitions import Aggregation
from harness.run import solve_sync
from tests.helpers.documents import member, problem, step


def answered(
    answer: str | None, group: int | None, parents: Sequence[int] = (), **changes: Any
) -> dict[str, Any]:
    """Return a member with this answer. Only "1" in any spelling is right."""
    is_right = answer is not None and float(answer) == 1
    return member(parents=parents, answer=answer, correct=is_right, group=group, **changes)


FIRST = [
    step(0, [answered("1", 0), answered("2", 1), answered(None, None), answered("1.0", 0)]),
    step(
        1,
        [
            answered("1", 2, [0, 1]),  # repeats the right parent
            answered("3", 1, [1, 2]),  # new and wrong, from wrong parents
            answered("2", 0, [0, 3]),  # new and wrong, from right parents
            answered(None, None, [0, 2]),  # unread
        ],
    ),
]
SECOND = [
    step(0, [answered("5", 0), answered("5", 0), answered("1", 1)]),
    step(
        1,
        [
            answered("1.0", 0, [0, 1]),  # new and right, from wrong parents
            answered("1.00", 0, [1, 2]),  # repeats the right parent in another spelling
            answered("1", 0, [2], carried_over=True),
            answered("1", 0),  # solved again
            answered(None, None, [0, 1], error="timeout"),
        ],
    ),
]


def problems(*steps: Sequence[dict[str, Any]]) -> list[ProblemResult]:
    rows = [problem(f"p{number}", each) for number, each in enumerate(steps)]
    return convert(rows, list[ProblemResult])


def by_hand() -> transitions.Transitions:
    return transitions.of_run(problems(FIRST, SECOND))


def test_aggregations_are_counted_as_by_hand() -> None:
    counted = {}
    for (parents, right), row in by_hand().by_right_parents.items():
        counted[right, parents] = (
            len(row),
            sum(item.is_right for item in row),
            sum(item.vote or 0 for item in row),
            sum(item.repeats_answer for item in row),
            sum(item.is_new for item in row),
            sum(item.is_new and item.is_right for item in row),
        )
    assert counted == {
        (0, 2): (2, 1, 0, 0, 2, 1),
        (1, 2): (3, 2, 2, 2, 0, 0),  # an unread parent casts no vote
        (2, 2): (1, 0, 1, 0, 1, 0),
    }


def test_distinct_answers_are_counted_over_problems() -> None:
    rows = by_hand().diversity
    assert [row.distinct.value for row in rows] == pytest.approx([2, 2])
    assert [row.members for row in rows] == [3.5, 4.5]
    assert all(row.distinct.n == 2 for row in rows)


def test_runs_of_one_problem_are_one_cluster() -> None:
    merged = convert([problem("p", FIRST), problem("p", SECOND)], list[ProblemResult])
    for item in merged:
        assert item.id == "p"
    aggregations = transitions.of_run(merged).aggregations
    share = transitions.mean_share((item.problem, item.is_right) for item in aggregations)
    assert (share.value, share.n) == (0.5, 1)


def test_unfinished_solutions_are_no_parents() -> None:
    partial = [FIRST[0] | {"partial": True}, FIRST[1]]
    figures = transitions.of_run(problems(partial))
    assert not figures.aggregations
    assert [row.step for row in figures.diversity] == [1]


@pytest.mark.parametrize(
    ("changes", "is_right"),
    [
        ({"correct": True}, True),
        ({"correct": False, "grade": 0.9}, False),
        ({"correct": None}, None),
        ({"correct": None, "points_share": 6 / 7}, True),
        ({"correct": None, "points_share": 5 / 7}, False),
        ({"correct": None, "points_share": None, "ungraded": "failed"}, None),
    ],
)
def test_only_the_full_score_or_enough_points_are_right(
    changes: dict[str, Any], is_right: bool | None
) -> None:
    assert transitions.is_right(convert(member(**changes), MemberResult)) is is_right


def test_aggregations_without_a_grade_are_only_counted() -> None:
    missing = member(parents=[0], correct=None, answer=None)
    of_missing = member(parents=[1])
    steps = [step(0, [member(), member(correct=None)]), step(1, [missing, of_missing])]
    figures = transitions.of_run(problems(steps))
    assert (figures.ungraded, list(figures.aggregations)) == (2, [])


def test_texts_are_compared_after_thinking_if_the_journal_has_them() -> None:
    texts = {"a": "same", "b": "other", "c": " same\n", "d": ""}
    before = [member(key="a" * 32), member(key="b" * 32), member(key="d" * 32)]
    after = [
        member(parents=[0, 1], key="c" * 32),
        member(parents=[1], key="c" * 32),
        member(parents=[2], key="d" * 32),
        member(parents=[0], key="e" * 32),
    ]
    rows = problems([step(0, before), step(1, after)])
    figures = transitions.of_run(rows, lambda item: texts.get(item.key[0]))
    assert [item.repeats_text for item in figures.aggregations] == [True, False, False, None]


def aggregation(number: int, is_right: bool) -> Aggregation:
    """Return an aggregation of one right and one wrong parent."""
    return Aggregation(f"p{number}", 2, 1, is_right, 0.5, True, True, None)


def test_a_gain_weighs_aggregations_equally() -> None:
    """Four aggregations of each of 20 problems are right, and one of each of 20 others is wrong."""
    right = [aggregation(number, True) for number in range(20) for _ in range(4)]
    wrong = [aggregation(number, False) for number in range(20, 40)]
    rows = [*right, *wrong]
    gain = transitions.gain(rows, [0.5] * len(rows))
    assert gain.value == pytest.approx(0.8 - 0.5)
    assert 0 < gain.low < gain.value < gain.high <= 1
    assert gain.n == 40


@pytest.fixture
def embedded_run(results: Path, engine: Server, monkeypatch: pytest.MonkeyPatch) -> Results:
    monkeypatch.setenv("BASE_URL", engine.base_url)
    return solve_sync(RSA, "sums", LIMIT=3, N=4, K=2, T=2, MAX_TOKENS=300, name="02_embedded")


def test_a_real_run_is_counted_alike_by_other_code(embedded_run: Results) -> None:
    document = json.loads(embedded_run.path.read_text())
    journal = embedded_run.path.parent / "journal" / "02_embedded.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    texts = {row["key"]: row["completion"]["answer"] for row in records if "key" in row}
    counted: Counter[tuple[str, int, str]] = Counter()
    for row in document["problems"]:
        for before, after in pairwise(row["steps"]):
            for child in after["members"]:
                parents = [before["members"][j] for j in child["parents"]]
                right = [parent["correct"] for parent in parents].count(True)
                place = (right, row["id"])
                counted["all", *place] += 1
                counted["right", *place] += child["correct"] is True
                answers = [parent["answer"] for parent in parents]
                is_read = child["answer"] is not None
                counted["copies", *place] += is_read and child["answer"] in answers
                shown = [texts[parent["key"]] for parent in parents]
                counted["texts", *place] += texts[child["key"]] in shown
                # with two parents, only one unread answer breaks a tie
                votes = [parent["correct"] for parent in parents if parent["answer"] is not None]
                counted["votes", *place] += 2 * sum(votes) // max(1, len(votes))
    figures = transitions.of_run(
        embedded_run.problems, lambda member: embedded_run.completion(member).text
    )
    assert len(figures.aggregations) == 3 * 4 * 2 and not figures.ungraded
    recounted: Counter[tuple[str, int, str]] = Counter()
    for item in figures.aggregations:
        place = (item.right_parents, item.problem)
        recounted["all", *place] += 1
        recounted["right", *place] += item.is_right
        recounted["copies", *place] += item.repeats_answer
        recounted["texts", *place] += bool(item.repeats_text)
        recounted["votes", *place] += round(2 * (item.vote or 0))
    assert counted == recounted
    assert counted.total() > len(figures.aggregations)
