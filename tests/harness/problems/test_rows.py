"""Problem files of all kinds, and what columns may be called."""

import csv
import io
import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from core.eval import grade_answers, is_correct
from core.types import Completion, Member
from harness.problems import sets
from harness.problems.columns import NAMES, fields_of
from harness.problems.published import ANSWERBENCH, GSM8K, SVAMP, Published
from harness.problems.rows import read_rows
from tests.helpers.problems import csv_text, parquet, written

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
WORD_PROBLEMS = [(SHARED / "gsm8k_test.jsonl", GSM8K), (SHARED / "svamp.json", SVAMP)]
IMO, AIME = SHARED / "imo_answerbench_v2.csv", SHARED / "aime_2025.json"

PROBLEMS: list[dict[str, Any]] = [
    {
        "id": "a",
        "problem": 'Is "x", y\nequal to ∞, or "no"?',
        "answer": r"\frac{1}{2}",
        "level": "hard",
    },
    {"id": "b", "problem": "1+1?", "answer": "2", "level": None},
]


def test_the_same_rows_are_the_same_set_in_every_kind_of_file(tmp_path: Path) -> None:
    found = [sets.load(str(path)) for path in written(tmp_path, PROBLEMS)]
    assert len({each.sha256 for each in found}) == 1
    for each in found:
        assert [problem.columns for problem in each.problems] == PROBLEMS
        assert each.name == "set" and (each.licence, each.version, each.revision) == (
            None,
            None,
            None,
        )
    assert found[0].problems[0].statement == PROBLEMS[0]["problem"]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", ""),
        (b"problem,answer\n", ""),
        (b"text,label\nx,1\n", 'no column is named "problem" (or question, statement'),
        (b"text,label\nx,1\n", "'text', 'label'"),
        (b"problem,solution\nx,1\n", 'no column is named "answer" (or short_answer, final_answer'),
        (b"problem,answer\nx,1\n\nx\n", "in line 4 (1)"),
        (b'problem,answer\n"x\ny",1\nz,1,2\n', "in line 4 (3)"),
        (b'problem,answer\nx,1\n"y,2\n', "line 3"),
        (b"problem,answer,answer\nx,1,2\n", "'answer'"),
        (b"problem,answer\n\xe9,1\n", "UTF-8"),
        ("problem,answer\nx,1\n".encode("utf-16"), "UTF-8"),
        (b"problem,answer\n" + b"x" * 200_000 + b",1\n", "field limit"),
    ],
)
def test_a_malformed_csv_file_is_told_with_its_place(
    tmp_path: Path, content: bytes, place: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        sets.load(str(path))
    assert place in str(raised.value) and "bad.csv" in str(raised.value)


SEPARATED = [
    ("mine.csv", "frage;Question;Answer\n1;a, b;5\n"),
    ("mine.csv", '"question";"answer"\n"a, b";"5"\n'),
    ("mine.csv", "question\tanswer\na, b\t5\n"),
    ("mine.tsv", "question\tanswer\na, b\t5\n"),
    ("mine.tsv", 'question,answer\n"a, b",5\n'),
    ("mine.TSV", 'x;y\tquestion\tz,1\tanswer\n\t"a, b"\t\t"5"\n'),
    ("mine.csv", 'question,"answer","notes; a; b; c; d"\n"a, b",5,\n'),
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize(("name", "text"), SEPARATED)
def test_the_header_decides_which_separator_a_file_has(
    tmp_path: Path, name: str, text: str, encoding: str, newline: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.replace("\n", newline).encode(encoding))
    (problem,) = sets.load(str(path)).problems
    assert (problem.statement, problem.answer) == ("a, b", "5")


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=20)
texts = cells.filter(lambda text: bool(text.strip()))
tables = st.lists(
    st.fixed_dictionaries({"problem": texts, "answer": texts, "note": cells}),
    min_size=1,
    max_size=5,
)


@given(
    tables,
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from([",", ";", "\t"]),
    st.booleans(),
)
def test_any_table_comes_back_from_csv(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    newline: str,
    quoting: Any,
    separator: str,
    bom: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    text = csv_text(rows, lineterminator=newline, quoting=quoting, delimiter=separator)
    path.write_bytes(text.encode("utf-8-sig" if bom else "utf-8"))
    try:
        found = sets.load(str(path)).problems
    except UserError:  # an answer that nothing can be compared with: nan, inf
        return
    assert [problem.statement for problem in found] == [row["problem"].strip() for row in rows]
    assert [problem.columns["note"] or "" for problem in found] == [row["note"] for row in rows]


@given(st.sampled_from(NAMES["problem"]), st.sampled_from(NAMES["answer"][:-1]), st.data())
def test_columns_are_known_by_their_usual_names_in_any_spelling(
    problem: str, answer: str, data: st.DataObject
) -> None:
    def spelled(name: str) -> str:
        name = name.replace("_", data.draw(st.sampled_from(["_", " ", "-"])))
        return data.draw(st.sampled_from([name, name.title(), name.upper()]))

    row = {spelled(answer): 42, "note": "?", spelled(problem): "x?", spelled("problem_id"): "p1"}
    assert fields_of(row) == {"problem": "x?", "answer": 42, "id": "p1"}
    assert fields_of(row | {"problem": "y?", "id": 7}) == {"problem": "y?", "answer": 42, "id": 7}


def test_of_several_columns_that_could_be_meant_ours_counts() -> None:
    assert fields_of({"Problem": "no", "problem": "yes", "question": "no"}) == {"problem": "yes"}
    assert fields_of({"problem": "yes", "Problem": "no"}) == {"problem": "yes"}
    # no other is guessed
    assert fields_of({"Answer": None, "final_answer": 3}) == {"answer": None}
    assert fields_of({"id": None, "answer_type": None}) == {}


def test_a_file_in_the_layout_of_verl_is_read(tmp_path: Path) -> None:
    row = {
        "data_source": "hmmt",
        "prompt": [{"role": "user", "content": "How much is 1+1?"}],
        "reward_model": {"style": "rule", "ground_truth": "2"},
        "extra_info": {"index": 0, "split": "test"},
    }
    (found,) = sets.load(str(parquet(tmp_path / "test.parquet", [row]))).problems
    assert (found.statement, found.answer, found.id) == (
        "How much is 1+1?",
        "2",
        "1",
    ) and found.columns == row
    row["prompt"] = [{"role": "user", "content": "1"}, {"role": "user", "content": "2"}]
    with pytest.raises(UserError, match="the problem"):
        sets.load(str(parquet(tmp_path / "test.parquet", [row])))


def test_olympiadbench_is_read_as_it_is_published(tmp_path: Path) -> None:
    """Invented rows of its shape. `final_answer` is a list, and `answer_type` has values of its
    own."""
    shape = {
        "solution": ["It is so."],
        "context": None,
        "unit": None,
        "error": None,
        "question_type": "Open-ended",
    }
    answers: list[tuple[list[Any], bool, str]] = [
        (["5"], False, "Numerical"),
        (["2", "5", "11"], True, "Numerical"),
        (["$\\frac{1}{2}$", "$3$"], True, "Expression"),
        (["(1,2)", "(3,4)"], True, "Tuple"),
        (["2, 5"], True, "Numerical"),
        ([7], False, "Numerical"),
        ([2, 0.5], True, "Numerical"),
    ]
    rows = [
        shape
        | {
            "id": i,
            "question": "x?",
            "final_answer": answer,
            "is_multiple_answer": several,
            "answer_type": kind,
        }
        for i, (answer, several, kind) in enumerate(answers)
    ]
    (tmp_path / "maths.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = sets.load(str(tmp_path / "maths.jsonl")).problems
    expected = ["5", "2, 5, 11", "$\\frac{1}{2}$, $3$", "(1,2), (3,4)", "2, 5", "7", "2, 0.5"]
    assert [problem.answer for problem in found] == expected
    assert {problem.answer_type for problem in found} == {"math"}
    assert is_correct("11, 2, 5", found[1].answer or "", "math") and not is_correct(
        "2, 5", found[1].answer or "", "math"
    )
    assert is_correct("3, 0.5", found[2].answer or "", "math") and is_correct(
        "(3,4), (1,2)", found[3].answer or "", "math"
    )
    assert (
        sets.load(str(parquet(tmp_path / "maths.parquet", rows[:5]))).problems[1].answer
        == "2, 5, 11"
    )
    for wrong in ([], [None], ["5", None], [{"value": 5}, "6"], ["5", ""]):
        (tmp_path / "wrong.jsonl").write_text(json.dumps(rows[0] | {"final_answer": wrong}))
        with pytest.raises(UserError, match="the answer"):
            sets.load(str(tmp_path / "wrong.jsonl"))


def test_gsm8k_and_svamp_are_read_as_they_are_published(tmp_path: Path) -> None:
    """Invented rows of their shapes."""
    gsm8k = [
        {"question": "2 bags of 3?", "answer": "2*3=<<2*3=6>>6\nThat is 6 # of marbles.\n#### 6"},
        {"question": "A dear one?", "answer": "It costs $<<1000+234=1234>>1,234.\n#### 1,234"},
    ]
    (tmp_path / "gsm8k.jsonl").write_text("\n".join(map(json.dumps, gsm8k)))
    found = sets.load(str(tmp_path / "gsm8k.jsonl")).problems
    assert [(p.answer, p.answer_type) for p in found] == [("6", "math"), ("1234", "math")]
    svamp = [
        {
            "ID": "s-1",
            "Body": "Each of 4 cats has 9 lives",
            "Question": "How many lives are that?",
            "Answer": 36.0,
        }
    ]
    (tmp_path / "svamp.json").write_text(json.dumps(svamp))
    (problem,) = sets.load(str(tmp_path / "svamp.json")).problems
    assert problem.statement == "Each of 4 cats has 9 lives. How many lives are that?"
    assert (problem.id, problem.answer, problem.answer_type) == ("s-1", "36", "integer")
    (tmp_path / "none.jsonl").write_text(
        "\n".join(map(json.dumps, [*gsm8k, gsm8k[0] | {"answer": "6\n####"}]))
    )
    with pytest.raises(UserError, match=r"none\.jsonl: the answer .* in line 3\."):
        sets.load(str(tmp_path / "none.jsonl"))


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"question": "6 of what?", "answer": "2*3=<<2*3=6>>6"}, "answer"),
        ({"question": "6 of what?", "answer": None}, "answer"),
        ({"question": " ", "answer": "#### 6"}, "problem"),
        ({"ID": "s-1", "Body": "4 cats", "Answer": 4.0}, "problem"),
        ({"ID": "s-1", "Body": ["4 cats"], "Question": "How many?", "Answer": 4.0}, "problem"),
        ({"ID": "s-1", "Body": "4 cats", "Question": "How many?"}, "answer"),
        ({"ID": "s-1", "Body": "4 cats", "Question": "How many?", "Answer": math.inf}, "answer"),
        ({"ID": 1.5, "Body": "4 cats", "Question": "How many?", "Answer": 4.0}, "id"),
        ({"unique_id": "a", "problem": "x", "answer": []}, "answer"),
    ],
)
def test_a_malformed_word_problem_is_refused_in_a_line(
    tmp_path: Path, row: dict[str, Any], column: str
) -> None:
    path = parquet(tmp_path / "set.parquet", [row])
    with pytest.raises(UserError, match=rf"set.parquet: .*{column}.* in row 1") as error:
        sets.load(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("reference", ["#### 1,250", "1250.0", 1250.0, 35.0])
def test_right_answers_with_currency_or_unit_count(tmp_path: Path, reference: Any) -> None:
    """35.0 makes a set of type integer, and the others of type math."""
    (tmp_path / "set.json").write_text(json.dumps([{"question": "How much?", "answer": reference}]))
    (problem,) = sets.load(str(tmp_path / "set.json")).problems
    assert problem.answer in ("1250", "35")
    for form in ("{}", "${}", r"\${}", "{} dollars", r"{}\text{{ apples}}", "{}.0", r"\${}.00"):
        assert is_correct(form.format(problem.answer), problem.answer, problem.answer_type), form
    for form in ("{}0", "-{}", "{} thousand", "{}.5"):
        assert not is_correct(form.format(problem.answer), problem.answer, problem.answer_type), (
            form
        )


@pytest.mark.parametrize(
    ("path", "known"), WORD_PROBLEMS, ids=lambda each: getattr(each, "name", "")
)
def test_the_published_word_problems_are_read_whole(path: Path, known: Published) -> None:
    if not path.exists():
        pytest.skip(f"no {path.name} in a folder shared/data beside this checkout")
    found = sets.load(str(path))
    assert len(found.problems) == known.rows and {each.answer_type for each in found.problems} == {
        "math"
    }
    assert known.version(found.sha256) == "as published"
    assert known.settled(found.problems) == found.problems


def test_columns_of_any_kind_are_kept_as_json_can_hold_them(tmp_path: Path) -> None:
    row = {
        "problem": "x?",
        "answer": 1,
        "when": date(2025, 1, 2),
        "nan": math.nan,
        "of": ["a"],
        "blob": b"\xff",
    }
    (found,) = sets.load(str(parquet(tmp_path / "set.parquet", [row]))).problems
    assert found.columns == row | {"when": "2025-01-02", "nan": None, "blob": None}


def test_a_parquet_file_that_is_damaged_or_lacks_a_column_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "set.parquet", PROBLEMS)
    good = path.read_bytes()
    for content in (
        b"",
        b"PAR1",
        good[:-9],
        good[: len(good) // 2],
        b"\x00" * 100,
        b"problem,answer\nx,1\n",
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"set.parquet"):
            sets.load(str(path))
    with pytest.raises(UserError, match=r"set.parquet"):
        sets.load(str(parquet(path, [])))


def test_of_every_kind_of_file_only_the_columns_that_are_wanted_are_read(tmp_path: Path) -> None:
    for path in written(tmp_path, PROBLEMS):
        found = read_rows(path, lambda name: name in ("id", "answer"))
        assert [row for _, row in found] == [
            {"id": row["id"], "answer": row["answer"]} for row in PROBLEMS
        ]


@pytest.mark.skipif(
    not IMO.exists(), reason="no local copy of IMO-AnswerBench beside this checkout"
)
def test_imo_answerbench_is_read_whole_and_every_answer_is_recognised_as_itself(
    tmp_path: Path,
) -> None:
    found = sets.load(str(IMO))
    assert len(found.problems) == 400 == ANSWERBENCH.rows
    assert ANSWERBENCH.versions[found.sha256] == "v2"
    assert {problem.columns["Category"] for problem in found.problems} == {
        "Algebra", "Combinatorics", "Geometry", "Number theory"
    }  # fmt: skip
    for problem in found.problems:
        assert problem.answer and is_correct(problem.answer, problem.answer, problem.answer_type), (
            problem.id
        )
        reply = Completion(
            "key", 0, answer=f"So the answer is \\boxed{{{problem.answer}}}.", finish_reason="stop"
        )
        graded = grade_answers(problem, [Member(reply)])
        assert graded.score == 1.0 and graded.grades[0].value == 1.0, problem.id
    again = parquet(
        tmp_path / "again.parquet", [dict(problem.columns) for problem in found.problems]
    )
    assert sets.load(str(again)).sha256 == found.sha256


@pytest.mark.skipif(
    not IMO.exists(), reason="no local copy of IMO-AnswerBench beside this checkout"
)
def test_the_quote_that_the_published_file_lacks_is_known_and_no_other(tmp_path: Path) -> None:
    text = IMO.read_text(encoding="utf-8")
    loose = tmp_path / "loose.json"  # as readers take it who do not mind
    loose.write_text(json.dumps(list(csv.DictReader(io.StringIO(text)))))
    found = sets.load(str(loose))
    assert found.problems[35].answer == "Algebra" and "broken" in ANSWERBENCH.versions[found.sha256]
    other = tmp_path / "other.csv"
    other.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"other.csv, line 150"):
        sets.load(str(other))
