"""Results: grading, metrics by hand, warnings, atomic and archived files."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from core import results
from core.errors import UserError
from core.files import results_dir, write_atomically
from core.generate import Completion
from core.problems import Problem
from core.rsa import Member

PROBLEM = Problem("p", "?", "42")
SCHEMA = json.loads((Path(results.__file__).parent / "results.schema.json").read_text())


def member(answer: str, **changes: Any) -> Member:
    made: dict[str, Any] = {
        "finish_reason": "stop",
        "completion_tokens": 10,
        "prompt_tokens": 5,
        "seconds": 0.5,
    } | changes
    return Member(Completion("0" * 32, 1, "thought", answer, **made))


def document(populations: list[list[list[Member]]], complete: bool = True) -> dict[str, Any]:
    """A results document with the given populations: [problem][step][member]."""
    rows = [
        {
            "id": f"p{i}",
            "answer": "42",
            "finished": complete,
            "steps": [results.grade(PROBLEM, t, population) for t, population in enumerate(steps)],
        }
        for i, steps in enumerate(populations)
    ]
    made = {
        "schema": 1,
        "experiment": "09_test",
        "complete": complete,
        "started": "2026-01-02T03:04:05+00:00",
        "ended": results.now(),
        "model": {"name": "m", "revision": None, "sha256": None, "embedded": False},
        "engine": {"kind": "other", "version": None, "context": None, "concurrency": 1, "why": "test"},
        "problem_set": {"name": "s", "n": len(rows), "sha256": "0" * 64},
        "config": {"N": 2, "MAX_TOKENS": 10, "TEMPERATURE": 0.7, "SEED": 0},
        "provenance": results.provenance(),
        "metrics": results.metrics(rows, 1.0),
        "problems": rows,
    }
    made["warnings"] = results.warnings(made)
    jsonschema.validate(made, SCHEMA)
    return made


def test_metrics_of_a_small_run_by_hand() -> None:
    first = [[member("\\boxed{42}"), member("\\boxed{41}")], [member("\\boxed{42}"), member("\\boxed{042}")]]
    second = [[member("no box"), member("\\boxed{7}")], [member("\\boxed{42}"), member("\\boxed{8}")]]
    found = document([first, second])["metrics"]
    zero, one = found["steps"]
    assert zero["mean_accuracy"]["value"] == 0.25 and zero["mean_accuracy"]["n"] == 2
    assert zero["majority_accuracy"]["value"] == 0.25, "a tie scores the mean of the tied answers"
    assert zero["pass_at_k"]["1"]["value"] == 0.25 and zero["pass_at_k"]["2"]["value"] == 0.5
    assert one["mean_accuracy"]["value"] == 0.75 and one["majority_accuracy"]["value"] == 0.75
    assert zero["doubtful"] == 1 and zero["completion_tokens"] == 40 and zero["generation_seconds"] == 2.0
    assert found["tokens"] == {"prompt": 40, "cached": 0, "completion": 80}
    assert found["final"]["mean_accuracy"] == one["mean_accuracy"]


def test_truncated_forced_and_failed_completions_are_counted_and_never_hidden() -> None:
    cut = member("", finish_reason="length")
    forced = member("", finish_reason="length", forced="Time is up. \\boxed{42}")
    failed = Member(Completion("0" * 32, 1, error="status 500: oops"))
    made = document([[[cut, forced, failed, member("\\boxed{42}")]]])
    step = made["metrics"]["steps"][0]
    assert (step["truncated"], step["forced"], step["failed"], step["completions"]) == (2, 1, 1, 4)
    records = made["problems"][0]["steps"][0]["members"]
    assert [r["doubt"] for r in records] == ["truncated", "truncated", "failed", None]
    assert records[1]["correct"] and records[1]["unforced"] == {"answer": None, "correct": False, "doubt": "truncated"}
    assert any("50.0% of 4 completions hit the token cap" in w for w in made["warnings"])
    assert any("25.0% of 4 completions failed; most often: status 500: oops" in w for w in made["warnings"])


def test_identical_members_are_noticed() -> None:
    same, other = member("\\boxed{42}"), member("\\boxed{1}")
    made = document([[[same, same, same, same]], [[same, other, same, Member(Completion("0" * 32, 1, error="x"))]]])
    assert made["metrics"]["steps"][0]["identical"] == 4
    assert not any("repeat another" in w for w in made["warnings"])
    made = document([[[same] * 4]])
    assert any("3 of 4 members repeat another of their population" in w for w in made["warnings"])


def test_verification_is_summed_up_and_uniform_selection_told() -> None:
    def scored(answer: str, score: float | None) -> Member:
        made = member(answer)
        made.score, made.verdicts = score, [score]
        made.checks = [Completion("1" * 32, 2, answer="Verdict", completion_tokens=7, finish_reason="stop")]
        return made

    told = [
        scored("\\boxed{42}", 1.0),
        scored("\\boxed{42}", 1.0),
        scored("\\boxed{1}", 0.0),
        scored("\\boxed{1}", None),
    ]
    equal = [scored("\\boxed{1}", 0.0), scored("\\boxed{2}", 0.0)]
    made = document([[told], [equal]])
    found = made["metrics"]["verification"]
    assert (found["verdicts"], found["unreadable"], found["right"], found["wrong"]) == (6, 1, 2, 3)
    assert found["auc"] == 1.0 and (found["selections"], found["uniform_selections"]) == (2, 1)
    assert any("selection was uniform here: in 1 of 2" in w for w in made["warnings"])
    assert made["metrics"]["tokens"]["completion"] == 6 * 17
    assert made["metrics"]["steps"][0]["verification_tokens"] == 42


def test_a_complete_run_keeps_the_earlier_one_beside_it(tmp_path: Path) -> None:
    made = document([[[member("\\boxed{42}")]]])
    partial = results.save(made | {"complete": False}, tmp_path)
    assert partial.name == "09_test.partial.json"
    for _ in range(3):
        path = results.save(made, tmp_path)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert path.name == "09_test.json" and names == [
        "09_test.20260102-030405-2.json",
        "09_test.20260102-030405.json",
        "09_test.json",
    ]
    assert json.loads(path.read_text()) == made


def test_a_write_that_fails_leaves_the_old_file_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")

    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(UserError, match="the disk is full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_results_folder_is_made_or_refused_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path / "a" / "b"))
    assert results_dir() == tmp_path / "a" / "b"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path / "file" / "x"))
    with pytest.raises(UserError, match="Set RESULTS_DIR"):
        results_dir()
