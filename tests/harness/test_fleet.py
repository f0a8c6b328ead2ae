"""Test servers on Slurm: the real gateway with real servers, killed during a run, and Slurm's
scripts, run here."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from core.base.errors import UserError
from core.engines import process
from core.engines.protocol import Server
from harness import fleet
from tests.conftest import ROOT, run
from tests.helpers.machine import stand_in
from tests.helpers.processes import eventually
from tests.helpers.slurm import KEY, SUBMIT, ended, slurm, submit

pytest.importorskip("sglang_router", reason="the gateway is not installed: bash setup.sh fleet")
__all__ = ["slurm"]  # a fixture
EXPERIMENT = "02_rsa_basic"
SMALL = ("LIMIT=1", "N=8", "K=2", "T=1", "MAX_TOKENS=120", "CONCURRENCY=12")
GENERATIONS = 8 * 2


def answers(results: Path) -> dict[str, str]:
    """Return the answers in a run's journal by their keys, after a check that none failed and none
    is there twice."""
    journal = results / "journal" / f"{EXPERIMENT}.jsonl"
    lines = (
        [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    )
    answers = {line["key"]: line["completion"]["answer"] for line in lines}
    assert len(answers) == len(lines) and not any(line["completion"]["error"] for line in lines)
    return answers


def test_a_server_that_ends_is_unregistered_and_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Server
) -> None:
    file = tmp_path / "fleet" / "0"
    seen = []

    @contextmanager
    def start(*_: object, port: int, wanted: object) -> Iterator[Server]:
        seen.append(file.exists())
        yield Server(
            "vllm",
            f"http://127.0.0.1:{port}/v1",
            "m",
            "x",
            failure=lambda: f"ended: {file.read_text()}",
        )

    monkeypatch.setattr(fleet, "start", start)
    with pytest.raises(UserError, match="ended: http://127.0.0.1"):
        fleet.serve(file)
    assert seen == [False] * fleet.STARTS and not file.exists()
    monkeypatch.setenv("BIND", "0.0.0.0")
    with pytest.raises(UserError, match=r"BIND=0\.0\.0\.0"):
        fleet.serve(file)


def test_refused_requests_are_passed_on_and_do_not_close_a_server(
    engine: Server, tmp_path: Path
) -> None:
    """The gateway's circuit breaker would close it after ten of them, and its retries would send
    each five times."""
    port = process.free_port()
    metrics = process.free_port()
    root = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "harness.fleet", "gateway"]
    args = [*command, "127.0.0.1", str(port), str(metrics)]
    (tmp_path / "0").write_text(engine.base_url.removesuffix("/v1"))
    # reading the certificates takes longer than a request
    web = httpx2.Client(verify=False, timeout=60)
    with web, process.running("the gateway", args, port, tmp_path / "log") as held:
        held.wait_until(lambda: fleet.follow(root, tmp_path) or None, 60)
        for tokens, status in [(4000, 400)] * 12 + [(1, 200)]:
            asked = {
                "model": engine.model,
                "messages": [{"role": "user", "content": "1 " * tokens}],
                "max_tokens": 1,
            }
            assert web.post(f"{root}/v1/chat/completions", json=asked).status_code == status
        text = web.get(f"http://127.0.0.1:{metrics}/metrics").text
        assert re.findall(r"smg_router_requests_total\{[^}]*\} (\d+)", text) == ["13"]
        (tmp_path / "0").unlink()
        assert eventually(lambda: not fleet.follow(root, tmp_path))


# Slurm's scripts


def test_the_shell_scripts_pass_shellcheck() -> None:
    scripts = [*ROOT.glob("*.sh"), *ROOT.glob("scripts/*.sh"), *SUBMIT.parent.iterdir()]
    assert len(scripts) >= 8
    done = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), *scripts], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.faults
def test_on_slurm_a_job_that_runs_out_of_time_continues_with_new_servers(
    slurm: dict[str, str], results: Path
) -> None:
    done = submit(slurm, EXPERIMENT, *SMALL)
    assert done.returncode == 0, done.stderr
    assert (
        "servers: job array 1001. 02_rsa_basic: job 1002" in done.stdout
        and "scancel 1002 1001" in done.stdout
    )
    state = Path(slurm["SLURM_STAND_IN"])
    assert eventually(lambda: len(answers(results)) >= 5)
    # as --signal=B:USR1@120 asks for
    os.kill(int((state / "1002.pids").read_text()), signal.SIGUSR1)
    assert eventually(
        lambda: (results / f"{EXPERIMENT}.json").exists() and ended(slurm, "1001", "1002", "1003")
    )
    jobs = [json.loads(line) for line in (state / "jobs.jsonl").read_text().splitlines()]
    servers = "servers.sbatch"
    experiment = "experiment.sbatch"
    assert [Path(job["script"]).name for job in jobs] == [servers, experiment, servers]
    assert jobs[0]["options"]["array"] == jobs[2]["options"]["array"] == "0-1"
    assert jobs[1]["options"]["dependency"] == "after:1001" and "requeue" in jobs[1]["options"]
    asked = (state / "log").read_text()
    assert "scontrol requeue 1002" in asked and "scancel 1001" in asked and "scancel 1003" in asked
    assert json.loads((results / f"{EXPERIMENT}.json").read_text())["complete"]
    assert len(answers(results)) == GENERATIONS
    log = (results / "fleet" / "slurm-1002.log").read_text()
    assert log.count("2 of 2 servers answer") == 2 and "a gateway in front of 2 servers" in log
    assert "completions reused" in log and "Traceback" not in log
    assert not list(results.glob("fleet/slurm-100?/*")), "no server stays registered"
    assert KEY not in asked + "".join(
        path.read_text("latin-1") for path in results.rglob("*") if path.is_file()
    )


def test_a_job_that_fails_cancels_its_servers(slurm: dict[str, str], results: Path) -> None:
    command = [
        "bash",
        str(SUBMIT.with_name("experiment.sbatch")),
        "1001",
        "2",
        "bash",
        "scripts/run.sh",
        EXPERIMENT,
    ]
    done = subprocess.run(
        command, env=slurm | {"API_KEY": " "}, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "scancel 1001" in (Path(slurm["SLURM_STAND_IN"]) / "log").read_text()


def test_on_slurm_a_killed_server_loses_and_changes_nothing_and_a_cancelled_run_saves_what_it_has(
    slurm: dict[str, str], results: Path, tmp_path: Path, engine: Server
) -> None:
    status, _, err = run(
        EXPERIMENT, *SMALL, RESULTS_DIR=str(tmp_path / "alone"), BASE_URL=engine.base_url
    )
    assert status == 0, err
    alone = answers(tmp_path / "alone")
    # not for our servers
    dead = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")
    assert submit(slurm | dead, EXPERIMENT, *SMALL, "T=50").returncode == 0
    assert eventually(lambda: len(answers(results)) >= 4)
    fleet = results / "fleet" / "slurm-1001"
    state = Path(slurm["SLURM_STAND_IN"])
    assert httpx2.get(f"{(fleet / '0').read_text()}/props", timeout=60).status_code == 401, (
        "without the key"
    )
    os.kill(int((state / "1001.pids").read_text().split()[1]), signal.SIGKILL)
    assert eventually(lambda: alone.keys() <= answers(results).keys())
    subprocess.run(["scancel", "1002"], env=slurm, timeout=60, check=True)
    assert eventually(lambda: ended(slurm, "1001", "1002"))
    assert len(alone) == GENERATIONS and answers(results) | alone == answers(results)
    assert not json.loads((results / f"{EXPERIMENT}.partial.json").read_text())["complete"]
    assert "requeue" not in (state / "log").read_text()
    assert "a gateway in front of 2 servers" in (results / "fleet" / "slurm-1002.log").read_text()
    assert not any(
        KEY in path.read_text("latin-1") for path in results.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    ("engine", "gpus"), [("sglang", "gpu:2"), ("vllm", "gpu:2"), ("embedded", "")]
)
def test_servers_reserve_the_gpus_that_their_engine_uses(
    slurm: dict[str, str], results: Path, tmp_path: Path, engine: str, gpus: str
) -> None:
    record = tmp_path / "submitted"
    path = stand_in(tmp_path / "bin", sbatch=f'echo "$*" >> {record}; echo 7')
    done = submit(slurm | {"PATH": path, "ENGINE": engine, "TP": "2"}, "02_rsa_basic")
    assert done.returncode == 0, done.stderr
    servers, run = record.read_text().splitlines()
    assert re.findall(r"--gres=(\S+)", servers) == [*filter(None, [gpus])] and "--gres" not in run


@pytest.mark.parametrize(
    ("args", "changes", "named"),
    [
        (["99_nothing"], {}, "99_nothing"),
        (["02_rsa_basic"], {"API_KEY": ""}, "API_KEY"),
        (["02_rsa_basic"], {"SERVERS": "two"}, "SERVERS=two"),
        (["18_proofs", "GRADER=opnai"], {}, "opnai"),
        (["18_proofs", "GRADER=openai"], {"OPENAI_API_KEY": ""}, "OPENAI_API_KEY"),
        (
            ["18_proofs", "GRADER=openai"],
            {"OPENAI_API_KEY": "x", "GRADER_SERVERS": "2"},
            "https://api.openai.com",
        ),
        (["02_rsa_basic"], {"SERVERS_OPTIONS": "--partitoin=gpu"}, "--partitoin"),
    ],
)
def test_a_submission_that_cannot_work_is_refused_at_once(
    slurm: dict[str, str], args: list[str], changes: dict[str, str], named: str
) -> None:
    done = submit(slurm | changes, *args)
    assert done.returncode != 0 and named in done.stderr and "Traceback" not in done.stderr
