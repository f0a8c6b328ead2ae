"""Uncounted tokens are unknown, never 0. Replies without text are called empty or filtered."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from core.base.errors import UserError
from core.base.prices import Prices
from core.engines.protocol import Server
from core.rsa import rsa
from core.types import Completion, Member, Sampling
from harness.plan import lengths
from harness.report import compare, page, run_table
from harness.report.budgets import bought
from harness.report.data import Results, load
from harness.report.final import final
from harness.results import warnings
from harness.results.metrics import RunMetrics
from harness.results.model import StepResult
from harness.results.records import SILENCES
from harness.results.warnings import SILENT_REPLIES
from harness.session.equal_compute import Budgeted
from tests.fakes.http import answer
from tests.fakes.model import PROBLEM, Model, constants_with
from tests.fakes.moody import Moody, chat
from tests.helpers import documents, reports
from tests.helpers.asking import ask, ask_each
from tests.helpers.documents import VALIDATOR
from tests.helpers.graded import document, graded, member


def uncounted(answer: str = "\\boxed{42}") -> Member:
    return member(answer, completion_tokens=0, prompt_tokens=0)


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        (
            {"answer": "x", "prompt_tokens": 5, "completion_tokens": 7, "cached_tokens": 2},
            (5, 2, 7),
        ),
        ({"answer": "x"}, (None, None, None)),
        ({"answer": "x", "completion_tokens": 7}, (None, None, 7)),
        ({"answer": "x", "prompt_tokens": 5}, (5, 0, None)),
        ({"thinking": "x", "prompt_tokens": 5}, (5, 0, None)),
        ({"forced": "x", "prompt_tokens": 5}, (5, 0, None)),
        ({"prompt_tokens": 5}, (5, 0, 0)),
        ({}, (None, None, None)),
        ({"error": "status 500", "finish_reason": None}, (0, 0, None)),
    ],
)
def test_what_was_told_is_known(changes: dict[str, Any], counted: tuple[int | None, ...]) -> None:
    got = Completion("0" * 32, 0, **{"finish_reason": "stop"} | changes)
    assert got.counted == (counted if not got.error else (0, 0, 0))


def test_tokens_that_nobody_told_are_unknown_in_results_table_and_warnings() -> None:
    got = document(graded([[[uncounted(), uncounted("\\boxed{1}")], [uncounted()]]]))
    VALIDATOR.validate(got)
    cost = got["problems"][0]["steps"][0]["members"][0]
    assert cost["prompt_tokens"] is cost["cached_tokens"] is cost["completion_tokens"] is None
    assert got["metrics"]["tokens"] == {"prompt": None, "cached": None, "completion": None}
    assert [s["completion_tokens"] for s in got["metrics"]["steps"]] == [None, None]
    assert [s["verification_tokens"] for s in got["metrics"]["steps"]] == [0, 0]
    assert run_table.steps_table(got).body().count("unknown") == 2
    assert any("tokens of 3 completions" in warning for warning in got["warnings"])


def test_what_is_known_is_summed_and_said_to_be_a_part() -> None:
    checked = member("\\boxed{42}")
    checked.side_calls = [Completion("1" * 32, 2, answer="?", finish_reason="stop")]
    got = document(graded([[[checked, uncounted()]]]))
    (step,) = got["metrics"]["steps"]
    assert (step["completion_tokens"], step["verification_tokens"], step["uncounted"]) == (
        10,
        None,
        2,
    )
    assert got["metrics"]["tokens"]["completion"] == 10
    assert "≥ 10 + unknown" in run_table.steps_table(got).body()


def test_a_run_of_failures_took_no_tokens_that_are_unknown() -> None:
    failed = Member(Completion("0" * 32, 1, error="status 500"))
    (step,) = document(graded([[[failed, member("\\boxed{42}")]]]))["metrics"]["steps"]
    assert step["completion_tokens"] == 10 and "uncounted" not in step


def test_lengths_are_measured_on_what_was_counted(results: Path) -> None:
    assert lengths.measured(reports.results(results, counted=False), "made-up") is None
    path = reports.results(results) / "02_rsa_basic.json"
    whole = lengths.measured(results, "made-up")
    found = json.loads(path.read_text())
    for problem in found["problems"]:
        for step in problem["steps"]:
            step["members"][0] |= {
                "completion_tokens": None,
                "prompt_tokens": None,
                "cached_tokens": None,
            }
    path.write_text(json.dumps(found))
    part = lengths.measured(results, "made-up")
    assert (
        whole is not None
        and part is not None
        and part.solutions[0].mean() == whole.solutions[0].mean() == 100
    )


def test_compute_cannot_be_matched_without_counts() -> None:
    model = Model(lambda names, prompt: Completion("", 0, "", "x", finish_reason="stop"))
    config = constants_with(
        {"SEED": 0, "N": 8, "K": 2, "T": 3, "CARRY": "answer", "MAX_TOKENS": 9, "ANSWER_TOKENS": 0}
    )

    async def collect() -> int:
        return len([p async for p in Budgeted(rsa, float("inf"))(PROBLEM, model, config)])

    with pytest.raises(UserError):
        asyncio.run(collect())


def test_a_budget_does_not_buy_a_step_of_unknown_length() -> None:
    def step(tokens: int | None, right: float) -> StepResult:
        one = documents.member(tokens, prompt_tokens=None, cached_tokens=None)
        return convert(documents.step(0, [one], majority=right), StepResult)

    found = bought([step(10, 0.5), step(None, 1.0), step(10, 0.0)], 1000)
    assert found.score == 0.5 and [
        found.figures[name] for name in ("tokens", "calls", "prompt")
    ] == [10, 1, 0]


@pytest.mark.parametrize("context", [100, 4000])
def test_an_answer_without_counts_is_forced_within_the_context(
    moody: Moody, tmp_path: Path, context: int
) -> None:
    thought = chat("<think>" + "So it goes on. " * 3000, finish_reason="length") | {"usage": None}
    moody.choose = lambda n, prompt: answer(
        200, thought if n == 0 else chat(" \\boxed{42}") | {"usage": None}
    )
    server = Server("vllm", moody.url, "m", "x", context=context)
    (forced,) = ask(server, tmp_path, [(1, Sampling(max_tokens=9000, answer_tokens=200))])
    assert forced.forced is not None and "\\boxed{42}" in forced.forced
    assert len(moody.prompts[1]) < max(200, 5 * context) and forced.counted == (None, None, None)


# Replies that say nothing


def test_empty_and_filtered_replies_are_called_so_and_are_not_identical() -> None:
    def silent(reason: str) -> Member:
        return Member(Completion("0" * 32, 1, finish_reason=reason, prompt_tokens=5))

    filtered = [silent(reason) for reason in ("content_filter", "SAFETY", "refusal")]
    begun = member("It is", finish_reason="content_filter")
    got = document(
        graded([[[silent("stop"), silent("stop"), silent("eos"), *filtered, begun, begun]]])
    )
    VALIDATOR.validate(got)
    (step,) = got["metrics"]["steps"]
    assert (step["empty"], step["filtered"], step["identical"], step["failed"]) == (3, 5, 0, 0)
    doubts = [m["doubt"] for m in got["problems"][0]["steps"][0]["members"]]
    assert doubts == ["empty"] * 3 + ["filtered"] * 5
    assert {warning[:10] for warning in got["warnings"]} >= {"37.5% of 8", "62.5% of 8"}


def test_blank_space_is_empty_and_what_was_cut_off_or_thought_is_not() -> None:
    blank = Member(
        Completion(
            "0" * 32, 1, answer=" \n", finish_reason="stop", prompt_tokens=5, completion_tokens=1
        )
    )
    cut = Member(Completion("1" * 32, 1, finish_reason="length", prompt_tokens=5))
    got = document(graded([[[blank, blank, cut, cut, member(""), member("")]]]))
    (step,) = got["metrics"]["steps"]
    assert (step["empty"], step["truncated"], step["identical"]) == (2, 2, 1), (
        "two with the same thought"
    )


def thought(**changes: Any) -> Member:
    fields: dict[str, Any] = {"finish_reason": "stop", "prompt_tokens": 5}
    return Member(Completion("0" * 32, 1, "so 42", **fields | changes))


def test_replies_with_text_only_in_the_reasoning_field_get_a_note_of_their_own() -> None:
    got = document(graded([[[thought()] * 8 + [member("\\boxed{42}")] * 4]]))
    (step,) = got["metrics"]["steps"]
    assert step["only_thinks"] == step["unread"] == 8 and "empty" not in step
    assert got["problems"][0]["steps"][0]["members"][0]["doubt"] == SILENCES["only_thinks"]
    assert f"8 of 12 replies {SILENT_REPLIES['only_thinks']}" in got["warnings"]
    all_of = document(graded([[[thought()] * 24]]))
    assert "unstated" not in all_of["metrics"], "no advice on the form of the answer"
    assert any(SILENT_REPLIES["only_thinks"] in warning for warning in all_of["warnings"])
    truncated = document(graded([[[thought(finish_reason="length")] * 24]]))
    assert not any(SILENT_REPLIES["only_thinks"] in warning for warning in truncated["warnings"])


def test_replies_of_tool_calls_alone_are_not_called_empty() -> None:
    called = Member(
        Completion("0" * 32, 1, finish_reason="tool_calls", prompt_tokens=5, completion_tokens=9)
    )
    checked = member("\\boxed{42}")
    checked.side_calls = [called.completion]
    got = document(graded([[[called, called, checked]]]))
    (step,) = got["metrics"]["steps"]
    assert step["only_calls"] == 2 and "empty" not in step
    assert got["problems"][0]["steps"][0]["members"][0]["doubt"] == SILENCES["only_calls"]
    assert f"2 of 3 replies {SILENT_REPLIES['only_calls']}" in got["warnings"]
    assert got["metrics"]["side_calls"]["only_calls"] == 1


# prompt, written, finish, text; expected finish, context
ENDS: dict[str, tuple[int, int, str, str, str, int]] = {
    "the context, in the reply": (193, 3903, "length", "so far", "length", 4096),
    "the context, at once": (4095, 1, "length", "", "length", 4096),
    "the cap": (193, 16384, "length", "so far", "length", 0),
    "the cap, counted otherwise": (193, 16380, "length", "so far", "length", 0),
    "no usage": (0, 0, "length", "so far", "length", 0),
    "the cap, called a stop": (193, 16384, "stop", "so we multiply both", "length", 0),
    "the cap in the thinking, called a stop": (193, 16384, "stop", "", "length", 0),
    "the cap in a formula, called a stop": (193, 16384, "stop", "so for $x = 6$", "length", 0),
    "the cap in a box, called a stop": (193, 16384, "stop", "so \\boxed{\\frac{6}{7}", "length", 0),
    "a box at the cap": (193, 16384, "stop", "So $\\boxed{\\frac{6}{7}}$", "stop", 0),
    "a quotation at the cap": (193, 16384, "stop", "It is **42.**", "stop", 0),
    "an end at the cap": (193, 16384, "stop", "It is \\boxed{42}.", "stop", 0),
    "the context, called a stop": (193, 3903, "stop", "so we multiply both", "length", 4096),
    "an end at the context": (193, 3903, "stop", "It is \\boxed{42}.", "stop", 0),
    "a reply at the context without counts": (0, 4096, "stop", "so we multiply both", "stop", 0),
    "an end before the cap": (193, 16383, "stop", "so we multiply both", "stop", 0),
    "a filter at the cap": (193, 16384, "content_filter", "so we", "content_filter", 0),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_reply_ends_at_its_cap_or_at_the_servers_context(
    moody: Moody, tmp_path: Path, end: str
) -> None:
    prompt, written, finish, text, expected, context = ENDS[end]
    usage = {"usage": {"prompt_tokens": prompt, "completion_tokens": written}}
    moody.choose = lambda n, prompt: answer(200, chat(text, finish_reason=finish) | usage)
    for _ in range(2):  # the second is from the journal
        (got,) = ask_each(moody.url, tmp_path, ["a"])
        assert (got.finish_reason, got.context) == (expected, context)
    assert (b'"context":' in (tmp_path / "a.jsonl").read_bytes()) is bool(context), (
        "other records are as before"
    )


def test_a_context_that_ends_replies_is_told_from_the_cap() -> None:
    cut = member("so far", finish_reason="length", context=4096)
    got = document(graded([[[cut, cut, member("\\boxed{42}"), member("\\boxed{42}")]]]))
    assert got["metrics"]["context"] == {"4096": 2} and got["metrics"]["steps"][0]["truncated"] == 2
    (told,) = [warning for warning in got["warnings"] if "4,096" in warning]
    assert "context" in told and "2 of 4" in told
    assert not any("token cap" in warning for warning in got["warnings"])
    longer = {"engine": got["engine"] | {"context": 131072}}
    (told,) = [warning for warning in warnings.of_run(got | longer, None) if "4,096" in warning]
    assert "OLLAMA" not in told, "the server has a longer context, so it has a cap of its own"


def test_checks_that_say_nothing_are_counted() -> None:
    checked = member("\\boxed{42}")
    checked.side_calls = [
        Completion("1" * 32, 2, finish_reason=r, prompt_tokens=5)
        for r in ("stop", "content_filter")
    ]
    got = document(graded([[[checked]]]))
    assert got["metrics"]["side_calls"] == {
        "completions": 2,
        "truncated": 0,
        "failed": 0,
        "empty": 1,
        "filtered": 1,
    }
    assert (
        "1 of 2 side calls are empty" in got["warnings"]
        and "1 of 2 side calls are filtered" in got["warnings"]
    )


@pytest.mark.parametrize("status", [400, 403])  # 403: OpenRouter
def test_a_prompt_that_a_filter_refuses_is_one_failure(
    moody: Moody, tmp_path: Path, status: int
) -> None:
    refusal = {
        "error": {
            "message": "The response was filtered",
            "code": "content_filter",
            "param": "prompt",
        }
    }
    moody.choose = lambda n, prompt: (
        answer(status, refusal) if n == 0 else answer(200, chat("\\boxed{42}"))
    )
    refused, got = ask_each(moody.url, tmp_path, ["a", "b"], 1)
    assert refused.error == "filtered: The response was filtered" and got.error is None


def test_dollars_stand_in_results_table_comparison_and_page_where_prices_are_known(
    results: Path,
) -> None:
    prices = Prices(1.0, 0.1, 10.0, "2026-11-23")
    known, unknown = (
        member("\\boxed{42}", prompt_tokens=50, cached_tokens=20, completion_tokens=100),
        uncounted(),
    )
    got = document(graded([[[known, unknown], [known, known]]])) | {"prices": asdict(prices)}
    counted = RunMetrics(1, prices=prices)
    for each_step in got["problems"][0]["steps"]:
        counted.add(0, each_step)
    got["metrics"] = counted.metrics(1.0)
    VALIDATOR.validate(got)
    each = (30 * 1.0 + 20 * 0.1 + 100 * 10.0) / 1e6
    assert [step["cost"] for step in got["metrics"]["steps"]] == pytest.approx([each, 2 * each])
    assert "≥ $0.00103" in run_table.steps_table(got).body() and "≥ $0.0031" in final(got)
    (results / "a.json").write_text(json.dumps(got))
    shown = compare.table([compare.result(load("a", results)), compare.result(load("a", results))])
    assert "≥ $0.0031" in shown and "cost" in shown
    known_by_page = page.data([Results(results / "a.json")])["runs"][0]["head"]
    assert (
        known_by_page["metrics"]["cost"] == pytest.approx(3 * each)
        and known_by_page["prices"]["written"] == 10
    )
