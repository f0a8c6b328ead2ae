"""Run every script of the labs as a user's process that must have an effect. No script lacks such a
test."""

import importlib
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.base.files import DATA
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from labs.lean import pairs
from labs.training import served
from tests.conftest import ROOT, ended, environment
from tests.fakes.grader import GradingServer
from tests.fakes.server import ScriptedServer
from tests.golden.cases import INPUTS
from tests.golden.running import REPLIES
from tests.harness import test_fleet
from tests.helpers.machine import stand_in
from tests.helpers.runs import answer_texts, load
from tests.helpers.scripts import TESTED, output, runs, script
from tests.labs.lean.small import BASELINE, LEARNED
from tests.labs.lean.small import written as theorems
from tests.labs.lean.test_prepare import benchmark
from tests.labs.training import helpers as training

Read = Callable[[str], list[dict[str, Any]]]
ON_SLURM = test_fleet.test_on_slurm_a_job_that_runs_out_of_time_continues_with_new_servers
# Scripts that tests of other files run in a process.
ELSEWHERE = {
    "slurm/submit.sh": ON_SLURM.__name__,
    "slurm/servers.sbatch": ON_SLURM.__name__,
    "slurm/experiment.sbatch": test_fleet.test_a_job_that_fails_cancels_its_servers.__name__,
}


def test_every_script_is_run_by_a_test() -> None:
    importlib.import_module("tests.test_scripts_run")  # adds its tests to TESTED
    folder = ROOT / "scripts"
    programs = [
        path
        for path in folder.rglob("*.py")
        if '\nif __name__ == "__main__":' in path.read_text("utf-8")
    ]
    shells = [
        path
        for path in folder.rglob("*")
        if path.suffix in (".sh", ".sbatch") and path.name != "common.sh"
    ]
    names = {path.relative_to(folder).as_posix() for path in (*programs, *shells)}
    assert names == {*TESTED, *ELSEWHERE}


def test_every_program_that_is_started_as_a_module_calls_its_main() -> None:
    """A module without this block ends with status 0 and does nothing."""
    sources = [
        *ROOT.glob("scripts/**/*"),
        *ROOT.glob("core/**/*.py"),
        *ROOT.glob("harness/**/*.py"),
        *ROOT.glob("labs/**/*.py"),
        ROOT / "setup.sh",
    ]
    text = "".join(
        path.read_text("utf-8") for path in sources if path.suffix in (".sh", ".sbatch", ".py")
    )
    started = {
        *re.findall(
            r"(?:^module=|python\"? -m )((?:core|harness|labs|scripts)\.[\w.]+\w)", text, re.M
        )
    }
    assert len(started) > 25
    for module in started:
        path = ROOT / module.replace(".", "/")
        path = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
        assert '\nif __name__ == "__main__":\n' in path.read_text("utf-8"), module


@pytest.fixture
def copied(tmp_path: Path) -> Read:
    """Return a function that copies an input of the golden cases, and then one that reads the lines
    of a file here."""
    for path in (ROOT / INPUTS).iterdir():
        shutil.copy(path, tmp_path)
    return lambda name: [
        json.loads(line) for line in (tmp_path / name).read_text("utf-8").splitlines()
    ]


@pytest.fixture
def grader(tmp_path: Path) -> Iterator[GradingServer]:
    with closing(GradingServer()) as server:
        (tmp_path / "strict.toml").write_text(f'base_url = "{server.url}"\nmodel = "strict"\n')
        yield server


@runs("grade.sh", "stats.sh")
def test_grade_writes_points_and_stats_averages_them(
    copied: Read, grader: GradingServer, tmp_path: Path, results: Path
) -> None:
    output("grade.sh", tmp_path / "proofs.jsonl", f"GRADER={tmp_path}/strict.toml")
    points = [row["grade"] for row in copied("proofs.graded.jsonl") if row.get("grades")]
    assert points and grader.asked
    one = tmp_path / "one.graded.jsonl"
    one.write_text(
        json.dumps({"problem": "Show it.", "proof": "So.", "grade": 3, "score": 3 / 7}) + "\n"
    )
    assert "3.00" in output("stats.sh", one)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [("schemes", "grading_scheme", None), ("filter", "difficulty", 7)],
)
@runs("schemes.sh", "filter.sh")
def test_schemes_and_filter_write_what_the_model_says_of_each_row(
    name: str,
    field: str,
    value: object,
    copied: Read,
    grader: GradingServer,
    tmp_path: Path,
    results: Path,
) -> None:
    grader.reply = lambda prompt, seed: REPLIES[name]
    output(f"{name}.sh", tmp_path / "rows.jsonl", f"GRADER={tmp_path}/strict.toml")
    found = [row[field] for row in copied(f"rows.{name}.jsonl") if row[field] is not None]
    assert found and all(value in (None, each) for each in found)


@runs("check_traces.sh")
def test_check_traces_keeps_the_rows_that_pass(copied: Read, tmp_path: Path) -> None:
    output("check_traces.sh", tmp_path / "traces.jsonl", "--kept", tmp_path / "kept.jsonl")
    assert 0 < len(copied("kept.jsonl")) < len(copied("traces.jsonl"))


@runs("traces.sh")
def test_traces_keeps_one_trace_of_each_problem(copied: Read, tmp_path: Path) -> None:
    row = {"instruction": "How much is 6*7?", "output": "6*7=42\nFinal: 42"}
    training.write(tmp_path / "two.jsonl", [row, row, row | {"instruction": "How much is 6*8?"}])
    output("traces.sh", tmp_path / "two.jsonl", "--out", tmp_path / "out.jsonl")
    assert len(copied("out.jsonl")) == 2


@runs("to_hf.sh", "to_gguf.sh")
def test_a_model_is_converted_there_and_back(tmp_path: Path) -> None:
    output("to_hf.sh", DATA / "embedded" / "model.gguf", tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "qwen3"
    output("to_gguf.sh", tmp_path / "model", tmp_path / "f32.gguf", "--type", "f32")
    output("to_gguf.sh", tmp_path / "model", tmp_path / "bf16.gguf", "--type", "bf16")
    assert (tmp_path / "f32.gguf").stat().st_size > (tmp_path / "bf16.gguf").stat().st_size > 10**6


@runs("finetune.sh")
def test_finetune_reads_its_options_before_it_needs_torch(tmp_path: Path) -> None:
    args = ("--model", tmp_path, "--data", tmp_path / "gone.jsonl", "--out", tmp_path / "out")
    done = script("finetune.sh", *args, TRAIN_PYTHON=sys.executable)
    assert done.returncode == 2 and str(tmp_path) in done.stderr


@training.needed
def test_finetune_trains_a_model(tmp_path: Path) -> None:
    rows = training.write(tmp_path / "rows.jsonl", training.rows(4))
    model = DATA / "embedded" / "model.gguf"
    args = (
        "--model",
        model,
        "--data",
        rows,
        "--out",
        tmp_path / "out",
        "--epochs",
        "1",
        "--lora-rank",
        "0",
    )
    output("finetune.sh", *args, TRAIN_PYTHON=str(training.PYTHON))
    assert training.record(tmp_path / "out")


@runs("prepare_lean.sh")
def test_prepare_lean_writes_pairs(results: Path, tmp_path: Path) -> None:
    """Without a Lean, theorems are left out and pairs are not."""
    for name, text in benchmark().items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shown = output("prepare_lean.sh", "--from", tmp_path / "source", LEAN=str(tmp_path / "missing"))
    written = results / "lean" / "prepared"
    assert len(pairs.read(written / "pairs.jsonl")) == 2 and str(written) in shown


@runs("baseline_lean.sh")
@pytest.mark.usefixtures("lean")
def test_baseline_lean_searches_and_prints_its_tables(results: Path, tmp_path: Path) -> None:
    own = (
        *BASELINE,
        f"TRAIN_{theorems(tmp_path, *LEARNED[3:])}",
        "ENERGY=0",
        "INDEX=none",
        "MAX_NODES=2",
    )
    # has all packages that a training needs, but nothing is trained
    stand_in(tmp_path / "bin", python="")
    shown = output("baseline_lean.sh", *own, TRAIN_PYTHON=str(tmp_path / "bin" / "python"))
    assert (
        results / "lean" / "baseline" / "record.json"
    ).is_file() and "solved by number of nodes" in shown


@contextmanager
def started(name: str, *args: str, **changes: str) -> Iterator[str]:
    """Run a script that serves until the block ends, and yield the address that it prints."""
    command = ["bash", str(ROOT / "scripts" / name), *args]
    process = subprocess.Popen(
        command, env=environment(**changes), cwd=ROOT, text=True, process_group=0,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout
    url = re.search(r"http://[\d.:]+/v1", process.stdout.readline())
    try:
        assert url
        yield url[0]
    finally:
        process.send_signal(signal.SIGINT)
        ended(process)


@runs("serve_rsa.sh")
def test_serve_rsa_answers_a_chat_client(results: Path) -> None:
    sizes = ("N=2", "K=2", "T=1")
    with (
        closing(ScriptedServer()) as model,
        started("serve_rsa.sh", "--port", "0", *sizes, BASE_URL=model.url) as url,
    ):
        chat = {
            "model": "rsa/scripted",
            "messages": [{"role": "user", "content": "How much is 6*7?"}],
        }
        asked = json.dumps(chat).encode()
        request = urllib.request.Request(
            f"{url}/chat/completions", asked, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert json.load(reply)["choices"][0]["message"]["content"]
        assert len(model.asked) == 4


@runs("value.sh", "serve_value.sh")
def test_a_value_head_of_one_run_chooses_in_others(results: Path, tmp_path: Path) -> None:
    more = ("PROBLEMS=sums_card", "LIMIT=32", "N=4", "MAX_TOKENS=160", "TEMPERATURE=1")
    output("run.sh", "12_majority", *more, ENGINE="embedded")
    path = tmp_path / "head.json"
    trained = output("value.sh", "12_majority", "--out", path, ENGINE="embedded")
    assert "best of 4 by value" in trained and f"serve_value.sh {path}" in trained
    head = json.loads(path.read_text())
    assert head["run"] == "12_majority" and head["held_out_auc"]["n"] >= 10

    with started("serve_value.sh", str(path), "--port", "0", ENGINE="embedded") as url:
        scoring = {"ENGINE": "embedded", "SCORER_URL": url}
        few = ("PROBLEMS=sums", "LIMIT=6", "MAX_TOKENS=160", "SCORE=reward")
        output("run.sh", "13_best_of", *few, "N=4", **scoring)
        output("run.sh", "28_stepwise", *few, "N=2", "BEAM=2", "STEPS=2", **scoring)

    document = load(results, "13_best_of")
    assert document["scorer"]["model"]["name"].startswith("model-value@")
    assert document["metrics"]["scorer"]["tokens"]["prompt"] > 0
    answers = answer_texts(results, "13_best_of")
    texts = {}
    for problem in document["problems"]:
        _, scored, chosen = problem["steps"]
        scores = [member["self_score"] for member in scored["members"]]
        assert scores[chosen["members"][0]["parents"][0]] == max(scores)
        for member, score in zip(scored["members"], scores, strict=True):
            texts[f"{problem['statement']}\n\n{answers[member['key']].strip()}"] = score
    assert len(texts) > 12 and len(set(texts.values())) > 12
    assert values_by(head["regression"], list(texts), tmp_path) == pytest.approx(
        list(texts.values()), abs=1e-5
    )
    shown = output("report.sh", "13_best_of", "--scores")
    assert re.search(r"AUC within problems +[01]\.\d+ \[", shown), shown
    steps = load(results, "28_stepwise")["problems"][0]["steps"]
    assert all(0 < member["self_score"] < 1 for member in steps[0]["members"])


def values_by(regression: dict[str, Any], texts: list[str], folder: Path) -> list[float]:
    """Compute the values of texts from the embeddings of the embedded model, in plain Python."""
    values = []
    with served.embedding(served.Weights(EMBEDDED_GGUF), folder) as server:
        for text in texts:
            body = json.dumps({"model": server.model, "input": text}).encode()
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(f"{server.base_url}/embeddings", body, headers)
            with urllib.request.urlopen(request, timeout=60) as reply:
                vector = json.load(reply)["data"][0]["embedding"]
            logit = regression["constant"]
            parts = (regression["mean"], regression["scale"], regression["weights"])
            for number, mean, scale, weight in zip(vector, *parts, strict=True):
                logit += weight * (number - mean) / scale
            values.append(1 / (1 + math.exp(-logit)))
    return values


@runs("constants_page.py")
def test_the_page_of_constants_is_written(checkout: Path) -> None:
    command = [sys.executable, "-m", "scripts.constants_page"]
    subprocess.run(
        command, cwd=checkout, env=environment(PYTHONPATH=str(checkout)), check=True, timeout=600
    )
    assert (checkout / "docs" / "constants.md").read_bytes() == (
        ROOT / "docs" / "constants.md"
    ).read_bytes()
