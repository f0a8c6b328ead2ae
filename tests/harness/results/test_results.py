"""Results: metrics by hand, warnings, atomic and archived files."""

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert

from core import eval as answers
from core.base.errors import UserError
from core.base.files import open_log, results_dir, write_atomically
from core.grading import sympy_process
from core.types import Completion, Member, Problem, Stage
from harness.report import tables
from harness.results import model, read, warnings
from tests.fakes.model import graded_step
from tests.helpers import documents
from tests.helpers.graded import document, figures, graded, member, row, save

MATH = Problem("p", "?", r"2\sqrt{2}", "math")


def math(box: str, **changes: Any) -> Member:
    return member(f"so \\boxed{{{box}}}", **changes)


def warned(population: list[Member]) -> list[str]:
    """Return the warnings of a run of one population."""
    found: list[str] = document(graded([[population]]))["warnings"]
    return found


def test_members_that_say_the_same_are_one_group_whatever_their_spelling() -> None:
    boxes = ["3", r"\sqrt{8}", "3", r"2^{3/2}", "3", r"\sqrt{8}", r"\frac{4}{\sqrt2}"]
    record = graded_step(MATH, 0, [*map(math, boxes), member("no box")])
    assert [m["group"] for m in record["members"]] == [1, 0, 1, 0, 1, 0, 0, None]
    assert record["majority_answer"] == r"\sqrt{8}" and record["majority_correct"] == 1.0
    assert [m["correct"] for m in record["members"]] == [False, True] * 3 + [True, False]


def test_what_was_undecided_is_counted_and_shown_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if an answer made sympy hang."""
    hanging = "9^{9^{9^{9^9}}}"
    compare = sympy_process.math_equal
    monkeypatch.setattr(
        answers, "math_equal", lambda *pair: None if hanging in pair else compare(*pair)
    )
    population = [
        math(hanging),
        math(hanging, finish_reason="length"),
        math(r"\sqrt{8}"),
        math("3"),
    ]
    record = graded_step(MATH, 0, population)
    shown = [(m["correct"], m["doubt"], m.get("undecided", False)) for m in record["members"]]
    assert shown == [
        (False, "undecided", True),
        (False, "truncated", True),
        (True, None, False),
        (False, None, False),
    ]
    assert record["undecided_pairs"] == 1
    run = document([row("p", [record], answer=MATH.answer, answer_type="math")])
    step = run["metrics"]["steps"][0]
    assert (step["undecided"], step["undecided_pairs"], step["doubtful"]) == (2, 1, 2)
    assert sum("undecided" in words for words in run["warnings"]) == 1
    head, problems = read.read(save(run, tmp_path))
    assert head.metrics.steps[0].undecided == 2
    members = next(problems).steps[0].members
    assert [m.doubts for m in members] == [["undecided"], ["truncated", "undecided"], [], []]


def test_a_run_without_a_right_vote_or_with_references_that_are_no_answer_is_warned_of() -> None:
    (warning,) = (
        words
        for words in warned([member("\\boxed{7}"), member("no box")])
        if "no reply of the run" in words
    )
    assert "1 of 2" in warning
    few = [member("\\boxed{42}"), member("\\boxed{7}"), member("\\boxed{7}")]
    assert not any("no reply of the run" in words for words in [*warned(few[:1]), *warned(few)])
    assert (
        graded_step(Problem("p", "?", "Yes", "math"), 0, [math("7")])["members"][0]["doubt"] is None
    )
    worked = Problem("p", "?", "5 and 2 are seven", "math")
    record = graded_step(worked, 0, [math("7")])
    run = document([row("p", [record], answer=worked.answer, answer_type="math")])
    assert record["members"][0]["doubt"] == "reference not read" and run["metrics"][
        "no_reference"
    ] == [1]
    assert any("1 reference answers" in words for words in run["warnings"])


def test_truncated_forced_and_failed_completions_are_counted_and_never_hidden() -> None:
    cut = member("", finish_reason="length")
    forced = member("", finish_reason="length", forced="Time is up. \\boxed{42}")
    failed = Member(Completion("0" * 32, 1, error="status 500: oops"))
    good = member("\\boxed{42}")
    good.side_calls = [failed.completion, Completion("1" * 32, 1, finish_reason="length")]
    run = document(graded([[[cut, forced, failed, good]]]))
    step = run["metrics"]["steps"][0]
    assert (step["truncated"], step["forced"], step["failed"], step["completions"]) == (2, 1, 1, 4)
    assert step["generation_seconds"] == 1.5
    assert [step[name] for name in ("unread", "doubtful", "problems")] == [1, 1, 1]
    passed = {k: rate["value"] for k, rate in step["pass_at_k"].items()}
    assert (
        passed == {"1": 0.5, "2": pytest.approx(5 / 6), "3": 1, "4": 1}
        and step["mean_accuracy"]["value"] == 0.5
    )
    records = run["problems"][0]["steps"][0]["members"]
    assert [r["doubt"] for r in records] == ["truncated", "truncated", "failed", None]
    assert records[1]["correct"] and records[1]["unforced"] == {
        "answer": None,
        "correct": False,
        "doubt": "truncated",
    }
    words = "\n".join(run["warnings"])
    assert "50.0% of 4 completions" in words and "25.0% of 4 completions failed" in words
    assert run["metrics"]["checks"] == {"completions": 2, "truncated": 1, "failed": 1}
    assert records[3]["checks"][0]["error"] == "status 500: oops"
    assert words.count("\n1 of 2 side calls") == 2 and words.count("status 500: oops") == 2


def test_elicited_answers_are_counted_apart_from_forced_ones() -> None:
    elicited = member(
        "It is 41 or so.", forced="It is 41 or so.\n\nTherefore, the answer is \\boxed{42}"
    )
    run = document(graded([[[elicited, member("\\boxed{42}")]]]))
    (step,), (record, _) = run["metrics"]["steps"], run["problems"][0]["steps"][0]["members"]
    assert (step["elicited"], step["forced"], step["truncated"], step["unread"]) == (1, 0, 0, 0)
    assert (record["answer"], record["correct"], record["doubt"]) == ("42", True, None)
    assert record["unforced"] == {"answer": None, "correct": False, "doubt": "no answer"}
    assert "elicited" in tables.text(run)
    plain = document(graded([[[member("\\boxed{42}")]]]))
    assert "elicited" not in tables.text(plain) and "elicited" not in plain["metrics"]["steps"][0]


def test_answers_that_could_not_be_forced_are_counted_with_the_reason() -> None:
    refused: dict[str, Any] = {
        "finish_reason": "length",
        "not_forced": "refused it does not appear",
    }
    one, other, last = (
        member("", **refused),
        member("", finish_reason="length", not_forced="stalled"),
        member("a"),
    )
    again = member("", **refused)
    again.carried_over = True
    last.side_calls = [Completion("1" * 32, 1, **refused)]
    run = document(graded([[[one, other, last], [last, again]]]))
    assert run["metrics"]["not_forced"] == {"refused it does not appear": 3, "stalled": 1}
    assert any(
        words.startswith("4 ") and words.endswith("refused it does not appear")
        for words in run["warnings"]
    )
    assert (
        run["problems"][0]["steps"][0]["members"][0]["not_forced"] == "refused it does not appear"
    )


def test_repeats_that_seeds_explain_are_no_alarm() -> None:
    """Of many short samples most repeat another, and an engine that honours seeds may serve a model
    that is sure."""
    few, sure = [member(f"\\boxed{{{i % 4}}}") for i in range(29)], [member("\\boxed{42}")] * 29
    several, one = document(graded([[few]])), document(graded([[sure]]))
    assert several["metrics"]["steps"][0]["identical"] == 25
    failed = document(graded([[[*sure, Member(Completion("0" * 32, 1, error="x"))]]]))
    assert failed["metrics"]["steps"][0]["identical"] == 28, "a failure repeats nothing"

    def alarms(run: dict[str, Any]) -> bool:
        return any("repeat another" in warning for warning in warnings.of_run(run, None))

    assert not alarms(several) and alarms(one)
    assert not alarms(one | {"engine": one["engine"] | {"seeds": True}})
    greedy = {
        "config": one["config"] | {"TEMPERATURE": 0.0},
        "engine": one["engine"] | {"seeds": True},
    }
    assert alarms(one | greedy), "all samples are the same one"


def test_a_carried_over_member_costs_nothing_and_notes_are_counted() -> None:
    first = [member("\\boxed{42}"), member("\\boxed{1}")]
    chosen = Member(
        first[0].completion,
        [0],
        carried_over=True,
        notes=["invalid selection", "invalid selection"],
    )
    chosen.side_calls = [
        Completion("1" * 32, 2, answer="?", completion_tokens=7, finish_reason="stop")
    ]
    run = document(graded([[first, [chosen]]]))
    steps = run["metrics"]["steps"]
    assert [s["completion_tokens"] for s in steps] == [20, 0] and [
        s["verification_tokens"] for s in steps
    ] == [0, 7]
    assert run["metrics"]["tokens"]["completion"] == 27 and run["metrics"]["notes"] == {
        "invalid selection": 2
    }
    assert run["problems"][0]["steps"][1]["members"][0]["again"]
    assert any("2 invalid selection" in warning for warning in run["warnings"])


def test_verification_is_summed_up_and_uniform_selection_warned_of() -> None:
    def scored(answer: int, score: float | None) -> Member:
        found = math(str(answer))
        found.self_score, found.verdicts = score, [score]
        found.side_calls = [
            Completion("1" * 32, 2, answer="Verdict", completion_tokens=7, finish_reason="stop")
        ]
        return found

    several = [scored(42, 1.0), scored(42, 1.0), scored(1, 0.0), scored(1, None)]
    run = document(graded([[several], [[scored(1, 0.0), scored(2, 0.0)]]]))
    found = run["metrics"]["verification"]
    assert (found["verdicts"], found["unreadable"], found["right"], found["wrong"]) == (6, 1, 2, 3)
    assert found["auc_within"]["n"] == 1, "only one problem has right and wrong candidates"
    assert found["auc"] == 1.0 and (found["selections"], found["uniform_selections"]) == (2, 1)
    assert not any("uniform" in w for w in run["warnings"]), (
        "without TAU, nothing is selected by these scores"
    )
    run["config"] |= {"TAU": 0.2}
    assert any("uniform in 1 of 2" in w for w in warnings.of_run(run, None))
    assert run["metrics"]["tokens"]["completion"] == 6 * 17
    assert run["metrics"]["steps"][0]["verification_tokens"] == 42
    partial = Stage("step 1", [scored(1, 1.0), *[member("no box yet")] * 20], is_partial=True)
    run = document(graded([[partial, several]]))
    found = run["metrics"]["verification"]
    assert (found["right"], found["wrong"]) == (2, 1) and "unstated" not in run["metrics"]


def test_links_among_the_results_are_not_followed(tmp_path: Path) -> None:
    outside, results = tmp_path / "outside", tmp_path / "results"
    outside.write_text("kept")
    results.mkdir()
    for name in ("a.json", ".a.json.new", ".b.json.new", "log"):
        (results / name).symlink_to(outside)
    (results / "b.json").symlink_to(tmp_path / "missing")
    for name in ("a.json", "b.json"):
        write_atomically(results / name, b"new")
        assert (results / name).read_bytes() == b"new" and not (results / name).is_symlink()
    with pytest.raises(UserError, match="link"):
        open_log(results / "log")
    assert outside.read_text() == "kept" and not (tmp_path / "missing").exists()
    (tmp_path / "linked").symlink_to(results)  # a folder may be a link to another disk
    write_atomically(tmp_path / "linked" / "c.json", b"new")
    with open_log(tmp_path / "linked" / "new.log") as log:
        log.write("a line")
    assert (results / "c.json").read_bytes() == b"new" and (
        results / "new.log"
    ).read_text() == "a line"


def test_a_score_without_verdicts_is_recorded_and_has_an_auc() -> None:
    """A reward model sets `self_score` alone, to any number, possibly of numpy."""

    def rewarded(answer: int, score: Any) -> Member:
        found = math(str(answer))
        found.self_score = score
        return found

    population = [
        rewarded(42, np.float32(3.5)),
        rewarded(42, 0.25),
        rewarded(1, -2.0),
        rewarded(1, float("nan")),
    ]
    run = document(graded([[population, [math("42")]]]))
    first, last = run["problems"][0]["steps"]
    assert [m["score"] for m in first["members"]] == [3.5, 0.25, -2.0, None]
    assert not any("verdicts" in m or "checks" in m for m in first["members"])
    assert "score" not in last["members"][0]
    found = run["metrics"]["verification"]
    assert (found["auc"], found["right"], found["wrong"], found["verdicts"]) == (1.0, 2, 1, 0)
    read_again = convert(json.loads(json.dumps(first)), model.StepResult)
    assert [m.self_score for m in read_again.members] == [3.5, 0.25, -2.0, None]


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
                    m |= {"score": score, "verdicts": [score], "checks": [draw(CHECK)]}
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
    newest = [row["steps"][-1]["mean_accuracy"] for row in rows if row["steps"]]
    shown = found.progress.partition("%")[0]
    assert (
        float(shown) == pytest.approx(100 * sum(newest) / len(newest), abs=0.06)
        if newest
        else not shown
    )
    members = [m for row in rows for s in row["steps"] for m in s["members"]]
    errors = [c["error"] for m in members for c in [m, *m.get("checks", [])] if "error" in c]
    assert found.commonest_error == max(sorted(set(errors)), key=errors.count, default=None)


def test_a_complete_run_keeps_the_earlier_one(tmp_path: Path) -> None:
    run = document(graded([[[member("\\boxed{42}")]]]))
    assert save(run | {"complete": False}, tmp_path).name == "09_test.partial.json"
    for number in range(3):
        path = save(run, tmp_path)
        os.utime(path, (1767323045, 1767323045))
        path.with_suffix(".png").write_text(str(number))
    earlier = ["09_test.20260102-030405", "09_test.20260102-030405-2", "09_test"]
    assert path.name == "09_test.json" and {p.name for p in tmp_path.iterdir()} == {
        f"{stem}.{ending}" for stem in earlier for ending in ("json", "png")
    }
    assert [(tmp_path / f"{stem}.png").read_text() for stem in earlier] == ["0", "1", "2"], (
        "each has its own picture"
    )
    assert json.loads(path.read_text()) == run


@settings(max_examples=30)
@given(rows=problems(), data=st.data())
def test_a_saved_file_is_read_problem_by_problem_and_never_if_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    run = documents.document(rows, experiment="09_test")
    path = save(run, tmp_path_factory.mktemp("results"))
    whole = path.read_text()
    for text in (whole, json.dumps(run), json.dumps(run, indent=1)):
        path.write_text(text)
        _, head, problems = read.read_raw(path)
        assert head | {"problems": [row for row, _ in problems]} == run == json.loads(text)
    path.write_text(whole[: data.draw(st.integers(0, len(whole) - 3))])
    with pytest.raises(UserError):
        list(read.read(path)[1])


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(UserError, match=str(path)):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_results_folder_is_created_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path / "a" / "b"))
    assert results_dir() == tmp_path / "a" / "b"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path / "file" / "x"))
    with pytest.raises(UserError, match="RESULTS_DIR"):
        results_dir()


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
