"""Comparing results files: text and refusals."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.report import report
from harness.report.compare import Result, main, result, table
from harness.report.data import load
from tests.helpers import documents, reports


def read(name: str, folder: Path) -> Result:
    return result(load(name, folder))


refused = partial(reports.refused, main=main)


def results(means: list[float], majorities: list[float], **fields: Any) -> dict[str, Any]:
    """Return a document with one problem for each mean, solved that often after two steps of 100
    tokens."""
    members, problems = [documents.member(60, side_calls=[documents.cost(40)])], []
    for i, (mean, majority) in enumerate(zip(means, majorities, strict=True)):
        steps = [documents.step(0, members, 0.0, 0.0), documents.step(1, members, mean, majority)]
        problems.append(documents.problem(f"p{i}", steps, answer=str(i), finished=False))
    found = documents.document(
        problems,
        model={"name": "QED-Nano", "revision": "1f"},
        engine={"kind": "sglang"},
        problem_set={"name": "aime_2025", "n": len(problems), "sha256": "ab"},
        metrics={"tokens": {"prompt": 10, "cached": 0, "completion": 1_234_567}},
    )
    for name, value in fields.items():
        found[name] = found[name] | value if isinstance(value, dict) else value
    return dict(found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path))
    save(tmp_path / "01_baseline.json", results([0.25, 0.5, 0.0, 1.0], [0, 0.5, 0, 1]))
    save(tmp_path / "02_rsa_basic.json", results([0.75, 0.5, 0.25, 1.0], [1, 1, 0, 1]))
    return tmp_path


def save(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data), encoding="utf-8")


def test_two_results_are_shown_and_paired(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["01_baseline", "02_rsa_basic"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [lines[4][place] for place in (0, 1, 3, -1)] == ["01_baseline", "4", "43.8", "1,234,567"]
    assert (lines[5][0], lines[5][3], lines[7][-2:]) == ("02_rsa_basic", "62.5", ["4", "problems"])
    assert lines[8][2] == "+18.8" and " ".join(lines[8]).endswith("p 0.500 won 2, lost 0, tied 2")
    assert lines[9][2] == "+37.5" and not any("note:" in line for line in lines)


def test_a_problem_that_ended_early_counts_with_its_last_step_and_its_own_tokens(
    folder: Path,
) -> None:
    early = results([0.75, 0.5, 0.25, 1.0], [1, 1, 0, 1])
    early["problems"][3] |= {"finished": True, "steps": early["problems"][3]["steps"][:1]}
    early["problems"][3]["steps"][0] |= {"mean_accuracy": 1.0, "majority_correct": 1}
    early["problems"][2]["steps"].pop()  # not finished: it did not reach the last step
    early["problems"][1]["steps"].clear()
    save(folder / "04_early.json", early)
    text = table([read(name, folder) for name in ("02_rsa_basic", "04_early")])
    assert (
        "04_early: 2 of 4 problems are graded" in text
        and "over 2 problems" in text
        and "tied 2" in text
    )
    assert "completion tokens  -25.0 [" in text, "100 of 400 tokens were saved"


def test_p_values_of_several_results_are_corrected_and_the_raw_ones_stay(folder: Path) -> None:
    for name, better in (("a", 8), ("b", 9), ("c", 10)):
        save(folder / f"{name}.json", results([0.5] * 10, [0.0] * (10 - better) + [1.0] * better))
    save(folder / "0.json", results([0.5] * 10, [0.0] * 10))
    alone = table([read(name, folder) for name in ("0", "a")])
    assert "Holm" not in alone and "p 0.008 " in alone
    several = table([read(name, folder) for name in ("0", "a", "b", "c")])
    lines = [
        line for line in several.splitlines() if line.startswith("majority") and "Holm" in line
    ]
    assert [line.split("Holm")[1].split()[0] for line in lines] == ["0.031", "0.020", "0.012"], (
        "of six p-values"
    )
    assert [line.split("p ")[1].split()[0] for line in lines] == ["0.008", "0.004", "0.002"]
    assert [line.split(" minus ")[1][:2] for line in several.splitlines() if " minus " in line] == [
        "0,"
    ] * 3


def test_an_unknown_change_in_tokens_is_shown_as_unknown(folder: Path) -> None:
    none = results([0.25, 0.5, 0.0, 1.0], [0, 0.5, 0, 1])
    for problem in none["problems"]:
        problem["steps"] = [documents.step(1, [documents.member(0)])]
    save(folder / "none.json", none)
    for names in (("01_baseline", "none"), ("none", "01_baseline")):
        assert "completion tokens  unknown" in table([read(name, folder) for name in names])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"problem_set": {"name": "sums", "n": 4, "sha256": "cd"}}, "(aime_2025 and sums)"),
        ({"model": {"name": "other"}}, "(QED-Nano and other)"),
        ({"model": {"name": "QED-Nano", "revision": "2e"}}, "(QED-Nano at revision 1f and 2e)"),
    ],
)
def test_other_problems_or_models_are_compared_only_with_anyway(
    folder: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], reason: str
) -> None:
    save(folder / "other.json", results([1, 1, 1, 1], [1, 1, 1, 1], **fields))
    message = refused(capsys, "01_baseline", "other")
    assert reason in message and "--anyway" in message
    main(["01_baseline", "other", "--anyway"])
    out = capsys.readouterr().out
    assert reason in out and "paired over 4 problems" in out
    report.main(["01_baseline", "other"])
    assert "--anyway" in capsys.readouterr().out
    report.main(["01_baseline", "other", "--anyway"])
    assert out.strip() in capsys.readouterr().out


def test_problems_pair_by_id_and_reference_answer(folder: Path) -> None:
    other = results(
        [1, 1, 1, 1], [1, 1, 1, 1], problem_set={"name": "mine", "n": 4, "sha256": "cd"}
    )
    other["problems"][0]["id"] = "new"
    other["problems"][1]["answer"] = "999"  # the same id, and yet another problem
    save(folder / "other.json", other)
    assert "paired over 2 problems" in table(
        [read(n, folder) for n in ("01_baseline", "other")], anyway=True
    )


def test_a_problem_pairs_with_itself_if_its_options_are_shuffled(folder: Path) -> None:
    for name, answer, details in (
        ("plain", "A", {"options": ["42", "24"]}),
        ("shuffled", "B", {"options": ["24", "42"], "order": [1, 0]}),
    ):
        other = results([1.0], [1])
        other["problems"][0] |= {"answer": answer, "details": details}
        save(folder / f"{name}.json", other)
    assert "paired over 1 problem" in table([read(n, folder) for n in ("plain", "shuffled")])


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"model": {"name": "QED-Nano", "revision": None}}, ""),
        ({"engine": {"kind": "vllm"}}, "(sglang and vllm)"),
    ],
)
def test_a_revision_that_is_not_known_passes_and_another_engine_is_noted(
    folder: Path, fields: dict[str, Any], note: str
) -> None:
    save(folder / "other.json", results([1] * 4, [1] * 4, **fields))
    text = table([read(name, folder) for name in ("01_baseline", "other")])
    assert note in text and ("note" in text) == bool(note)


def test_results_that_cannot_be_compared_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "others" in refused(capsys, "01_baseline")
    assert "01_baseline, 02_rsa_basic" in refused(capsys, "01_baseline", "03_typo"), (
        "there are these"
    )
    save(folder / "other.json", results([], []))
    assert "01_baseline and other" in refused(capsys, "01_baseline", "other", "--anyway"), (
        "no problem in common"
    )
    lacking = json.dumps(results([0], [0], problems=[{"id": 1, "steps": [{"step": 0}]}]))
    for content in (
        "{",
        "",
        "[" * 100_000,
        "[]",
        '{"schema": 1}',
        '{"schema": 2}',
        lacking,
        "\udcff\udcfe",
    ):
        (folder / "broken.json").write_text(content, encoding="utf-8", errors="surrogateescape")
        assert "broken" in refused(capsys, "01_baseline", "broken")
    (folder / "folder.json").mkdir()
    assert "folder.json" in refused(capsys, "01_baseline", "folder")
