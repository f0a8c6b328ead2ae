"""Races of scaffolds: drops, a resumed race, requests of an earlier comparison, and refusals."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.types import Ask, Member, Population, Problem
from harness.report import report
from harness.results import read
from harness.session.equal_compute import Comparison, compare, entry
from harness.session.race import Constants, run_race
from tests.fakes.server import ScriptedServer
from tests.helpers.scores import by_table

MADE = entry("12_majority", STAGE=1)
Start = Callable[..., None]


async def lucky(problem: Problem, ask: Ask, config: Any) -> AsyncIterator[Population]:
    """Ask eight times for the answer, which is 1 in these tests, and choose by it. No scaffold can
    know the answer."""
    asking = (ask([{"role": "user", "content": problem.statement}], 0, i) for i in range(8))
    drawn = await asyncio.gather(*asking)
    drawn.sort(key=lambda completion: "{1}" not in completion.text)
    yield [Member(drawn[0], side_calls=drawn[1:])]


ENTRIES = [
    MADE,
    entry("12_majority", replace(MADE.scaffold, run=lucky), name="lucky", N=8),
    entry("01_baseline", name="one", N=1),
]


@pytest.fixture
def started(server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Return a function that runs the race, or the comparison 98_all, on 30 problems."""
    file = results.parent / "ones.json"
    file.write_text(
        json.dumps([{"id": f"p{i}", "problem": f"Find {i}.", "answer": "1"} for i in range(30)])
    )

    def start(name: str, *words: str) -> None:
        monkeypatch.setattr("sys.argv", [f"{name}.py", f"PROBLEMS={file}", *words])
        if name == "99_race":
            run_race(
                Comparison(ENTRIES, Constants), {"__file__": "99_race.py", "BUDGET": 9, "BLOCK": 10}
            )
        else:
            compare(Comparison(ENTRIES), {"__file__": f"{name}.py"})

    return start


def lines(folder: Path) -> list[dict[str, Any]]:
    found = [
        json.loads(line) for line in (folder / "99_race" / "table.jsonl").read_text().splitlines()
    ]
    return [{key: value for key, value in line.items() if key != "made"} for line in found]


def test_a_race_drops_the_worse_and_a_stopped_race_ends_the_same(
    started: Start, server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = [signal.SIGTERM]

    def stopping(messages: Any, number: int) -> str:
        if len(server.asked) >= 150 and stops:
            os.kill(os.getpid(), stops.pop())
        return ScriptedServer.reply(server, messages, number)

    monkeypatch.setattr(server, "reply", stopping)
    with pytest.raises(SystemExit):
        started("99_race")
    assert not stops, "the race was stopped"
    started("99_race")
    first, asked = lines(results), len(server.asked)
    head, *rows = first
    assert rows[0]["entry"] == "lucky" and rows[0]["state"] == "won" and head["is_settled"]
    ran = {row["entry"]: row["accuracy"]["n"] for row in rows}
    heads = {name: read.read(results / "99_race" / f"{name}-seed0.json")[0] for name in ran}
    assert {name: of.problem_set["n"] for name, of in heads.items() if of.complete} == ran
    assert not list((results / "99_race").glob("*.partial.json"))
    assert max(ran.values()) == ran["lucky"] < 30 and all(
        row["state"].startswith("dropped") for row in rows[1:]
    )
    assert all(look in (results / "99_race" / "table.txt").read_text() for look in head["looks"])
    assert len(server.asked) < 30 * (10 + 8 + 1), "no entry ran on all problems"
    started("99_race")
    assert lines(results) == first and len(server.asked) == asked
    report.main(["99_race"])
    assert (results / "99_race.html").exists() and (results / "99_race" / "race.png").stat().st_size


def test_a_race_of_scores_names_them(
    started: Start, server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.session.race.by_answer", by_table)
    started("99_race", "LIMIT=6")
    table = (results / "99_race" / "table.txt").read_text()
    assert "gives the score" in table and "accuracy" not in table


def problems_asked(server: ScriptedServer, first: int) -> list[str]:
    """Return the problems of the requests from number `first` on, in the order of their first
    request."""
    asked = (
        json.loads(body)["messages"][-1]["content"].split(".")[0] for body in server.asked[first:]
    )
    return list(dict.fromkeys(asked))


def test_a_race_reuses_the_requests_of_an_earlier_comparison(
    started: Start, server: ScriptedServer, results: Path
) -> None:
    started("98_all", "LIMIT=6", "BUDGETS=9")
    asked = len(server.asked)
    started("99_race", "LIMIT=10", "ALPHA=0.000001")
    head, *rows = lines(results)
    assert not head["is_settled"] and [row["state"] for row in rows] == ["left"] * 3
    assert len(problems_asked(server, asked)) == 4, (
        "requests about the first six problems are in the journal"
    )


def test_a_race_takes_its_problems_in_random_order_even_if_an_earlier_run_had_the_first(
    started: Start, server: ScriptedServer, results: Path
) -> None:
    """A file may be sorted by difficulty. Its first problems alone could drop the scaffold that is
    best on all."""
    started("98_all", "LIMIT=10", "BUDGETS=9")
    asked = len(server.asked)
    started("99_race", "LIMIT=20", "ALPHA=0.000001")
    head = lines(results)[0]
    assert "PRIOR" not in head
    order = [problem.id for problem in read.read(results / "99_race" / "one-seed0.json")[1]]
    earlier = {f"p{i}" for i in range(10)}
    assert 0 < len(earlier.intersection(order[: head["BLOCK"]])) < 10
    assert len(problems_asked(server, asked)) == 10


def refusal(started: Start, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line with which a race of these words ends with status 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        started("99_race", *words)
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


@pytest.mark.parametrize(
    "word", ["PRIOR=98_all", "ENTRIES=12_majority", "ENTRIES=rsa", "ALPHA=0", "BUDGET=0.5"]
)
def test_a_race_that_cannot_be_is_refused(
    word: str, started: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal(started, capsys, word)
