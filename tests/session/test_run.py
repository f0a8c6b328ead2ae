"""Experiments as a user runs them: end to end on the real engine, killed and resumed, and given wrong input."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.conftest import ROOT, python, run, start
from tests.results.test_results import SCHEMA

SMALL = ("LIMIT=2", "T=2", "MAX_TOKENS=300")
SMALLER = (*SMALL, "N=4", "K=2")
TIMES = {"started", "ended", "seconds", "generation_seconds", "cached_tokens", "cached", "reused", "reused_by"}
REUSE = " from the journal were matched by "  # in a warning


def load(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    jsonschema.validate(document, SCHEMA)
    return document


def timeless(value: Any) -> Any:
    """`value` without its times, cached tokens (which depend on who came first) and what came from the journal: what a
    resumed run must equal."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in TIMES}
    if isinstance(value, list):
        return [timeless(item) for item in value if not (isinstance(item, str) and REUSE in item)]
    return value


def journal_lines(folder: Path, name: str) -> list[str]:
    return (folder / "journal" / f"{name}.jsonl").read_text().splitlines()


def test_rsa_runs_end_to_end_and_says_what_it_ran_on(results: Path) -> None:
    status, out, err = run("02_rsa_basic", *SMALL)
    assert status == 0, err
    first = out.splitlines()[0]
    assert "llama.cpp" in first and "no NVIDIA GPU" in first and "not QED-Nano and not AIME" in first
    assert "mean accuracy" in out and "majority accuracy" in out and "02_rsa_basic.json" in out
    document = load(results, "02_rsa_basic")
    assert document["complete"] and document["config"]["N"] == 8 and len(document["problems"]) == 2
    assert [len(p["steps"]) for p in document["problems"]] == [3] * 2
    assert document["problem_set"]["name"] == "sums[:2]" and document["model"]["embedded"]
    assert (results / "02_rsa_basic.png").read_bytes()[:4] == b"\x89PNG"
    assert "100%" in err and "tok/s" in err and re.search(r"mean accuracy [0-9.]+% at t=2, n=2", err)
    last = out.splitlines()[-1]
    assert re.fullmatch(r"final: majority [0-9.]+ \[.*\], [+-][0-9.]+ over step 0's vote, [0-9.]+k tokens, \d+ s", last)


def test_raising_t_reuses_every_earlier_step_and_a_repeated_run_asks_nothing(results: Path) -> None:
    assert run("02_rsa_basic", *SMALLER, "T=1")[0] == 0
    short, lines = load(results, "02_rsa_basic"), journal_lines(results, "02_rsa_basic")
    assert run("02_rsa_basic", *SMALLER)[0] == 0
    longer, more = load(results, "02_rsa_basic"), journal_lines(results, "02_rsa_basic")
    assert more[: len(lines)] == lines and len(more) == len(lines) + 2 * 4
    for before, after in zip(short["problems"], longer["problems"], strict=True):
        assert after["steps"][:2] == before["steps"]
    assert run("02_rsa_basic", *SMALLER)[0] == 0
    again = load(results, "02_rsa_basic")
    assert journal_lines(results, "02_rsa_basic") == more and again["problems"] == longer["problems"]
    assert len(list(results.glob("02_rsa_basic.2*.json"))) == 2, "earlier results are kept"


def test_the_baseline_gives_pass_at_k_and_is_step_0_of_rsa(results: Path) -> None:
    status, out, err = run("01_baseline", "LIMIT=2", "MAX_TOKENS=300")
    assert status == 0 and "pass@8" in out, err
    baseline = load(results, "01_baseline")
    assert len(baseline["metrics"]["steps"]) == 1
    assert list(baseline["metrics"]["final"]["pass_at_k"]) == [str(k) for k in range(1, 9)]
    assert run("02_rsa_basic", "LIMIT=2", "T=1", "MAX_TOKENS=300")[0] == 0
    assert len(journal_lines(results, "02_rsa_basic")) == 2 * 8, "step 0 came from the baseline's journal"
    rsa = load(results, "02_rsa_basic")
    assert [p["steps"][0] for p in rsa["problems"]] == [p["steps"][0] for p in baseline["problems"]]


@pytest.mark.parametrize("mode", ["verdict", "p_true"])
def test_verification_scores_stand_in_the_results(results: Path, mode: str) -> None:
    status, out, err = run("03_rsa_verify", "LIMIT=2", "T=1", "MAX_TOKENS=300", f"VERIFY_MODE={mode}")
    assert status == 0 and "verification: AUC" in out, err
    document = load(results, "03_rsa_verify")
    members = document["problems"][0]["steps"][0]["members"]
    assert all(len(m["verdicts"]) == 1 and m["checks"] for m in members)
    assert all("verdicts" not in m for m in document["problems"][0]["steps"][1]["members"])
    assert document["metrics"]["verification"]["selections"] == 2
    if mode == "p_true":
        assert document["metrics"]["checks"]["truncated"] == 0 and "hit the token cap" not in out


def test_ctrl_c_writes_partial_results_and_the_run_can_go_on(results: Path) -> None:
    process = start("02_rsa_basic", "LIMIT=8", "T=5", "MAX_TOKENS=300")
    journal = results / "journal" / "02_rsa_basic.jsonl"
    while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= 30):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err, err
    assert "Run the same command again" in out
    document = load(results, "02_rsa_basic.partial")
    assert not document["complete"] and any("partial run" in w for w in document["warnings"])
    assert not (results / "02_rsa_basic.json").exists()


def test_partial_results_are_whole_at_every_moment_and_the_last_hold_what_they_held(results: Path) -> None:
    program = f"""
import runpy, sys
from core.session import experiment
experiment.SAVE_SECONDS = 0.0  # save after every step; in a long run, 2% of the time goes to it
experiment.SAVE_SHARE = 1.0
sys.argv = ["02_rsa_basic.py", *{SMALLER}, "LIMIT=4", "T=3"]
runpy.run_path({str(ROOT / "experiments" / "02_rsa_basic.py")!r}, run_name="__main__")
"""
    process = python("-c", program)
    seen: list[dict[str, Any]] = []
    while process.poll() is None:
        if (results / "02_rsa_basic.partial.json").exists():
            with suppress(FileNotFoundError):  # the run has just ended
                seen.append(json.loads((results / "02_rsa_basic.partial.json").read_text()))
        time.sleep(0.02)
    assert process.communicate()[1] and process.returncode == 0
    sizes = [sum(step["problems"] for step in document["metrics"]["steps"]) for document in seen]
    jsonschema.validate(seen[len(seen) // 2], SCHEMA)
    assert len(set(sizes)) > 2 and sizes == sorted(sizes), "it grows"
    whole = load(results, "02_rsa_basic")
    final = {problem["id"]: problem["steps"] for problem in whole["problems"]}
    for document, size in zip(seen, sizes, strict=True):
        steps = {problem["id"]: problem["steps"] for problem in document["problems"]}
        assert all(final[id][: len(made)] == made for id, made in steps.items())
        assert not document["complete"] and sum(map(len, steps.values())) == size, "figures and rows are of one moment"
    assert not (results / "02_rsa_basic.partial.json").exists()


def test_a_second_run_on_the_same_journal_is_refused(results: Path) -> None:
    process = start("02_rsa_basic", "LIMIT=8", "T=5", "MAX_TOKENS=300")
    while process.poll() is None and not (results / "journal" / "02_rsa_basic.jsonl").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    status, _, err = run("02_rsa_basic", *SMALL)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert status == 2 and err.startswith("error: another run is writing") and err.count("\n") == 1
    assert process.returncode == 130


def test_a_problem_file_of_ones_own_with_answers_that_are_no_integers(results: Path, tmp_path: Path) -> None:
    rows = [{"problem": "What is 1/2 + 1/3?", "answer": "5/6"}, {"problem": "2+2?", "answer": 4}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    status, out, err = run("02_rsa_basic", "T=1", "MAX_TOKENS=100", PROBLEMS=str(tmp_path / "mine.jsonl"))
    assert status == 0 and "2 problems of mine" in out, err
    assert load(results, "02_rsa_basic")["problem_set"]["name"] == "mine"


@pytest.mark.parametrize(
    ("overrides", "changes", "words"),
    [
        (["K=9"], {}, "K=9 is larger than N=8"),
        (["M=3"], {}, "unknown constant 'M'"),
        (["N=x"], {}, "N=x is not a whole number"),
        (["PROBLEMS=nowhere.json"], {}, "can't be read"),
        (["PROBLEMS=aime_1999"], {}, "unknown problem set"),
        ([], {"BASE_URL": "http://127.0.0.1:9/v1"}, "no server answers at BASE_URL"),
        ([], {"RESULTS_DIR": "/dev/null/results"}, "Set RESULTS_DIR"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    results: Path, overrides: list[str], changes: dict[str, str], words: str
) -> None:
    status, out, err = run("02_rsa_basic", *overrides, **changes)
    assert status == 2 and err.startswith("error: ") and err.count("\n") == 1 and words in err
    assert "Traceback" not in err + out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"PORT": "http"}, "PORT=http is not a port"),
        ({"BASE_URL": "http://[::1"}, "BASE_URL"),
        ({"BASE_URL": "http://me:pass-word@127.0.0.1:9"}, "user name or a password"),
        ({"API_KEY": "sk-sécret"}, "API_KEY holds a character that no key has"),
        ({"API_KEY": "sk secret"}, "API_KEY holds a character that no key has"),
    ],
)
def test_a_bad_environment_is_one_line_without_secrets(results: Path, changes: dict[str, str], words: str) -> None:
    status, out, err = run("02_rsa_basic", *SMALL, **changes)
    assert status == 2 and words in err and err.count("\n") == 1
    assert not any(secret in out + err for secret in ("pass-word", "sécret", "sk secret"))


def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(results: Path) -> None:
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"), "http://127.0.0.1:9")
    status, _, err = run("02_rsa_basic", "LIMIT=1", "T=0", "MAX_TOKENS=300", API_KEY="key-from-a-file\n", **proxies)
    assert status == 0, err
    assert not any("key-from-a-file" in path.read_text("latin-1") for path in results.rglob("*.json*"))


def test_another_program_on_the_port_is_no_server_of_models(results: Path) -> None:
    other = [sys.executable, "-m", "http.server", "29877", "--bind", "127.0.0.1"]
    process = subprocess.Popen(other, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=results)
    try:
        while process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", 29877)):
                break
        status, out, err = run("02_rsa_basic", "LIMIT=1", "T=0", "MAX_TOKENS=300", PORT="29877")
        assert status == 0 and "no server of models answers on port 29877" in out, err
    finally:
        process.kill()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_moment_of_the_start_ends_the_run_without_a_traceback(results: Path, sign: int) -> None:
    for moment in (0.9, 1.1, 1.4):
        process = start("02_rsa_basic", "LIMIT=8", "T=5", "MAX_TOKENS=300")
        time.sleep(moment)
        process.send_signal(sign)
        out, err = process.communicate(timeout=120)
        if process.returncode != -sign and "KeyboardInterrupt" not in err:  # so early that Python read the imports
            assert process.returncode == 130 and "stopped" in out + err


def test_a_bug_of_ours_still_raises(tmp_path: Path, results: Path) -> None:
    broken = tmp_path / "09_broken.py"
    source = (ROOT / "experiments" / "02_rsa_basic.py").read_text()
    broken.write_text(
        source.replace("run(RSA,", "run(replace(RSA, run=lambda *_: 1 / 0),").replace(
            "from core.session.run", "from dataclasses import replace\n\nfrom core.session.run"
        )
    )
    done = subprocess.run(
        [sys.executable, str(broken), "LIMIT=1"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PORT": "29871"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


def script(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["bash", "scripts/run.sh", *args], capture_output=True, text=True, cwd=ROOT)


def test_run_without_a_name_lists_the_experiments_with_their_first_lines() -> None:
    done = script()
    assert done.returncode == 0
    for file in sorted((ROOT / "experiments").glob("[0-9]*.py")):
        line = next(line for line in done.stdout.splitlines() if line.split()[:1] == [file.stem])
        assert len(line.split(None, 1)[1]) > 20


def test_an_unknown_experiment_is_told_the_known_ones() -> None:
    done = script("99_nothing")
    assert done.returncode == 2 and "02_rsa_basic" in done.stderr and done.stderr.count("\n") == 1


def test_waits_give_accuracy_against_waits_and_begin_at_the_baselines_samples(results: Path) -> None:
    few = ("LIMIT=2", "MAX_TOKENS=600", "N=2")
    assert run("01_baseline", *few)[0] == 0
    status, out, err = run("17_waits", *few, "WAITS=1")
    assert status == 0 and "gain over none" in out, err
    document, baseline = load(results, "17_waits"), load(results, "01_baseline")
    none, once = document["metrics"]["steps"][0]["waits"]
    plain = baseline["metrics"]["steps"][0]
    assert none["mean_accuracy"] == plain["mean_accuracy"] and none["completion_tokens"] == plain["completion_tokens"]
    assert once["waited"] == 4 and once["completion_tokens"] > none["completion_tokens"]
    for before, after in zip(baseline["problems"], document["problems"], strict=True):
        for m, n in zip(before["steps"][0]["members"], after["steps"][0]["members"], strict=True):
            assert n["before_waits"][0]["answer"] == m["answer"] and m["key"] != n["key"]
    assert len(journal_lines(results, "17_waits")) == 4, "one wait for each sample of the baseline's journal"
    assert run("17_waits", *few, "WAITS=1")[0] == 0 and len(journal_lines(results, "17_waits")) == 4
    assert timeless(load(results, "17_waits")["problems"]) == timeless(document["problems"])
