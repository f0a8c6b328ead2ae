"""One table as text, as Markdown and on the page: the same columns, with their meanings."""

from core.report.table import Column, Metric, Table, filled
from core.report.tables import STEPS, steps_table
from tests.helpers import documents

TABLE = Table(
    "t",
    [
        Column("name", ["a", "b"], "who"),
        Column("long figure", ["1", "2"], "how much", rank=1),
        Column("none", ["0", "0"], "nothing", rank=1),
        Column("share", ["3", "4"], "of all", cells_page=[("30%", "3 of 10", True), "40%"], is_on_page=True),
    ],
    about="all in %",
)


def test_the_legend_is_of_the_columns_that_are_shown() -> None:
    assert TABLE.legend() == "name: who; long figure: how much; none: nothing; all in %"
    assert TABLE.legend(18) == "name: who; long figure: how much; all in %" and "no room for:\n none" in TABLE.text(18)
    assert TABLE.legend(6) == "name: who; all in %" and "none, long" in " ".join(TABLE.body(6).split())


def test_the_page_names_columns_of_zeros_and_has_some_of_its_own() -> None:
    page = TABLE.page()
    assert page["heads"] == ["name", "long figure", "share"] and page["legend"].endswith(
        "all in %; 0 in all rows: none"
    )
    assert page["rows"] == [["a", "1", ("30%", "3 of 10", True)], ["b", "2", "40%"]]
    assert TABLE.markdown().splitlines()[2] == "| name | long figure | none |"


def test_a_metric_is_shown_if_its_subject_has_it() -> None:
    metric = Metric("m", "", str, when=bool)
    assert filled([metric], [1, 2], subject=0) == [] and filled([metric], [1, 2], 1)[0].cells == ["1", "2"]


def test_every_column_of_the_steps_says_what_it_means() -> None:
    assert all(metric.meaning for metric in STEPS)


def test_problems_are_shown_if_they_are_not_n() -> None:
    heads = [
        steps_table(documents.document(steps=[documents.metrics_of_step(problems=problems)])).page()["heads"]
        for problems in (1, 0)
    ]
    assert ["problems" in of for of in heads] == [False, True]
