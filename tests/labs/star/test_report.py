"""What the report says of runs in rounds (STaR): tables, figures, live; records of anyone."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from harness.report import live
from harness.report.report import main
from labs.star import report as rounds
from labs.training.stages import NAME
from tests.helpers import reports
from tests.helpers.reports import refused
from tests.labs.star.helpers import changed

ARMS = ("star-seed0", "star-seed1", "no_rationalisation-seed0", "no_rationalisation-seed1")


@pytest.fixture
def star(results: Path) -> Path:
    return reports.rounds(results)


# Tables and figures


@pytest.mark.parametrize("labels", [("seed0",), ARMS])
def test_a_terminal_has_what_fits_and_the_file_has_all(
    labels: tuple[str, ...],
    results: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = reports.rounds(results, *labels)
    main(["21_star"])
    whole = capsys.readouterr().out.partition("report  ")[0].strip()
    assert whole == (folder / "table.txt").read_text().strip() and whole.startswith("all runs") == (
        len(labels) > 1
    )
    assert (
        "best: round 2, last: round 2" in whole and "first: wrong" in whole and "unsound" in whole
    )
    assert all(f"{label}: evaluated on 8 problems" in whole for label in labels)
    monkeypatch.setenv("COLUMNS", "80")
    # the figure does not depend on the terminal
    monkeypatch.setattr(rounds, "curves", lambda *given: None)
    main(["21_star"])
    narrow = capsys.readouterr().out
    lines = [
        line
        for line in narrow.splitlines()
        if not line.startswith(("report", "texts", "all figures"))
    ]
    assert max(map(len, lines)) <= 80 and "no room for: " in narrow and "minus round 0" in narrow
    assert all(label in narrow for label in labels) and f"all figures: {folder}" in narrow


def test_markdown_figures_and_lines(
    star: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["21_star", "--markdown"])
    out = capsys.readouterr().out
    assert "| round | right at t=0 | minus round 0 |" in out and "**seed0: dropped samples" in out
    main(["21_star", "--figures"])
    drawn = [results / "figures" / f"rounds.{ending}" for ending in ("png", "svg")]
    assert capsys.readouterr().out == "".join(f"figure  {path}\n" for path in drawn)
    assert "sampled, mean over seeds" in drawn[1].read_text() and drawn[0].stat().st_size > 5000
    main(["21_star", "--jsonl"])
    assert capsys.readouterr().out.count("(8 lines)") == 5
    assert "not 5" in refused(capsys, "21_star", "--jsonl", str(star / "x.jsonl"))


# Runs that go on


def test_a_round_that_has_not_trained_yet_is_there(star: Path) -> None:
    stored = json.loads((star / "seed0" / NAME).read_text())["rounds"]
    del stored[2]["trained"], stored[2]["evaluated"]
    changed(star, rounds=stored, complete=False, last=0)
    text = rounds.show(star)
    assert "last so far: round 1" in text and "seed0 is not complete" in text
    assert next(line for line in text.splitlines() if "samples kept" in line)
    assert any(
        line.split()[-3:] == ["-", "-", "-"]
        for line in text.splitlines()
        if line.split()[:1] == ["2"]
    )


def test_live_shows_the_record_as_the_run_goes_on(star: Path, results: Path) -> None:
    stored = json.loads((star / "seed0" / NAME).read_text())["rounds"]
    (star / "seed0" / NAME).rename(results / "kept")

    def got(port: int, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return str(answer.read().decode())

    with reports.served(live.application(live.Live(["21_star"], results))) as port:
        with pytest.raises(urllib.error.HTTPError, match="503"):
            got(port, "/")
        (results / "kept").rename(star / "seed0" / NAME)
        changed(star, rounds=stored[:1], complete=False, last=None)
        assert "<title>21_star · qed-rsa</title>" in got(port, "/")
        first = json.loads(got(port, "/data"))
        assert len(first["lab"]["runs"][0]["rounds"]) == 1 and first["comparison"] is None
        changed(star, rounds=stored)
        then = json.loads(got(port, "/data"))
        assert len(then["lab"]["runs"][0]["rounds"]) == 3 and len(then["runs"]) == 5


# Records of anyone


@pytest.mark.parametrize("text", ["[]", "{", '{"schema": 1, "rounds": []}'])
def test_what_is_no_record_is_refused(
    star: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (star / "seed0" / NAME).write_text(text)
    assert str(star / "seed0" / NAME) in refused(capsys, "21_star")
