"""Test the experiments on a real small language model, SmolLM2-135M, as a user runs them.

Only `bash scripts/test.sh models` runs these tests. The first run fetches the model (98 MB). They
check that replies are read and everything is written. What the model can solve belongs to
docs/results.md."""

import json
from pathlib import Path

import pytest

from core.engines import cards
from labs.star import record as rounds
from labs.training.stages import NAME
from tests.conftest import python
from tests.helpers.runs import load
from tests.labs.training import helpers as training
from tests.real.conftest import members

pytestmark = pytest.mark.models

SMALL = ("LIMIT=2", "N=2", "MAX_TOKENS=64")
AGGREGATED = (*SMALL, "K=2", "T=1")
RUNS = {
    "01_baseline": SMALL,
    "02_rsa_basic": AGGREGATED,
    "03_rsa_verify": (*AGGREGATED, "VERIFY_TOKENS=16"),
}
PROOF = {
    "problem": "Show that 4 is even.",
    "model_solution": "4 = 2 * 2, so 4 is twice an integer and hence even.",
    "grading_scheme": "7 points: 4 is written as twice an integer",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


def run(folder: Path, *args: str, **changes: str) -> tuple[int, str, str]:
    """Run a program to its end, without a deadline. Return its status, standard output and standard
    error."""
    process = python(*args, RESULTS_DIR=str(folder), **changes)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.parametrize("name", RUNS)
def test_an_experiment_reads_the_models_answers_in_words(name: str, folder: Path) -> None:
    status, out, err = run(folder, f"experiments/{name}.py", *RUNS[name], MODEL="smollm2")
    assert status == 0, err
    document, file = load(folder, name), cards.named("smollm2").file
    assert file is not None
    assert document["complete"] and document["problem_set"]["name"] == "words[:2]"
    assert (
        document["model"]["sha256"] == file.sha256
        and document["model"]["card"]["name"] == "smollm2"
    )
    assert document["model"]["name"] == file.served_name in out
    found = members(document)
    assert len(found) == 2 * 2 * (2 if "T=1" in RUNS[name] else 1)
    assert document["config"]["ANSWER"] == "text" and all(
        member["completion_tokens"] for member in found
    )
    assert any(str(member["answer"]).isdigit() for member in found), (
        "no answer was read from a reply"
    )


def test_the_page_has_the_table_of_all_runs(folder: Path) -> None:
    status, out, err = run(folder, "-m", "harness.report.report", *RUNS)
    assert status == 0, err
    page = max(folder.glob("*.html"), key=lambda path: path.stat().st_mtime)
    assert all(name in out and name in page.read_text() for name in RUNS)


def test_it_grades_a_proof(folder: Path) -> None:
    """A model this small often states no points. The grading then counts as missing."""
    path = folder / "proofs.jsonl"
    path.write_text(json.dumps(PROOF) + "\n")
    command = (
        "-m",
        "labs.proofs.grade.cli",
        str(path),
        "GRADER=smollm2",
        "MAX_TOKENS=64",
        "GRADES=1",
    )
    status, _, err = run(folder, *command)
    assert status == 0, err
    graded = json.loads((folder / "proofs.graded.jsonl").read_text())
    assert graded.items() >= PROOF.items() and graded["grade_cost"]["output_tokens"] > 0
    assert graded["grade"] in range(8) or graded["ungraded"]


@training.needed
def test_star_trains_a_round_and_evaluates_it(folder: Path) -> None:
    """The training problems are easy, because a round without a right sample ends the run."""
    sets = {
        "train": ("marbles", "pens", "cards", "shells", "coins", "books"),
        "eval": ("stamps", "apples"),
    }
    for name, things in sets.items():
        asked = "Ben has {n} {thing}. Ada gives Ben 1 more. How many {thing} does Ben have now?"
        rows = [
            {"problem": asked.format(n=n, thing=t), "answer": n + 1}
            for n, t in enumerate(things, start=2)
        ]
        (folder / f"{name}.json").write_text(json.dumps(rows))
    data = (f"DATA={folder}/train.json", f"EVAL={folder}/eval.json", "LIMIT=0", "TRAIN_PROBLEMS=6")
    small = ("ROUNDS=1", "TRIES=4", "SEEDS=63", "EPOCHS=1", "MAX_TOKENS=64")
    status, _, err = run(folder, "experiments/21_star.py", *data, *small, MODEL="smollm2")
    assert status == 0, err
    record = rounds.read(folder / "21_star" / "seed0" / NAME)
    assert record.head["complete"] and record.head["last"] == 1
    assert record.rounds[1]["collected"]["rows"] == record.rounds[1]["trained"]["rows"] > 0
    assert (folder / "21_star" / record.rounds[1]["trained"]["weights"]).exists()
    assert [record.rounds[number]["evaluated"]["accuracy"]["n"] for number in (0, 1)] == [2, 2]
