"""STaR, end to end: the real embedded model, the real training, as a user runs it."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.base.files import DATA, sha256
from core.results.data import Results
from core.results.stages import NAME
from labs.star import record as rounds
from labs.star.constants import StarConstants
from labs.star.door import untrained
from labs.star.record import Record
from tests.conftest import ended, run, start
from tests.helpers.once import once

SMALL = ("LIMIT=12", "ROUNDS=2", "TRIES=2", "SEEDS=63", "EPOCHS=1")
TIMES = ("started", "ended", "seconds", "provenance", "peak_memory")


def star(results: Path, *overrides: str, **changes: str) -> tuple[int, str, str]:
    return run("21_star", *overrides, RESULTS_DIR=str(results), **changes)


def record(results: Path, label: str = "seed0") -> Record:
    return rounds.read(results / "21_star" / label / NAME)


def timeless(value: Any) -> Any:
    """The same without what the clock decides."""
    if isinstance(value, dict):
        return {name: timeless(of) for name, of in value.items() if name not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def made(results: Path) -> dict[str, Any]:
    """All that a run has come to but for times: traces and weights, bit by bit."""
    folder = results / "21_star"
    found: dict[str, Any] = {
        str(path.relative_to(folder)): sha256(path)
        for ending in ("traces.jsonl", "model.gguf")
        for path in folder.rglob(ending)
    }
    return found | {"record": timeless(record(results).rounds)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a small run that nothing disturbed."""

    def make(results: Path) -> None:
        status, out, err = star(results, *SMALL)
        assert status == 0, err
        assert "round 2: " in out and "minus round 0" in out

    return once(tmp_path_factory, "star", make)


def test_a_run_leaves_traces_weights_results_a_table_and_a_curve(whole: Path) -> None:
    folder, found = whole / "21_star", record(whole)
    assert found.head["complete"] and len(found.rounds) == 3 and found.head["last"] == 2
    for number in (1, 2):
        of = found.rounds[number]
        rows = [json.loads(line) for line in (folder / f"seed0/round{number}/traces.jsonl").read_text().splitlines()]
        assert len(rows) == of["collected"]["rows"] == of["trained"]["rows"] > 0
        assert {"instruction", "input", "output", "problem", "round", "way", "key"} == set(rows[0])
        assert len({row["problem"] for row in rows}) == len(rows)
        assert (folder / of["trained"]["weights"]).read_bytes()[:4] == b"GGUF"
        assert of["evaluated"]["model"].endswith(of["trained"]["digest"][:12])
    assert (folder / "rounds.png").stat().st_size > 5000
    assert "minus round 0" in (folder / "table.txt").read_text()
    greedy = Results(folder / "seed0-round2.json")
    assert greedy.head.metrics.steps[0].mean_accuracy.value == found.rounds[2]["evaluated"]["accuracy"]["value"]
    assert greedy.completion(greedy.problems[0].steps[0].members[0]).text  # its traces are a click away


def test_no_trace_holds_a_hint_and_no_held_out_problem_is_trained_on(whole: Path) -> None:
    folder = whole / "21_star"
    held_out = {problem.statement for problem in Results(folder / "seed0-round0.json").problems}
    for path in folder.rglob("traces.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            assert "right answer is" not in row["instruction"] + row["output"]
            assert not any(str(statement) in row["instruction"] for statement in held_out)


def test_the_same_command_again_asks_nothing_and_trains_nothing(whole: Path) -> None:
    before = made(whole)
    files = {path: path.stat().st_mtime_ns for path in whole.rglob("model.gguf")}
    status, out, err = star(whole, *SMALL)
    assert status == 0, err
    assert made(whole) == before and {path: path.stat().st_mtime_ns for path in files} == files
    assert "training: " not in out and "training on" not in out


def test_more_rounds_go_on_behind_the_last(whole: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(whole, results)
    status, out, err = star(results, *SMALL, "ROUNDS=3")
    assert status == 0 and out.count("training on") == 1 and "round 3: training on" in out, err
    assert record(results).head["last"] == 3
    assert timeless(record(results).rounds[:3]) == made(whole)["record"]


def test_what_is_gone_or_changed_is_made_again_and_nothing_behind_it(whole: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(whole, results)
    folder = results / "21_star"
    for gone in ("seed0/round1/collected.jsonl", "seed0-round1-collected.json", "seed0-round0.json"):
        (folder / gone).unlink()
    with open(folder / "seed0/round1/trained/model.gguf", "ab") as file:
        file.write(b"more")
    status, out, err = star(results, *SMALL)
    assert status == 0, err
    assert "round 1: what it trained is gone or changed" in out and "round 2: training" not in out
    assert made(results)["record"] == made(whole)["record"] and made(results) == made(whole)
    with open(folder / "seed0/round1/collected.jsonl", "a") as file:
        file.write("{}\n")  # as if by hand
    status, out, err = star(results, *SMALL)
    assert status == 0 and "training on" not in out and made(results) == made(whole), err


def test_a_start_from_the_models_of_the_run_itself_is_refused_and_from_anothers_is_not(
    whole: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(whole, results)
    model = str(results / "21_star" / record(whole).rounds[2]["trained"]["weights"])
    before = sorted(results.rglob("*"))
    status, _, err = star(results, *SMALL, MODEL=model)
    assert status == 2 and err.count("\n") == 1 and "is one of seed0's own" in err and "another SEED" in err, err
    assert sorted(results.rglob("*")) == before
    status, _, err = star(results, *SMALL, "LIMIT=4", "ROUNDS=1", "SEED=1", MODEL=model)
    assert status == 0, err
    assert record(results, "seed1").head["start"]["digest"] == record(whole).rounds[2]["trained"]["digest"]


def test_a_run_that_is_trained_goes_on_on_a_disk_without_room_for_its_models(whole: Path) -> None:
    config = StarConstants(TEMPERATURE=0.7, ROUNDS=100)
    own = record(whole).own
    assert [untrained(own, rounds) for rounds in (1, 2, 3)] == [0, 0, 1] and untrained(whole, config.ROUNDS) == 100


@pytest.mark.parametrize("place", ["21_star", "21_star/seed0"])
def test_a_file_where_a_folder_goes_is_one_line(place: str, tmp_path: Path) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch()
    status, _, err = star(tmp_path, *SMALL)
    assert status == 2 and err.count("error: ") == 1 and f"{tmp_path / place}: writing failed" in err, err
    assert "Traceback" not in err


def _is_collecting(results: Path) -> bool:
    journal = results / "journal" / "21_star.jsonl"
    return journal.exists() and journal.stat().st_size > 30_000


def _is_training(results: Path) -> bool:
    return any((results / "21_star" / "seed0").glob("round1/*trained*"))


def _is_evaluating_the_next(results: Path) -> bool:
    return any((results / "21_star" / "seed0").glob("round1/trained/model.gguf"))


QUICK = ((_is_collecting, signal.SIGKILL), (_is_training, signal.SIGINT), (_is_evaluating_the_next, signal.SIGKILL))


@pytest.mark.parametrize(("moment", "sign"), QUICK)  # more in tests/faults
def test_killed_anywhere_the_same_command_gives_the_same_files(
    moment: Callable[[Path], bool], sign: signal.Signals, whole: Path, tmp_path: Path
) -> None:
    process = start("21_star", *SMALL, RESULTS_DIR=str(tmp_path))
    while process.poll() is None and not moment(tmp_path):
        time.sleep(0.01)
    os.kill(process.pid, sign)
    status, _, err = ended(process)
    assert status in (-sign, 130), err
    assert "Traceback" not in err
    status, _, err = star(tmp_path, *SMALL)
    assert status == 0, err
    assert made(tmp_path) == made(whole)


def test_another_run_under_the_same_seed_puts_the_earlier_one_aside(whole: Path, tmp_path: Path) -> None:
    results = shutil.copytree(whole, tmp_path / "results")
    first = record(results)
    status, out, err = star(results, *SMALL, "ROUNDS=1", "RATE=1e-4")
    assert status == 0 and "was another run" in out, err
    aside = [path for path in (results / "21_star").iterdir() if path.name.startswith("seed0.")]
    assert len(aside) == 1 and rounds.read(aside[0] / NAME).rounds == first.rounds
    kept = Results(aside[0] / "seed0-round1.json")
    assert kept.completion(kept.problems[0].steps[0].members[0]).text
    assert "seed0." not in (results / "21_star" / "table.txt").read_text()


def test_the_smoke_test_of_the_docs(tmp_path: Path) -> None:
    small = ("LIMIT=50", "ROUNDS=1", "SEED=63", "TRIES=1", "TEMPERATURE=0", "MAX_TOKENS=384")
    status, _, err = star(tmp_path, *small)
    assert status == 0, err
    evaluated = record(tmp_path, "seed63").rounds[1]["evaluated"]
    assert evaluated["sampled_accuracy"] is None and evaluated["accuracy"]["n"] == 50


@pytest.mark.parametrize(
    ("overrides", "changes", "said"),
    [
        (["ROUNDS=0"], {}, "ROUNDS=0 is out of range"),
        (["TRIES=4", "TEMPERATURE=0"], {}, "TRIES=4 at TEMPERATURE=0"),
        (["VOTES=4", "TRIES=1", "TEMPERATURE=0"], {}, "VOTES=4 at TEMPERATURE=0"),
        (["MIN_STEPS=9"], {}, "MIN_STEPS=9 is larger"),
        (["SEEDS=70-63"], {}, "SEEDS=70-63"),
        (["LORA_RANK=8"], {}, "GGUF"),
        (["LORA_RANK=many"], {}, "LORA_RANK=many"),
        (["PROBLEMS=sums"], {}, "PROBLEMS says nothing here"),
        (["DATA=nowhere.json"], {}, "nowhere.json"),
        (["DATA=sums", "EVAL=sums"], {}, "sums"),
        ([], {"BASE_URL": "http://127.0.0.1:9/v1"}, "can't change those of the server"),
        ([], {"MODEL": "nowhere"}, "nowhere"),
        (["MAX_DOLLARS=1"], {}, "unknown constant 'MAX_DOLLARS'"),
        (["RUNS=3"], {}, "unknown constant 'RUNS'"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_asked(
    overrides: list[str], changes: dict[str, str], said: str, tmp_path: Path
) -> None:
    status, out, err = star(tmp_path, *overrides, **changes)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert status == 2 and len(lines) == 1 and said in lines[0], (out, err)
    assert "Traceback" not in err and not list(tmp_path.rglob("seed*"))


def test_a_folder_of_traces_none_of_which_is_right_ends_in_one_line(tmp_path: Path) -> None:
    rows = json.loads((DATA / "sums_star.json").read_text())
    wrong = [{"id": f"w{i}", "problem": _statement(row), "answer": "1000000"} for i, row in enumerate(rows[:40])]
    data = tmp_path / "wrong.json"
    data.write_text(json.dumps([row | {"answer": "777"} for row in wrong]))
    only = ("EVAL=sums_star_eval", "LIMIT=8", "ROUNDS=1", "TRIES=1", "SEEDS=63")
    status, _, err = star(tmp_path, f"DATA={data}", *only)
    assert status == 2 and err.count("error: ") == 1 and "no trace" in err, err
    assert "Traceback" not in err


def _statement(row: dict[str, Any]) -> str:
    return str(row.get("problem") or row.get("statement") or row.get("question"))
