"""Grading on Slurm: a job after the run, with servers if the grader needs them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers.machine import stand_in
from tests.helpers.processes import eventually
from tests.helpers.runs import load
from tests.helpers.slurm import ended, slurm, submit

__all__ = ["slurm"]  # a fixture
PROOFS = ("18_proofs", "SCAFFOLD=baseline", "N=2", "RUNS=1", "LIMIT=1", "MAX_TOKENS=100")


def jobs_of(env: dict[str, str]) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (Path(env["SLURM_STAND_IN"]) / "jobs.jsonl").read_text().splitlines()
    ]


def test_on_slurm_a_grader_has_servers_of_its_own_once_the_run_has_ended(
    slurm: dict[str, str], results: Path
) -> None:
    chosen = slurm | {"SERVERS": "1", "GRADER_SERVERS": "1", "GRADER_OPTIONS": "--partition=big"}
    done = submit(chosen, *PROOFS, "OUT=own_name", "GRADER=embedded", "MAX_TOKENS=50")
    assert done.returncode == 0 and "on 1 servers of its own" in done.stdout, done.stderr
    path = results / "own_name.json"
    assert eventually(lambda: path.exists() and "grading" in json.loads(path.read_text()))
    assert eventually(lambda: ended(slurm, "1001", "1002", "1003", "1004"))
    _, _, grading, servers = jobs_of(slurm)
    assert grading["args"] == ["own", "1", "bash", "scripts/grade.sh", "own_name", "MAX_TOKENS=50"]
    assert (
        servers["script"] == "scripts/slurm/servers.sbatch" and servers["options"]["array"] == "0-0"
    )
    assert servers["options"]["partition"] == "big", "submitted by the grading job, when it starts"
    log = (results / "fleet" / "slurm-1003.log").read_text()
    assert (
        "a gateway in front of 1 server" in log
        and "1 of 1 servers answer" in log
        and "Traceback" not in log
    )
    assert "scancel 1004" in (Path(slurm["SLURM_STAND_IN"]) / "log").read_text()
    assert load(results, "own_name")["grading"]["model"]["card"]["name"] == "embedded"


def test_a_grader_on_gpus_gets_as_many_servers_as_the_run(
    slurm: dict[str, str], card: Callable[..., str], tmp_path: Path
) -> None:
    path, record = tmp_path / "big.toml", tmp_path / "submitted"
    stand = (
        f'echo "MODEL=${{MODEL:-}} ENGINE=${{ENGINE:-}} $SERVERS_OPTIONS $*" >> {record}; echo 7'
    )
    path_of_stand_in = {"PATH": stand_in(tmp_path / "bin", sbatch=stand)}
    chosen = (
        slurm | path_of_stand_in | {"SERVERS": "3", "TP": "2", "BASE_URL": "http://127.0.0.1:9"}
    )
    chosen["GRADER_OPTIONS"] = "--mem=9G"
    for engine in ("sglang", "vllm"):
        path.write_text(f'engine = "{engine}"\nmodel = "big/grader"\n')
        done = submit(chosen, *PROOFS, f"GRADER={path}", "GRADES=3")
        assert done.returncode == 0, done.stderr
        servers, run, grading = record.read_text().splitlines()
        assert "--gres" not in servers and "--gres" not in run, (
            "the embedded model's servers need no GPU"
        )
        assert servers.startswith("MODEL= ENGINE=embedded") and run.startswith(
            "MODEL= ENGINE=embedded"
        )
        assert grading.startswith(f"MODEL={path} ENGINE={engine} --gres=gpu:2 --mem=9G --parsable")
        assert grading.endswith("experiment.sbatch own 3 bash scripts/grade.sh 18_proofs GRADES=3")
        record.unlink()
    done = submit(chosen, *PROOFS, card(), "GRADES=2", "MAX_DOLLARS=5")
    assert "on no servers of its own" in done.stdout and "to stop: scancel 7 7 7" in done.stdout
    _, run, grading = record.read_text().splitlines()
    assert run.endswith(" ".join(("bash scripts/run.sh", *PROOFS))), (
        "what is the grading's is not the run's"
    )
    assert "afterok:7 --kill-on-invalid-dep=yes" in grading and "--gres" not in grading
    assert grading.endswith(
        f"own 0 bash scripts/grade.sh 18_proofs {card()} GRADES=2 MAX_DOLLARS=5"
    )


def test_submitted_on_its_own_terms_a_grading_that_is_refused_takes_the_run_back(
    slurm: dict[str, str], card: Callable[..., str], tmp_path: Path
) -> None:
    record = tmp_path / "cancelled"
    refuse = (
        'case "$*" in *afterok*) echo "sbatch: error: no such partition" >&2; exit 1;; *) echo 7;; '
        "esac"
    )
    path = stand_in(tmp_path / "bin", sbatch=refuse, scancel=f"echo $1 >> {record}")
    done = submit(slurm | {"PATH": path}, *PROOFS, card())
    assert done.returncode == 2 and "the grading could not be submitted" in done.stderr
    assert record.read_text().split() == ["7", "7"]
