"""Figures of runs, by hand and in any order of arrival."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.types import Completion, Member, NamedPopulation
from harness.results import read, warnings
from tests.helpers import documents
from tests.helpers.graded import document, figures, graded, member, row, save


def alarms(run: dict[str, Any]) -> bool:
    """Return whether a warning says that members repeat each other."""
    return any("repeat another" in warning for warning in warnings.of_run(run, None))


def test_repeats_that_seeds_explain_are_no_alarm() -> None:
    """Of many short samples most repeat another, and an engine that honours seeds may serve a model
    that is sure."""
    few = [member(f"\\boxed{{{i % 4}}}") for i in range(29)]
    sure = [member("\\boxed{42}")] * 29
    several = document(graded([[few]]))
    same = document(graded([[sure]]))
    assert several["metrics"]["steps"][0]["identical"] == 25
    failed = document(graded([[[*sure, Member(Completion("0" * 32, 1, error="x"))]]]))
    assert failed["metrics"]["steps"][0]["identical"] == 28, "a failure repeats nothing"
    assert not alarms(several)
    assert alarms(same)
    honoured = {"engine": same["engine"] | {"seeds": True}}
    assert not alarms(same | honoured)
    greedy = {"config": same["config"] | {"TEMPERATURE": 0.0}}
    assert alarms(same | honoured | greedy), "all samples are the same one"


def scored(answer: int, score: float | None) -> Member:
    """Return a member whose one verification has this score."""
    verified = member(f"\\boxed{{{answer}}}")
    verified.self_score = score
    verified.verdicts = [score]
    verified.side_calls = [
        Completion("1" * 32, 2, answer="Verdict", completion_tokens=7, finish_reason="stop")
    ]
    return verified


SEVERAL = [(42, 1.0), (42, 1.0), (1, 0.0), (1, None)]


def test_verification_is_summed_up_and_uniform_selection_warned_of() -> None:
    several = [scored(answer, score) for answer, score in SEVERAL]
    uniform = [scored(1, 0.0), scored(2, 0.0)]
    run = document(graded([[several], [uniform]]))
    counts = run["metrics"]["verification"]
    assert (counts["verdicts"], counts["unreadable"]) == (6, 1)
    assert (counts["right"], counts["wrong"], counts["auc"]) == (2, 3, 1.0)
    assert counts["auc_within"]["n"] == 1, "only one problem has right and wrong candidates"
    assert (counts["selections"], counts["uniform_selections"]) == (2, 1)
    assert not any("uniform" in words for words in run["warnings"]), "these scores select nothing"
    run["config"] |= {"TAU": 0.2}
    assert any("uniform in 1 of 2" in words for words in warnings.of_run(run, None))
    assert run["metrics"]["tokens"]["completion"] == 6 * 17
    assert run["metrics"]["steps"][0]["verification_tokens"] == 42


def test_scores_of_unfinished_solutions_enter_no_auc() -> None:
    several = [scored(answer, score) for answer, score in SEVERAL]
    unread = [member("no box yet")] * 20
    partial = NamedPopulation("step 1", [scored(1, 1.0), *unread], is_partial=True)
    run = document(graded([[partial, several]]))
    counts = run["metrics"]["verification"]
    assert (counts["right"], counts["wrong"]) == (2, 1)
    assert "unstated" not in run["metrics"]


COST: dict[str, st.SearchStrategy[Any]] = {
    "finish_reason": st.sampled_from(["stop", "length", None]),
    "prompt_tokens": st.integers(0, 999),
    "cached_tokens": st.integers(0, 999),
    "completion_tokens": st.integers(0, 9999),
    "seconds": st.integers(0, 999).map(lambda s: s / 8),
    "key": st.just(documents.KEY),
}
MEMBER: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    COST
    | {"answer": st.sampled_from([None, "42", "41"]), "correct": st.booleans()}
    | {"doubt": st.sampled_from([None, "truncated"]), "parents": st.just([])},
    optional={
        "error": st.sampled_from(["a", "b"]),
        "unforced": st.just({"answer": None, "correct": False}),
    },
)
CHECK = st.fixed_dictionaries(COST, optional={"error": st.sampled_from(["a", "b"])})
SCORES = st.lists(st.sampled_from([None, 0.0, 0.5, 1.0]), min_size=3, max_size=3)


@st.composite
def problems(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw problems of a run at any moment: populations of any size, some of them scored, some
    ended early."""
    rows = []
    for i in range(draw(st.integers(1, 6))):
        steps: list[dict[str, Any]] = []
        for t in range(draw(st.integers(0, 3))):
            members = draw(st.lists(MEMBER, min_size=1, max_size=9))
            if draw(st.booleans()):
                for m, score in zip(members, draw(SCORES), strict=False):
                    m |= {"self_score": score, "verdicts": [score], "side_calls": [draw(CHECK)]}
            accuracy = sum(m["correct"] for m in members) / len(members)
            steps.append(
                {
                    "step": t,
                    "mean_accuracy": accuracy,
                    "majority_correct": draw(st.sampled_from([0, 0.5, 1.0])),
                }
                | {
                    "majority_answer": None,
                    "identical": draw(st.integers(0, 8)),
                    "members": members,
                }
            )
        rows.append(row(f"p{i}", steps, finished=draw(st.booleans())))
    return rows


@settings(max_examples=30)
@given(rows=problems(), data=st.data())
def test_figures_are_equal_in_any_order_of_arrival(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    found, ordered = figures(rows, data.draw(st.permutations(range(len(rows))))), figures(rows)
    assert json.dumps(found.metrics(1.0)) == json.dumps(ordered.metrics(1.0)), (
        "and in the same order of fields"
    )
    ended = [row["steps"] for row in rows if row["steps"] and row["finished"]]
    firsts = [steps[0]["mean_accuracy"] for steps in ended]
    shown = found.progress.removeprefix("t=0 ").partition("%")[0]
    if ended:
        assert float(shown) == pytest.approx(100 * sum(firsts) / len(firsts), abs=0.51)
        assert found.progress.endswith(f"{len(ended)} of {len(rows)} problems")
    else:
        assert not found.progress
    members = [m for row in rows for s in row["steps"] for m in s["members"]]
    errors = [c["error"] for m in members for c in [m, *m.get("side_calls", [])] if "error" in c]
    assert found.commonest_error == max(sorted(set(errors)), key=errors.count, default=None)


def waited(*answers: str, **changes: Any) -> Member:
    """Return a member with these answers, one after each wait, of 10 tokens each."""
    *before, last = (f"\\boxed{{{answer}}}" for answer in answers)
    tokens = [10 * (number + 1) for number in range(len(before))]
    fields = {
        "before_waits": before,
        "tokens_before_waits": tokens,
        "completion_tokens": 10 * len(answers),
    }
    return member(last, **fields | changes)


WAITED = [
    [waited("42", "7"), waited("1", "42", "42")],  # 1/2, 1/2, 1/2
    [waited("1"), waited("42")],  # no waits: 1/2 at any number
    [waited("7", "42", "42"), waited("7", "7", "42")],  # 0, 1/2, 1
]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_accuracy_against_waits_comes_from_one_run_in_any_order(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    rows = graded([[population] for population in WAITED])
    step = figures(rows, order).metrics(1.0)["steps"][0]
    records = rows[0]["steps"][0]["members"]
    assert records[0]["before_waits"] == [
        {"answer": "42", "correct": True, "doubt": None, "completion_tokens": 10}
    ]
    after = step["waits"]
    assert [each["mean_accuracy"]["value"] for each in after] == pytest.approx(
        [1 / 3, 1 / 2, 2 / 3]
    )
    assert [each["waited"] for each in after] == [0, 4, 3]
    assert [each["completion_tokens"] for each in after] == [60, 100, 130]
    assert all(after[-1][name] == step[name] for name in ("completion_tokens", "mean_accuracy"))
    assert (
        "gain" not in after[0]
        and after[2]["gain"]["value"] == pytest.approx(1 / 3)
        and after[2]["gain"]["n"] == 3
    )
    head, problems = read.read(save(document(rows), tmp_path))
    assert json.loads(json.dumps(head.document))["metrics"]["steps"][0]["waits"][1:] == after[1:]
    assert [r.answer for r in next(problems).steps[0].members[1].before_waits] == ["1", "42"]


def test_members_that_did_not_wait_are_counted_by_reason() -> None:
    why = "the completion shows no thinking that could go on"
    run = document(
        graded([[[member("\\boxed{42}", not_waited=why), waited("1", "42", completion_tokens=0)]]])
    )
    assert run["metrics"]["not_waited"] == {why: 1}
    assert run["metrics"]["steps"][0]["waits"][1]["completion_tokens"] == 10, "the known tokens"
