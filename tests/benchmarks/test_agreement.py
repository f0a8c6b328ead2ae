"""The comparison in benchmarks/agreement.py: categories of differences, intervals, counts, the
replay of our run, and the heads."""

import json
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agreement import Replay, replaying, write_heads
from benchmarks.agreement_programs import Asked
from benchmarks.agreement_readings import (
    BOXED,
    SHOWN,
    Case,
    Reading,
    accuracies,
    category,
    explained,
    table,
    wilson,
)
from core.base.errors import UserError
from core.base.stats import mean_by_problem
from core.engines import queries as client

REPLY = "She buys 6 * 3 = 18 pens.\nThe answer is 1,018. That are 7 more."
MATCH = SHOWN.theirs[-1]
TURNS = [{"role": "user", "content": "1+1?"}]
ASKED = [Asked("a", TURNS, "2", "It is \\boxed{2}.", "length")]
REQUEST: dict[str, Any] = {"messages": TURNS, "temperature": 0, "max_tokens": 9, "model": "m"}


def test_each_kind_of_difference_has_its_own_category() -> None:
    ours = Reading("1018", True)
    others = [None, "18", "7", "$1,018.", "999"]
    categories = [category(REPLY, ours, Reading(answer, False)) for answer in others]
    categories.append(category(REPLY, Reading(None, False), ours))
    assert all(categories) and len(set(categories)) == len(categories)
    same = category("\\boxed{a + b}", Reading("a+b", True), Reading("a + b", False))
    assert same == categories[3]


def test_the_interval_is_inside_the_exact_one_and_contains_the_share() -> None:
    for count in (0, 1, 100, 195, 200):
        low, high = wilson(count, 200)
        assert 0 <= low <= count / 200 <= high <= 1
    low, high = wilson(195, 200)
    exact = mean_by_problem([1.0] * 195 + [0.0] * 5)
    assert exact.low < low and high < exact.high + 0.002
    # Newcombe's method 3 (no correction)
    assert wilson(10, 20) == pytest.approx((0.2993, 0.7007), abs=1e-4)


def case(name: str, changes: dict[str, Reading]) -> Case:
    readings = {reader: Reading("18", False) for reader in SHOWN.ours + SHOWN.theirs}
    return Case(name, "1018", REPLY, readings | changes)


def test_the_tables_count_verdicts() -> None:
    right, other = Reading("1018", True), Reading("7", False)
    text = SHOWN.ours[0]
    cases = [case("a", {}), case("b", {text: right}), case("c", {MATCH: other})]
    rows = [row.strip("| ").split(" | ") for row in table(cases).splitlines()[2:]]
    cells = {(row[0], row[1]): row[2:] for row in rows}
    verdicts, only_theirs, only_ours, causes = cells[MATCH, text]
    assert verdicts.startswith("2 of 3") and (only_theirs, only_ours) == ("0", "1")
    assert causes.startswith("1: ")
    assert cells[MATCH, SHOWN.ours[1]][-1] == "none"
    assert f"| {text} | 1 of 3" in accuracies(cases)
    words = explained(cases)
    assert "b, reference" in words and words.count("reply: ") == 1


def test_boxed_answers_have_their_own_readings() -> None:
    readings = {reader: Reading("2", True) for reader in BOXED.ours + BOXED.theirs}
    cases = [Case("a", "2", "\\boxed{2}", readings)]
    assert all(reader in table(cases) for reader in readings)


def test_a_program_gets_our_reply() -> None:
    with replaying(ASKED, 9) as replay:
        sent = client.send(f"{replay.url}/chat/completions", body=REQUEST)
        choice = json.loads(sent)["choices"][0]
        assert choice["message"]["content"] == ASKED[0].reply
        assert choice["finish_reason"] == "length"
        replay.check("program")
        with pytest.raises(UserError):
            replay.check("program")


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "user", "content": "1+1? "}]},
        {"messages": [*TURNS, *TURNS]},
        {"temperature": 1},
        {"max_tokens": 8},
        {"stream": True},
    ],
)
def test_another_request_is_refused(change: dict[str, Any]) -> None:
    with replaying(ASKED, 9) as replay, pytest.raises(urllib.error.HTTPError):
        client.send(f"{replay.url}/chat/completions", body=REQUEST | change)


def test_both_names_of_the_token_cap_are_read() -> None:
    request = {name: value for name, value in REQUEST.items() if name != "max_tokens"}
    assert Replay(ASKED, 9).reply(request | {"max_completion_tokens": 9})
    assert Replay(ASKED, 9).reply(request) is None


def test_the_heads_have_verdicts_and_no_long_texts(tmp_path: Path) -> None:
    path = tmp_path / "heads.json"
    write_heads([case("a", {MATCH: Reading("7" * 500, True)})], "words", path)
    heads = json.loads(path.read_text(encoding="utf-8"))
    answer, right = heads["problems"][0]["readings"][MATCH]
    assert right == 1 and len(answer) < 100
    assert REPLY not in path.read_text(encoding="utf-8")
