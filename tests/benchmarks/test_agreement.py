"""The comparison in benchmarks/agreement.py: categories of differences, intervals, counts, and
recorded messages."""

import json
from dataclasses import replace

import pytest

from benchmarks.agreement import Recorder, recording
from benchmarks.agreement_programs import SECONDS
from benchmarks.agreement_readings import (
    MATCH,
    OURS,
    THEIRS,
    Case,
    Reading,
    category,
    differences,
    explained,
    table,
    wilson,
)
from core.base.errors import UserError
from core.base.stats import mean_by_problem
from core.engines import queries as client
from core.engines.protocol import Server

REPLY = "She buys 6 * 3 = 18 pens.\nThe answer is 1,018. That are 7 more."


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Reading(None, False), Reading(None, False)),
        (Reading("1018", True), Reading("$1,018.", True)),
        (Reading("7", False), Reading("7.00", False)),
        (Reading("x", False), Reading("x", False)),
    ],
)
def test_equal_answers_are_no_difference(ours: Reading, theirs: Reading) -> None:
    assert category(REPLY, ours, theirs) == ""


def test_each_kind_of_difference_has_its_own_category() -> None:
    ours = Reading("1018", True)
    others = [None, "18", "7", "1018", "999"]
    categories = [category(REPLY, ours, Reading(answer, False)) for answer in others]
    categories.append(category(REPLY, Reading(None, False), ours))
    assert all(categories) and len(set(categories)) == len(categories)


def test_the_interval_is_inside_the_exact_one_and_contains_the_share() -> None:
    for count in (0, 1, 100, 195, 200):
        low, high = wilson(count, 200)
        assert 0 <= low <= count / 200 <= high <= 1
    low, high = wilson(195, 200)
    exact = mean_by_problem([1.0] * 195 + [0.0] * 5)
    assert exact.low < low and high < exact.high + 0.002
    # Newcombe's method 3 (no correction)
    assert wilson(10, 20) == pytest.approx((0.2993, 0.7007), abs=1e-4)


def case(name: str, **changes: Reading) -> Case:
    names = {reader: reader.split()[-1].replace("=", "_") for reader in (*OURS, *THEIRS)}
    readings = {reader: changes.get(name, Reading("18", False)) for reader, name in names.items()}
    return Case(name, "1018", REPLY, readings)


def test_the_table_counts_verdicts_and_answers() -> None:
    right, other = Reading("1018", True), Reading("7", False)
    cases = [case("a"), case("b", ANSWER_text=right), case("c", match=other)]
    assert [each.id for each, _ in differences(cases, OURS[0], MATCH)] == ["b", "c"]
    others = {MATCH.split()[0]: "Another reply. 7"}
    texts, same = (
        differences([replace(cases[2], others=each)], OURS[0], MATCH)[0][1] for each in (others, {})
    )
    assert "text" in texts and "text" not in same
    rows = {
        tuple(row.split(" | ")[:2]): row.split(" | ")[2:] for row in table(cases).splitlines()[2:]
    }
    right_counts, verdicts, answers, reasons = rows["| " + MATCH, OURS[0]]
    assert (
        right_counts == "0, 1"
        and verdicts.startswith("2 of 3")
        and answers == "1"
        and reasons.startswith("1: ")
    )
    assert rows["| " + THEIRS[0], OURS[1]][2:] == ["3", "none |"]
    text = explained(cases)
    assert "a, reference" not in text and text.count("reply: ") == 2 and "equal verdicts" in text


def test_other_messages_are_an_error() -> None:
    turns, spaced = [{"role": "user", "content": "1+1?"}], [{"role": "user", "content": "1+1? "}]
    # one retry
    recorder = Recorder("", [{"messages": turns, "temperature": 0}, {"messages": turns}])
    recorder.check("program", [turns])
    assert recorder.bodies == []
    for sent in ([], [spaced], [turns, spaced], [[*turns, *turns]]):
        recorder.bodies = [{"messages": each} for each in sent]
        with pytest.raises(UserError):
            recorder.check("program", [turns])


def test_requests_pass_unchanged_and_are_recorded(engine: Server) -> None:
    body = {
        "model": engine.model,
        "messages": [{"role": "user", "content": "1+1?"}],
        "max_tokens": 3,
        "seed": 1,
    }
    with recording(engine) as recorder:
        assert (
            json.loads(client.send(f"{recorder.url}/models", seconds=SECONDS))["data"][0]["id"]
            == engine.model
        )
        reply = json.loads(
            client.send(f"{recorder.url}/chat/completions", body=body, seconds=SECONDS)
        )
        assert reply["usage"]["completion_tokens"] == 3
        assert recorder.bodies == [body]
