"""Sweeps: their runs, what they share, stops, tables and figures, and bad input."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.base.stats import LEVEL, mean_by_problem
from core.constants import SWEEP
from core.rsa import RSA
from harness import experiment_file, grid
from harness.grid import Grid
from harness.report import report
from harness.report.budgets import Row, pair
from harness.report.equal_compute import Sweep, compared_in, map_of, verdict
from harness.run import run
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import REUSE

SMALL = ("PROBLEMS=sums", "LIMIT=2")
NAME = "99_small_sweep"


def swept(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Sweep RSA as the file of an experiment does."""
    monkeypatch.setattr("sys.argv", ["99_small.py", *words, *SMALL, SWEEP])
    run(RSA, {"__file__": "99_small.py", "T": 1, "K": 2})


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / NAME / "table.jsonl").read_text().splitlines()[1:]
    return {row["scaffold"]: row for row in map(json.loads, lines)}


def lines(folder: Path) -> list[str]:
    """Return the table without the warning that only a second run has."""
    return [line for line in (folder / "table.txt").read_text().splitlines() if REUSE not in line]


def expand(*words: str, name: str = "02_rsa_basic") -> Grid:
    found = experiment_file.load(name)
    scaffold: Any = found.planned
    return grid.expand(scaffold, found.namespace, words)


def test_a_sweep_asks_only_what_no_other_of_its_runs_asks(
    server: ScriptedServer,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    swept(monkeypatch, "N=2,4", "K=2,3", "T=2,1")
    out = capsys.readouterr().out
    # Step 0 of N=4, two steps of each pair of N and K, and nothing for T=1.
    assert len(server.asked) == len(set(server.asked)) <= 2 * (4 + 2 * (2 + 4 + 4))
    assert "N=2,K=3,T=2, N=2,K=3,T=1 (K=3 is larger than N=2)" in out
    found = rows(results)
    assert set(found) == {
        f"N={n},K={k},T={t}"
        for n, k, t in ((2, 2, 2), (2, 2, 1), (4, 2, 2), (4, 2, 1), (4, 3, 2), (4, 3, 1))
    }
    assert [found[f"N=4,K=2,T={t}"]["calls"] for t in (1, 2)] == [8, 12], (
        "a run counts what others have asked for it"
    )
    assert (
        found["N=4,K=3,T=1"]["constants"] == {"N": 4, "K": 3, "T": 1}
        and found["N=4,K=3,T=1"]["budget"] is None
    )
    folder = results / NAME
    assert {"frontier.png", "map.png"} <= {path.name for path in folder.iterdir()}
    table, asked = (folder / "table.txt").read_text(), len(server.asked)
    swept(monkeypatch, "N=2,4", "K=2,3", "T=2,1")
    assert len(server.asked) == asked and [*lines(folder)] == table.splitlines()
    assert isinstance(compared_in(folder), Sweep)
    report.main([NAME])
    assert table.splitlines()[2] in capsys.readouterr().out and (results / f"{NAME}.html").exists()


def test_a_folder_with_other_runs_is_renamed(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept(monkeypatch, "N=2,4", "K=2")
    swept(monkeypatch, "N=2,4,3", "K=2")  # has all runs of the first
    assert [path.name for path in results.glob(f"{NAME}*")] == [NAME]
    swept(monkeypatch, "N=4,3", "K=2")
    (earlier,) = results.glob(f"{NAME}.*")
    assert {path.stem for path in earlier.glob("*.json")} >= {f"N={n}-seed0" for n in (2, 3, 4)}
    assert {path.stem for path in (results / NAME).glob("*.json")} == {"N=3-seed0", "N=4-seed0"}


def test_a_sweep_over_scaffolds_and_temperatures(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sys.argv",
        ["x", "SCAFFOLD=baseline,rsa", "TEMPERATURE=0.6,1", "N=3", "RUNS=2", *SMALL, SWEEP],
    )
    found = experiment_file.load("19_answers")
    run(found.planned, found.namespace | {"__file__": "99_small.py"})  # type: ignore[arg-type]
    assert set(rows(results)) == {
        f"SCAFFOLD={s},TEMPERATURE={t}" for s in ("baseline", "rsa") for t in ("0.6", "1")
    }
    assert len([*(results / NAME).glob("SCAFFOLD=rsa,TEMPERATURE=0_6-seed?.json")]) == 2


@pytest.mark.parametrize(
    "words",
    ["N=", "N=4,", "N=0,4", "Q=1,2", "LIMIT=2,3", "SEED=0,1", "RUNS=1,2", "N=2,3 K=4", "N=1,2 N"],
)
def test_a_bad_sweep_is_refused(words: str) -> None:
    with pytest.raises(UserError):
        expand(*words.split())


def test_a_sweep_has_a_most_of_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (f"N={','.join(map(str, range(1, 1025)))}", "K=1,2,3,4", "T=1,2,3")
    with pytest.raises(grid.TooMany) as error:
        expand(*words)
    assert error.value.count == 12_288 and error.value.last.values == {"N": 1024, "K": 4, "T": 3}
    for engine, is_planned in (("", True), ("embedded", False)):
        monkeypatch.setenv("ENGINE", engine)
        with pytest.raises(SystemExit, match="2"):
            swept(monkeypatch, *words)
        err = capsys.readouterr().err
        assert "12,288" in err and (" hours" in err) == is_planned and err.count("\n") == 1


def test_only_numbers_and_choices_are_lists() -> None:
    runs = expand("N=3,4,3", "CARRY=full,answer", "SYSTEM=Be brief,", "K=3", "T=2,5", "T=1")
    assert [cell.name for cell in runs.cells] == [
        f"N={n},CARRY={c}" for n in (3, 4) for c in ("full", "answer")
    ]
    assert {(cell.config.SYSTEM, cell.config.T) for cell in runs.cells} == {("Be brief,", 1)}  # type: ignore[attr-defined]
    assert expand("MAX_TOKENS=5,9,7").common.MAX_TOKENS == 9
    steps = expand("N=4,8", "T=1,4,2")
    assert [cell.name for cell in steps.asking] == ["N=4,T=4", "N=8,T=4"]
    assert steps.max_completions(steps.common) == (4 + 8) * 5
    assert steps.shared_completions == (4 + 8) * (2 + 3)


def row(name: str, scores: list[float], tokens: float = 1.0) -> Row:
    accuracy = mean_by_problem(scores)
    return Row(name, math.inf, accuracy, 0, {"tokens": tokens}, scores, accuracy)


def test_the_lead_of_the_best_is_corrected_for_all_pairs() -> None:
    found = [row(f"N={n}", [1.0] * (9 + n) + [0.0] * (11 - n), tokens=n) for n in range(1, 9)]
    best = found[-1]
    pair(found, best.name, math.comb(len(found), 2))
    alone = [row("N=1", found[0].scores), row("N=8", best.scores)]
    pair(alone, "N=8", 1)
    assert alone[0].p_holm is not None and found[0].p_holm is not None
    assert alone[0].p_holm < LEVEL < found[0].p_holm == pytest.approx(28 * alone[0].p_holm)
    text = verdict(found, best)
    assert "better than none of the 7" in text and "cheapest of these is N=1 " in text


def test_runs_with_equal_votes_have_no_best() -> None:
    equal = [row("N=1", [0.0] * 5, tokens=2), row("N=2", [0.0] * 5, tokens=1)]
    text = verdict(equal, equal[0])
    assert "none is best" in text and "N=2 (1 tokens)" in text and "better than" not in text


def test_a_map_averages_over_other_constants_and_lacks_what_did_not_run() -> None:
    values = {
        f"{n}{k}{t}": {"N": n, "K": k, "T": t}
        for n, k, t in ((2, 2, 1), (2, 2, 2), (4, 2, 1), (4, 3, 1))
    }
    scores = {"221": [1.0, 0.0], "222": [1.0, 1.0], "421": [0.0, 0.0], "431": [1.0, 1.0]}
    found = map_of([row(name, scores[name]) for name in values], values)
    assert found and (found.names, found.down, found.across) == (("N", "K"), [2, 4], [2, 3])
    assert (
        found.means[0][0] == 0.75 and math.isnan(found.means[0][1]) and found.means[1] == [0.0, 1.0]
    )
    assert map_of([row("1", [1.0])], {"1": {"N": 2}}) is None
