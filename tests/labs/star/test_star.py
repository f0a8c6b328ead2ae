"""STaR, end to end: the real embedded model, the real training, as a user runs it."""

import json
import shutil
from pathlib import Path

import pytest

from core import constants
from core.base.errors import UserError
from core.base.files import DATA
from core.engines import card_file
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from harness.report.data import Results
from labs.star import record as rounds
from labs.star.constants import StarConstants
from labs.star.experiment import beginning
from labs.training import served
from labs.training.stages import NAME
from tests.helpers.machine import stand_in
from tests.labs.star.helpers import SMALL, outcome, record, star


def test_a_run_leaves_traces_weights_results_a_table_and_a_curve(whole: Path) -> None:
    folder, found = whole / "21_star", record(whole)
    assert found.head["complete"] and len(found.rounds) == 3 and found.head["last"] == 2
    for number in (1, 2):
        of = found.rounds[number]
        rows = [
            json.loads(line)
            for line in (folder / f"seed0/round{number}/traces.jsonl").read_text().splitlines()
        ]
        assert len(rows) == of["collected"]["rows"] == of["trained"]["rows"] > 0
        assert {"instruction", "input", "output", "problem", "round", "way", "key"} == set(rows[0])
        assert len({row["problem"] for row in rows}) == len(rows)
        assert (folder / of["trained"]["weights"]).read_bytes()[:4] == b"GGUF"
        assert of["evaluated"]["model"].endswith(of["trained"]["digest"][:12])
    assert (folder / "rounds.png").stat().st_size > 5000
    assert "minus round 0" in (folder / "table.txt").read_text()
    greedy = Results(folder / "seed0-round2.json")
    assert (
        greedy.head.metrics.steps[0].mean_accuracy.value
        == found.rounds[2]["evaluated"]["accuracy"]["value"]
    )
    # its traces are a click away
    assert greedy.completion(greedy.problems[0].steps[0].members[0]).text


def test_no_trace_holds_a_hint_and_no_held_out_problem_is_trained_on(whole: Path) -> None:
    folder = whole / "21_star"
    held_out = {problem.statement for problem in Results(folder / "seed0-round0.json").problems}
    for path in folder.rglob("traces.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            assert "right answer is" not in row["instruction"] + row["output"]
            assert not any(str(statement) in row["instruction"] for statement in held_out)


# Resuming


def test_what_is_gone_or_changed_is_made_again_and_nothing_behind_it(
    whole: Path, tmp_path: Path
) -> None:
    results = shutil.copytree(whole, tmp_path / "results")
    folder = results / "21_star"
    for gone in (
        "seed0/round1/collected.jsonl",
        "seed0-round1-collected.json",
        "seed0-round0.json",
    ):
        (folder / gone).unlink()
    with open(folder / "seed0/round1/trained/model.gguf", "ab") as file:
        file.write(b"more")
    with open(folder / "seed0/round2/collected.jsonl", "a") as file:
        file.write("{}\n")  # as if by hand
    # Trains as before: tests/labs/training/test_loop.py shows that equal rows give equal bits.
    made = whole / "21_star/seed0/round1"
    # behind --data and --out
    train = f'cmp "$6" {made}/traces.jsonl && cp -r {made}/trained "${{@: -1}}"'
    stand_in(tmp_path / "bin", train=f'[ "$1" = -c ] && exit; {train}')
    status, out, err = star(results, *SMALL, TRAIN_PYTHON=str(tmp_path / "bin" / "train"))
    assert status == 0, err
    assert "round 1: training on" in out and out.count("training on") == 1
    assert outcome(results) == outcome(whole)


def test_another_run_puts_the_earlier_one_aside_starts_from_its_model_and_needs_right_traces(
    whole: Path, tmp_path: Path
) -> None:
    results = shutil.copytree(whole, tmp_path / "results")
    first, other = record(results), results / "21_star" / "seed7"
    other.mkdir()
    model = shutil.copy(results / "21_star" / first.rounds[2]["trained"]["weights"], other)
    rows = json.loads((DATA / "sums_star.json").read_text())[:40]
    data = tmp_path / "wrong.json"
    data.write_text(json.dumps([{"problem": row["problem"], "answer": "777"} for row in rows]))
    greedy = ("EVAL=sums_star_eval", "LIMIT=4", "ROUNDS=1", "TRIES=1", "TEMPERATURE=0")
    status, _, err = star(results, f"DATA={data}", *greedy, MODEL=str(model))
    assert status == 2 and err.count("error: ") == 1 and "round 1" in err and "wrong" in err, err
    found = record(results)
    assert found.head["start"]["digest"] == first.rounds[2]["trained"]["digest"]
    assert found.rounds[0]["evaluated"]["model"].endswith(first.rounds[2]["trained"]["digest"][:12])
    assert found.rounds[0]["evaluated"]["sampled_accuracy"] is None
    aside = [path for path in (results / "21_star").iterdir() if path.name.startswith("seed0.")]
    assert len(aside) == 1 and rounds.read(aside[0] / NAME).rounds == first.rounds
    kept = Results(aside[0] / "seed0-round1.json")
    assert kept.completion(kept.problems[0].steps[0].members[0]).text
    assert [each.run_folder for each in rounds.records(results / "21_star")] == [found.run_folder]


def test_a_start_from_a_model_of_the_run_itself_is_refused(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = whole / "21_star" / record(whole).rounds[2]["trained"]["weights"]
    monkeypatch.setenv("RESULTS_DIR", str(whole))
    monkeypatch.setenv("MODEL", str(model))
    before = sorted(whole.rglob("*"))
    with (
        pytest.raises(UserError, match=str(model)),
        beginning("21_star", {"seed0": StarConstants()}),
    ):
        pass
    assert sorted(whole.rglob("*")) == before


def test_a_finished_run_needs_no_packages_for_training(whole: Path, tmp_path: Path) -> None:
    results = shutil.copytree(whole, tmp_path / "results")
    status, _, err = star(results, *SMALL, TRAIN_PYTHON="nowhere/python")
    assert status == 0 and outcome(results) == outcome(whole), err
    status, out, err = star(results, *SMALL, "ROUNDS=3", TRAIN_PYTHON="nowhere/python")
    assert status == 2 and "TRAIN_PYTHON=nowhere/python" in err and "samples, of which" not in out
    found = record(whole)
    assert not found.is_ended(3)
    found.head["ended_by"] = "PATIENCE"
    assert found.is_ended(3)


# Refusals


@pytest.mark.parametrize(
    "overrides",
    [
        *(
            "ROUNDS=0",
            "TRIES=4 TEMPERATURE=0",
            "VOTES=4 TRIES=1 TEMPERATURE=0",
            "MIN_STEPS=9",
            "SEEDS=70-63",
        ),
        *("LORA_RANK=many", "RUNS=3"),
    ],
)
def test_constants_that_can_not_be_are_refused(overrides: str) -> None:
    with pytest.raises(UserError, match=overrides.partition("=")[0]):
        constants.read(StarConstants, {}, overrides.split())


def test_weights_that_are_elsewhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match="127.0.0.1:9"):
        served.first()
    monkeypatch.delenv("BASE_URL")
    monkeypatch.setenv("MODEL", "nowhere")
    with pytest.raises(UserError, match="MODEL=nowhere"):
        served.first()


def test_a_card_s_file_is_converted_once_to_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gguf = shutil.copy(EMBEDDED_GGUF, tmp_path / "small.v1.gguf")
    monkeypatch.setattr(card_file, "fetch", lambda file: gguf)
    monkeypatch.setenv("MODEL", "smollm2")
    first = served.first()
    assert first.path == tmp_path / "small.v1" and not first.is_gguf
    config = (first.path / "config.json").stat()
    assert served.first() == first and (first.path / "config.json").stat() == config


def test_bad_input_is_one_line_before_anything_is_asked(tmp_path: Path) -> None:
    status, _, err = star(tmp_path, "LORA_RANK=8")  # of a GGUF file
    assert status == 2 and err.count("error: ") == err.count("\n") == 1 and "model.gguf" in err, err
    assert not list(tmp_path.rglob("seed*"))
