"""A fleet: the real gateway before real servers, killed and started again under a run; Slurm's scripts, run here."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.engines import fleet, gateway, process
from core.engines.attach import probe
from core.engines.server import Server
from tests.conftest import ROOT, environment, heed_signals, run, start
from tests.engines.test_process import is_alive
from tests.engines.test_server import QED_NANO_CONFIG, Pages, models, stand_in
from tests.engines.test_server import SGLANG as STAND_IN
from tests.helpers.runs import load, timeless

pytest.importorskip("sglang_router", reason="the gateway is not installed: bash setup.sh fleet")
SMALL = ("LIMIT=4", "N=4", "T=2", "MAX_TOKENS=300", "CONCURRENCY=12")
GENERATIONS = 4 * 4 * 3
KEY = "sk-of-the-fleet"


def wait_until(done: Callable[[], Any], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@contextmanager
def started(*flags: str, **changes: str) -> Iterator["subprocess.Popen[str]"]:
    """python -m core.engines.fleet with `flags`, stopped at the end if it still runs."""
    args = [sys.executable, "-m", "core.engines.fleet", *flags]
    pipe = subprocess.PIPE
    env = environment(**changes)
    process = subprocess.Popen(args, env=env, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, preexec_fn=heed_signals)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=120)


def read_until(process: "subprocess.Popen[str]", words: str) -> str:
    """The first line of its output with `words`."""
    assert process.stdout is not None and process.stderr is not None
    watchdog = threading.Timer(300, process.terminate)
    watchdog.start()
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            watchdog.cancel()
            return line
    raise AssertionError(f"{words!r} never came: {seen} {process.stderr.read()}")


def process_with(**changes: str) -> int:
    """The process of core.engines.start that was given these variables."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            given = (folder / "environ").read_text("latin-1").split("\0")
            command = (folder / "cmdline").read_bytes()
            if (
                all(f"{k}={v}" in given for k, v in changes.items())
                and b"core.engines.start" in command
                and b"core.engines.process" not in command  # its supervisor
            ):
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError(f"no server with {changes}")


def gateway_of(fleet: int) -> int:
    """The gateway that this fleet has started, under a supervisor; it calls itself sglang::router."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                b"sglang::router" in (folder / "cmdline").read_bytes()
                and parent_of(parent_of(int(folder.name))) == fleet
            ):
                return int(folder.name)
    raise AssertionError("no gateway")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def answered(metrics: str) -> int:
    """How many completions the servers behind the gateway have given, by its own count."""
    text = urllib.request.urlopen(metrics, timeout=60).read().decode()
    return int(re.findall(r'^smg_router_upstream_responses_total\{[^}]*status_code="200"[^}]*\} (\d+)', text, re.M)[0])


def test_a_server_killed_under_a_run_loses_nothing_and_changes_nothing(engine: Server, tmp_path: Path) -> None:
    alone, behind = tmp_path / "alone", tmp_path / "behind"
    status, _, err = run("02_rsa_basic", *SMALL, RESULTS_DIR=str(alone), BASE_URL=engine.base_url)
    assert status == 0, err
    dead = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")  # for the world outside
    common = {"PORT": "29900", "API_KEY": KEY, "RESULTS_DIR": str(behind)} | dead
    with started("--embedded", "3", **common) as process:
        metrics = re.findall(r"http://\S+/metrics", read_until(process, "ready on http://127.0.0.1:29900/v1"))[0]
        for port in (29900, 29901):  # neither the gateway nor a server answers without the key
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{'workers' if port == 29900 else 'props'}", timeout=60)
        running = start("02_rsa_basic", *SMALL, **common)
        journal = behind / "journal" / "02_rsa_basic.jsonl"
        wait_until(lambda: running.poll() is not None or (journal.exists() and journal.read_bytes().count(b"\n") >= 8))
        assert running.poll() is None, running.communicate()
        os.kill(process_with(PORT="29902", RESULTS_DIR=str(behind)), signal.SIGKILL)
        assert "server-29902 ended with signal SIGKILL; starting it again (1 of 5)" in read_until(process, "ended")
        out, err = running.communicate(timeout=240)
        assert running.returncode == 0, err
        assert "a server answers on port 29900, a gateway in front of 3 servers" in out
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        assert len(lines) == len({line["key"] for line in lines}) == GENERATIONS == answered(metrics)
        assert not any(line["completion"]["error"] for line in lines)
        log = behind / "fleet" / "server-29902.log"
        wait_until(lambda: log.read_text().count("on http://127.0.0.1:29902/v1") == 2)  # and it is back
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "stopped" in out and not err
    with pytest.raises(AssertionError, match="no server"):
        process_with(RESULTS_DIR=str(behind))
    disturbed, undisturbed = timeless(load(behind, "02_rsa_basic")), timeless(load(alone, "02_rsa_basic"))
    assert disturbed["engine"].pop("why") != undisturbed["engine"].pop("why")
    assert disturbed == undisturbed
    keys = {json.loads(line)["key"] for line in (alone / "journal" / "02_rsa_basic.jsonl").read_text().splitlines()}
    assert keys == {line["key"] for line in lines}
    assert not any(KEY in path.read_text("latin-1") for path in behind.rglob("*") if path.is_file())


def test_a_fleet_that_is_killed_leaves_no_server_and_no_gateway(results: Path) -> None:
    with started("--embedded", "2", PORT="29945") as process:
        read_until(process, "ready on")
        gateway_pid = gateway_of(process.pid)
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: not is_alive(gateway_pid))

        def is_alone() -> bool:
            with suppress(AssertionError):
                return not process_with(RESULTS_DIR=str(results))
            return True

        wait_until(is_alone)


def test_a_gateway_killed_under_a_run_is_started_again_and_the_run_goes_on(results: Path) -> None:
    with started("--embedded", "2", PORT="29940") as process:
        read_until(process, "ready on")
        running = start("02_rsa_basic", *SMALL, PORT="29940")
        journal = results / "journal" / "02_rsa_basic.jsonl"
        wait_until(lambda: running.poll() is not None or (journal.exists() and journal.read_bytes().count(b"\n") >= 8))
        assert running.poll() is None, running.communicate()
        os.kill(gateway_of(process.pid), signal.SIGKILL)
        assert "gateway-29940 ended with signal SIGKILL; starting it again (1 of 5)" in read_until(process, "ended")
        _, err = running.communicate(timeout=240)
    assert running.returncode == 0, err
    assert len(journal.read_text().splitlines()) == GENERATIONS


SGLANG_PAGES = models("sglang", "lm-provers/QED-Nano", max_model_len=40960) | {
    "/health": {},
    "/server_info": {"served_model_name": "lm-provers/QED-Nano", "max_total_num_tokens": 160_000, "version": "0.5.23"},
    "/model_info": {"model_path": "/weights/QED-Nano"},
}


def test_behind_a_gateway_engine_context_and_summed_limit_are_told(
    engine: Server, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    two = [Pages(SGLANG_PAGES), Pages(SGLANG_PAGES)]
    port = process.free_port()
    root = f"http://127.0.0.1:{port}"
    with fleet.Fleet() as one:
        one.tend_until(one.add_gateway([], port, process.free_port()).answers)
        gateway.follow(root, {pages.url for pages in two})
        wait_until(lambda: len(gateway.workers(root)) == 2)
        found = probe(f"{root}/v1", "x")
        assert (
            found is not None and found.base_url == f"{root}/v1" and found.why == "x, a gateway in front of 2 servers"
        )
        assert (found.kind, found.version, found.context, found.limit) == ("sglang", "0.5.23", 40960, 160)
        assert found.identity == "lm-provers/QED-Nano" and found.problem_set == "aime_2025"
        gateway.follow(root, {two[0].url, engine.base_url.removesuffix("/v1")})
        wait_until(lambda: set(gateway.workers(root)) == {two[0].url, engine.base_url.removesuffix("/v1")})
        with pytest.raises(UserError, match="mixes .*llama.cpp.*sglang.*A run needs servers of one model"):
            probe(f"{root}/v1", "x")
    for pages in two:
        pages.close()


def test_refused_requests_are_passed_on_and_do_not_close_a_server(engine: Server, results: Path) -> None:
    """What the gateway's circuit breaker would do after ten of them; its retries would ask for each five times."""
    port, metrics = process.free_port(), process.free_port()
    with fleet.Fleet() as one:
        root = f"http://127.0.0.1:{port}"
        one.tend_until(one.add_gateway([engine.base_url.removesuffix("/v1")], port, metrics).answers)
        wait_until(lambda: gateway.healthy(root) == 1)
        for tokens, status in [(4000, 400)] * 12 + [(1, 200)]:
            asked = {"model": engine.model, "messages": [{"role": "user", "content": "1 " * tokens}], "max_tokens": 1}
            body, kind = json.dumps(asked).encode(), {"content-type": "application/json"}
            try:
                with urllib.request.urlopen(urllib.request.Request(f"{root}/v1/chat/completions", body, kind)) as reply:
                    assert reply.status == status
            except urllib.error.HTTPError as error:
                assert error.code == status
        text = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics").read().decode()
        assert re.findall(r'smg_http_requests_total\{[^}]*completions"\} (\d+)', text) == ["13"]
        assert re.findall(r"smg_router_requests_total\{[^}]*\} (\d+)", text) == ["13"]


# Stands in for a python that has sglang, and notes its GPU and its flags.
SGLANG = STAND_IN.replace('>"$RESULTS_DIR/flags"', '>"$RESULTS_DIR/flags-$CUDA_VISIBLE_DEVICES"')


def on_gpus(tmp_path: Path, sglang: str) -> dict[str, str]:
    """A machine with three GPUs (stand-ins), sglang and fetched weights."""
    weights = tmp_path / "weights" / "QED-Nano"
    weights.mkdir(parents=True)
    (weights / "FETCHED.json").write_text('{"repo": "lm-provers/QED-Nano", "revision": "abc"}')
    (weights / "config.json").write_text(json.dumps(QED_NANO_CONFIG))
    listed = 'for i in 0 1 2; do echo "GPU $i: NVIDIA GeForce RTX 4090 (UUID: GPU-$i)"; done'
    path = stand_in(tmp_path / "bin", nvidia_smi=listed, sglang_python=sglang)
    python = str(tmp_path / "bin" / "sglang-python")
    return {"PATH": path, "SGLANG_PYTHON": python, "WEIGHTS_DIR": str(tmp_path / "weights"), "CUDA_VISIBLE_DEVICES": ""}


def test_a_server_is_started_on_each_gpu_asked_for_with_the_further_flags(tmp_path: Path, results: Path) -> None:
    with started("GPUS=0,2", "--log-level", "warning", PORT="29910", **on_gpus(tmp_path, SGLANG)) as process:
        read_until(process, "ready on")
        found = probe("http://127.0.0.1:29910", "x")
        assert found is not None and found.why == "x, a gateway in front of 2 servers"
    for gpu, port in (("0", "29911"), ("2", "29912")):
        flags = (results / f"flags-{gpu}").read_text()
        assert f"--host 127.0.0.1 --port {port}" in flags and "--log-level warning" in flags
    assert not (results / "flags-1").exists()


@pytest.mark.parametrize(
    ("flags", "changes", "words"),
    [
        (["GPUS=0,3"], {}, "there is no GPU 3 here. This machine has 0, 1, 2"),
        ([], {}, "SGLang ended with status 3: the GPU's memory does not suffice"),
        (["--embedded", "0"], {}, "--embedded 0: give a number from 1 to 64"),
        (["--embedded", "many"], {}, "invalid int value: 'many'"),
        (["--embedded", "2", "--tp", "2"], {}, "llama.cpp is given no flags here: --tp 2"),
        (["--embedded", "2"], {"PORT": "99"}, "PORT=99 leaves no room"),
        (["--embedded", "2"], {"BIND": "0.0.0.0"}, "opens the server to the network. Set API_KEY"),
        (["--gateway", "folder"], {}, "needs a command behind it"),
        (["--register", "folder/1"], {"BIND": "0.0.0.0", "API_KEY": KEY}, "Set BIND to this node's own"),
    ],
)
def test_bad_input_is_one_line_and_status_2_and_nothing_stays(
    tmp_path: Path, results: Path, flags: list[str], changes: dict[str, str], words: str
) -> None:
    dying = '[ "$1" = -c ] && exit 0; echo "torch.OutOfMemoryError: CUDA out of memory"; echo bye; exit 3'
    with started(*flags, **({"PORT": "29920"} | on_gpus(tmp_path, dying) | changes)) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and words in err and err.startswith("error: ") and err.count("\n") == 1
    with pytest.raises(AssertionError, match="no server"):
        process_with(RESULTS_DIR=str(results))


def test_a_port_in_use_is_named(results: Path) -> None:
    other = Pages({})
    port = int(other.url.rpartition(":")[2])
    with started("--embedded", "1", PORT=str(port - 1)) as process:
        _, err = process.communicate(timeout=120)
    other.close()
    assert process.returncode == 2 and f"port {port} is in use" in err and err.count("\n") == 1


def test_a_server_that_dies_too_often_is_given_up(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fleet, "RESTARTS", 1)
    monkeypatch.setattr(fleet.Service, "answers", lambda self: setattr(self, "has_answered", True))
    with fleet.Fleet() as one, pytest.raises(UserError, match=r"server-29930 has died 2 times. Its log is"):
        one.add("server-29930", [sys.executable, "-c", "import time; time.sleep(1); raise SystemExit(7)"], 29930)
        one.services[0].answers()
        one.tend_until(lambda: False)
    out = capsys.readouterr().out
    assert "ended with status 7; starting it again (1 of 1)" in out and "ended with status 7; given up" in out


# Slurm

SLURM = ROOT / "scripts" / "slurm"


def test_the_shell_scripts_pass_shellcheck() -> None:
    scripts = [*ROOT.glob("*.sh"), *ROOT.glob("scripts/*.sh"), *SLURM.iterdir()]
    assert len(scripts) >= 8
    done = subprocess.run([Path(sys.executable).with_name("shellcheck"), *scripts], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def slurm(tmp_path: Path, results: Path) -> Iterator[dict[str, str]]:
    """The environment of a login node: stand-ins for Slurm's commands, and a key."""
    stand = f'exec {sys.executable} {ROOT}/tests/fakes/slurm.py "${{0##*/}}" "$@"'
    path = stand_in(tmp_path / "bin", sbatch=stand, scancel=stand, scontrol=stand)
    state = tmp_path / "slurm"
    state.mkdir()
    chosen = {"PATH": path, "SLURM_STAND_IN": str(state), "ENGINE": "embedded", "API_KEY": KEY, "SERVERS": "2"}
    yield environment(**chosen)
    for file in state.glob("*.pids"):
        for pid in file.read_text().split():
            with suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)


def submit(env: dict[str, str], *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["bash", SLURM / "submit.sh", *args], env=env, capture_output=True, text=True, timeout=120)


def ended(env: dict[str, str], *jobs: str) -> bool:
    """Whether no process is left of these jobs."""
    code = f"from tests.fakes.slurm import running; raise SystemExit(any(map(running, {jobs})))"
    return subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, check=False).returncode == 0


def test_on_slurm_a_job_that_runs_out_of_time_goes_on_with_new_servers(slurm: dict[str, str], results: Path) -> None:
    done = submit(slurm, "02_rsa_basic", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "servers: job array 1001; 02_rsa_basic: job 1002" in done.stdout and "scancel 1002 1001" in done.stdout
    state = Path(slurm["SLURM_STAND_IN"])
    journal = results / "journal" / "02_rsa_basic.jsonl"
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= 5)
    os.kill(int((state / "1002.pids").read_text()), signal.SIGUSR1)  # as --signal=B:USR1@120 asks for
    wait_until(lambda: (results / "02_rsa_basic.json").exists() and ended(slurm, "1001", "1002", "1003"), 240)
    jobs = [json.loads(line) for line in (state / "jobs.jsonl").read_text().splitlines()]
    assert [job["script"].rpartition("/")[2] for job in jobs] == [
        "servers.sbatch",
        "experiment.sbatch",
        "servers.sbatch",
    ]
    assert jobs[0]["options"]["array"] == jobs[2]["options"]["array"] == "0-1"
    assert jobs[1]["options"]["dependency"] == "after:1001" and "requeue" in jobs[1]["options"]
    asked = (state / "log").read_text()
    assert "scontrol requeue 1002" in asked and "scancel 1001" in asked and "scancel 1003" in asked
    assert load(results, "02_rsa_basic")["complete"] and len(journal.read_text().splitlines()) == GENERATIONS
    log = (results / "fleet" / "slurm-1002.log").read_text()
    assert log.count("2 of 2 servers answer") == 2 and "a gateway in front of 2 servers" in log
    assert "completions came from the journal" in log and "Traceback" not in log
    assert not list(results.glob("fleet/slurm-100?/*")), "nothing stays registered"
    assert KEY not in asked + "".join(path.read_text("latin-1") for path in results.rglob("*") if path.is_file())


def test_on_slurm_an_experiment_that_fails_cancels_its_servers(slurm: dict[str, str], results: Path) -> None:
    assert submit(slurm, "02_rsa_basic", "K=99").returncode == 0
    wait_until(lambda: ended(slurm, "1001", "1002"), 120)
    assert "error: K=99 is larger than N=8" in (results / "fleet" / "slurm-1002.log").read_text()
    assert "scancel 1001" in (Path(slurm["SLURM_STAND_IN"]) / "log").read_text()


def test_on_slurm_a_cancelled_experiment_saves_what_it_has_and_cancels_its_servers(
    slurm: dict[str, str], results: Path
) -> None:
    assert submit(slurm, "02_rsa_basic", "T=50").returncode == 0
    journal = results / "journal" / "02_rsa_basic.jsonl"
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= 5)
    subprocess.run(["scancel", "1002"], env=slurm, timeout=60, check=True)
    wait_until(lambda: ended(slurm, "1001", "1002"))
    assert not load(results, "02_rsa_basic.partial")["complete"]
    assert "requeue" not in (Path(slurm["SLURM_STAND_IN"]) / "log").read_text()


@pytest.mark.parametrize(
    ("args", "changes", "words"),
    [
        ([], {}, "name an experiment"),
        (["99_nothing"], {}, "no experiment '99_nothing'"),
        (["02_rsa_basic"], {"API_KEY": ""}, "API_KEY is not set"),
        (["02_rsa_basic"], {"SERVERS": "two"}, "SERVERS=two is not a number"),
        (["18_proofs", "GRADER=opnai"], {}, "there is no card 'opnai'. Did you mean the card openai?"),
        (["18_proofs", "GRADER=openai"], {"OPENAI_API_KEY": ""}, "OPENAI_API_KEY is not set"),
        (["18_proofs", "GRADER="], {}, "name the card of the grader"),
        (
            ["18_proofs", "GRADER=openai"],
            {"OPENAI_API_KEY": "x", "GRADER_SERVERS": "2"},
            "is at https://api.openai.com",
        ),
        (["18_proofs", "GRADER=openai"], {"GRADER_SERVERS": "0"}, "GRADER_SERVERS=0 is not a number"),
        (["02_rsa_basic"], {"SERVERS_OPTIONS": "--partitoin=gpu"}, "unrecognized option '--partitoin'"),
    ],
)
def test_a_submission_that_cannot_work_is_refused_at_once(
    slurm: dict[str, str], args: list[str], changes: dict[str, str], words: str
) -> None:
    done = submit(slurm | changes, *args)
    assert done.returncode != 0 and words in done.stderr and "Traceback" not in done.stderr
