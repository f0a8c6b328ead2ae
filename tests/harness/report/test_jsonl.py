"""Results as lines of JSON: their contents, and files that are never overwritten."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from harness.report import jsonl
from harness.report.report import main
from harness.results.model import MemberResult
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from tests.fakes.server import ScriptedServer
from tests.helpers import documents, reports
from tests.helpers.runs import TWO


@pytest.fixture
def folder(results: Path) -> Path:
    return reports.results(results, problems=3, lost=[1])


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def change(folder: Path, **changes: Any) -> dict[str, Any]:
    path = folder / "02_rsa_basic.json"
    document: dict[str, Any] = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(document))
    return document


def test_an_export_has_the_messages_that_a_server_was_sent(
    server: ScriptedServer, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    solve_sync(BEST_OF, TWO, N=3, VERIFY_SAMPLES=2, name="13_best_of")
    capsys.readouterr()
    main(["13", "--jsonl", "-"])
    found = lines(capsys.readouterr().out)
    sent = sorted(json.dumps(json.loads(body)["messages"]) for body in server.asked)
    exported = []
    for row in found:
        calls: dict[int, list[dict[str, str]]] = {}
        for message in row["history"]:
            if message["role"] != "assistant":
                calls.setdefault(message["call"], []).append(
                    {k: message[k] for k in ("role", "content")}
                )
        exported += [json.dumps(messages) for messages in calls.values()]
        kinds = ["side_call" in m for m in row["history"] if m["role"] == "assistant"]
        assert kinds == [False] * 3 + [True] * 6, (
            "a carried over sample, with its reviews, was asked for once"
        )
    assert sorted(exported) == sent and all(row["model_solution"] for row in found)


def test_an_export_has_columns_of_the_problem_file_and_dollars(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = change(folder, prices={"read": 1.0, "cached": 0.5, "written": 10.0})
    document["problems"][0]["columns"] = {"topic": "sums", "answer": 1, "history": "of the file"}
    change(folder, problems=document["problems"])
    main(["02", "--jsonl", "-"])
    found = lines(capsys.readouterr().out)
    assert found[0]["topic"] == "sums" and found[0]["answer"] == 1 and "topic" not in found[1]
    assert isinstance(found[0]["history"], list), "not the column of this name"
    assert found[0]["cost_run"]["cost"] == pytest.approx(12 * (50 * 1.0 + 100 * 10.0) / 1e6)


def test_without_the_journal_history_is_null_with_a_note(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "journal" / "02_rsa_basic.jsonl").unlink()
    main(["02", "--jsonl"])
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "3 of 3 problems of 02_rsa_basic.json" in captured.err
    for row in lines((folder / "02_rsa_basic.jsonl").read_text()):
        assert (
            row["history"] is row["model_solution"] is None
            and row["cost_run"]["output_tokens"] == 1200
        )
    main(["02_rsa_basic"])
    assert "36 completions of 02_rsa_basic" in capsys.readouterr().out


def test_uncounted_tokens_are_null(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports.results(results, counted=False, complete=False)
    main(["02", "--jsonl", "-"])
    out, err = capsys.readouterr()
    assert lines(out)[0]["cost_run"] == {"input_tokens": None, "output_tokens": None, "cost": None}
    assert "02_rsa_basic.partial.json" in err and err.count("\n") == 1


def test_a_failed_request_has_its_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = change(folder)
    failed = document["problems"][0]["steps"][0]["members"][0]
    failed |= {"error": "status 500", "key": "f" * 32, "finish_reason": None}
    change(folder, problems=document["problems"])
    main(["02", "--jsonl", "-"])
    row = lines(capsys.readouterr().out)[0]
    failure = {
        "role": "assistant",
        "content": None,
        "error": "status 500",
        "call": 0,
        "step": 0,
        "member": 0,
    }
    assert row["history"][0] == failure and row["history"][1]["call"] == 1


def test_only_an_export_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = folder / "mine.jsonl"
    problems.write_text('{"problem": "?", "answer": 1, "model_solution": "2"}\n')
    (folder / "a.jsonl").mkdir()
    journal = folder / "journal" / "02_rsa_basic.jsonl"
    before = journal.read_bytes()
    for argv, named in (
        (["02", "--jsonl", str(problems)], str(problems)),
        (["02", "--jsonl", str(journal)], str(journal)),
        (["02", "--jsonl", str(folder / "a.jsonl")], "a.jsonl"),
        (["--jsonl", "02"], "'02'"),
        (["02", "02", "--jsonl", str(folder / "b.jsonl")], "b.jsonl"),
        (["03", "--jsonl"], "'03'"),
    ):
        assert named in reports.refused(capsys, *argv)
    assert journal.read_bytes() == before and "model_solution" in problems.read_text()
    for _ in range(2):
        main(["02", "--jsonl", str(folder / "b.jsonl")])


def test_results_that_break_off_leave_no_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = change(folder)
    document["problems"][2]["steps"][0]["members"] = []
    change(folder, problems=document["problems"])
    with pytest.raises(SystemExit):
        main(["02", "--jsonl"])
    assert not [path for path in folder.iterdir() if "jsonl" in path.name]


@given(
    st.lists(
        st.tuples(st.booleans(), st.none() | st.integers(0, 3), st.none() | st.floats(0, 1)),
        min_size=1,
    )
)
def test_the_chosen_member_is_the_best_one_of_the_vote(drawn: list[tuple[bool, Any, Any]]) -> None:
    fields = [
        {"group": group, "self_score": score} | ({"error": "oops"} if failed else {})
        for failed, group, score in drawn
    ]
    members = [convert(documents.member(verdicts=[], **each), MemberResult) for each in fields]
    found = jsonl.chosen(members)
    alive = [m for m in members if not m.error] or members
    groups = [m.group for m in alive if m.group is not None]
    voted = [m for m in alive if m.group == min(groups)] if groups else alive
    assert found in voted and (found.self_score or 0) == max(m.self_score or 0 for m in voted)


def test_results_of_any_text_are_written_and_read_back(results: Path) -> None:
    reports.hostile(results)
    jsonl.write(results / "02_rsa_basic.json", "")
    assert len(lines((results / "02_rsa_basic.jsonl").read_text())) == 2
