"""The list of all results in a folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from harness.report.report import main
from tests.helpers import reports


@pytest.fixture
def folder(results: Path) -> Path:
    """Write results of three runs that ended one after another, and one partial run."""
    reports.results(results)
    first = json.loads((results / "02_rsa_basic.json").read_text())
    changes: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("01_baseline", "2026-01-03T00:00:00+00:00", {}),
        ("01_baseline.20260101-000000", "2026-01-01T00:00:00+00:00", {}),
        ("07_nomos.partial", "2026-01-02T00:00:00+00:00", {"complete": False}),
    )
    for name, ended, more in changes:
        changed = first | more | {"experiment": name.partition(".")[0], "ended": ended}
        (results / f"{name}.json").write_text(json.dumps(changed))
    (results / "02_rsa_basic.json").write_text(
        json.dumps(first | {"ended": "2026-01-04T00:00:00+00:00"})
    )
    return results


def test_results_are_listed_with_the_newest_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "15_compute_matched").mkdir()
    (folder / "15_compute_matched" / "table.txt").write_text("x\n")
    (folder / "notes.json").write_text("{}")
    main([])
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("---"))
    names = [line.split()[0] for line in lines[rule + 1 : rule + 5]]
    assert names == [
        "02_rsa_basic",
        "01_baseline",
        "07_nomos.partial",
        "01_baseline.20260101-000000",
    ]
    assert "of made-up" in lines[0] and "made up" in lines[rule + 1]
    assert "partial: 07_nomos.partial" in shown and "15_compute_matched" in shown
    assert "notes.json" in shown
    assert "report.sh 02_rsa_basic\n" in shown and "report.sh --all\n" in shown
    assert not list(folder.glob("*.html"))


def test_the_list_fits_a_terminal_and_pastes_as_markdown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if str(folder) not in line) <= 80
    main(["--markdown"])
    assert "| result | set | n | ended | final accuracy |" in capsys.readouterr().out


def test_every_table_of_the_report_pastes_as_markdown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["02_rsa_basic", "01_baseline", "--markdown"])
    shown = capsys.readouterr().out
    assert shown.count("\n| step | mean accuracy |") == 2
    assert "| result | metric | difference |" in shown
    main(["02_rsa_basic", "--transitions", "--markdown"])
    assert "**Transitions**" in capsys.readouterr().out


def test_a_folder_without_results_has_no_list(results: Path) -> None:
    with pytest.raises((SystemExit, UserError)):
        main([])
