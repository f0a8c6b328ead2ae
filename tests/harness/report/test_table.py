"""Names of results, and one table as text, as Markdown and on the page."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.final import final
from harness.report.run_table import steps_table
from harness.report.table import Column, Table
from harness.report.tables import labels
from tests.helpers import documents

TABLE = Table(
    "t",
    [
        Column("name", ["a", "b"], "who"),
        Column("long figure", ["1", "2"], "how much", rank=1),
        Column("none", ["0", "0"], "nothing", rank=1),
        Column(
            "share",
            ["3", "4"],
            "of all",
            cells_page=[("30%", "3 of 10", True), "40%"],
            is_on_page=True,
        ),
    ],
    legend_end="all in %",
)


def test_the_legend_explains_the_columns_that_are_shown() -> None:
    rows = [
        line.split(maxsplit=1)
        for line in TABLE.legend().replace("long figure", "long").splitlines()
    ]
    assert rows == [["name", "who"], ["long", "how much"], ["all", "in %"]]
    assert "how much" not in TABLE.legend(6) and "(no room for: long" in " ".join(
        TABLE.body(6).split()
    )


def test_columns_of_zeros_are_one_line_unless_they_are_times_or_may_not_be_omitted() -> None:
    assert TABLE.body().splitlines()[0].split() == ["name", "long", "figure"]
    assert TABLE.body().splitlines()[-1] == "0 in all rows: none"
    assert TABLE.markdown().splitlines()[-1] == "0 in all rows: none"
    zeros = [
        Column("step", ["0"]),
        Column("seconds", ["0"], rank=3, is_time=True),
        Column("failed", ["0"], rank=1),
        Column("forced", ["0"], rank=1),
    ]
    shown = Table("t", zeros).body().splitlines()
    assert shown[0].split() == ["step", "seconds"]
    assert shown[-1] == "0 in all rows: failed, forced"


def test_the_page_names_columns_of_zeros_and_has_some_of_its_own() -> None:
    page = TABLE.page()
    assert page["heads"] == ["name", "long figure", "share"]
    assert page["legend"].endswith("all in % · 0 in all rows: none")
    assert page["rows"] == [["a", "1", ("30%", "3 of 10", True)], ["b", "2", "40%"]]
    assert TABLE.markdown().splitlines()[2] == "| name | long figure |"


@pytest.mark.parametrize("problems", [1, 0])
def test_columns_of_steps_have_meanings_and_problems_are_shown_if_they_are_not_n(
    problems: int,
) -> None:
    document = documents.document(steps=[documents.metrics_of_step(problems=problems)])
    assert all(column.meaning for column in steps_table(document).columns)
    assert ("problems" in steps_table(document).page()["heads"]) is (problems == 0)


def named(name: str, experiment: str, config: dict[str, Any]) -> Any:
    return SimpleNamespace(name=name, head=SimpleNamespace(experiment=experiment, config=config))


def rsa(name: str, **config: Any) -> Any:
    return named(name, "02_rsa_basic", {"N": 8, "K": 3, "SEED": 0} | config)


@pytest.mark.parametrize(("failed", "is_shown"), [(0, True), (3, True), (4, False)])
def test_a_last_step_without_a_reply_has_no_final_accuracy(failed: int, is_shown: bool) -> None:
    steps = [documents.metrics_of_step(t, completions=4, failed=failed * t) for t in (0, 1)]
    line = final(documents.document([documents.problem("1", [])], steps))
    assert ("50.0" in line) == is_shown == ("+0.0" in line)


def test_names_have_the_constants_that_differ() -> None:
    assert labels([rsa("02_rsa_basic"), named("07_nomos", "07_nomos", {"N": 4})]) == [
        "02_rsa_basic",
        "07_nomos",
    ]
    several = [
        rsa("02_rsa_basic"),
        rsa("02_rsa_basic.20261122-142237", K=1),
        rsa("02_rsa_basic.20261122-1", SEED=7),
    ]
    assert labels(several) == [
        "02_rsa_basic K=3 SEED=0",
        "02_rsa_basic K=1 SEED=0",
        "02_rsa_basic K=3 SEED=7",
    ]
    same = [rsa("02_rsa_basic"), rsa("02_rsa_basic.20261122-142237")]
    assert labels(same) == ["02_rsa_basic", "02_rsa_basic.20261122-142237"]
    pairs = [*several[:2], rsa("02_rsa_basic.20261122-3")]
    assert labels(pairs) == ["02_rsa_basic", "02_rsa_basic K=1", "02_rsa_basic.20261122-3"]


TEXT = st.text(max_size=30)
NAMED = st.builds(named, TEXT, TEXT, st.dictionaries(TEXT, st.integers(), max_size=6))


@given(st.lists(NAMED, max_size=6), st.integers(10, 60))
def test_names_are_short_and_on_one_line(results: list[Any], most: int) -> None:
    names = labels(results, most)
    assert len(names) == len(results)
    assert all(len(name) <= most and name.isprintable() for name in names)
