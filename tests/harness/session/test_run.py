"""Experiments as a user runs them: refused, stopped and resumed, with partial results."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.engines import environment
from core.rsa import RSA
from harness import run as entry_points
from harness.results import write
from harness.run import solve_sync
from harness.scaffolds.nomos import NOMOS
from harness.session import experiment
from tests.conftest import run, start
from tests.fakes.moody import Moody
from tests.fakes.server import ScriptedServer
from tests.helpers.documents import VALIDATOR
from tests.helpers.runs import TWO, journal_lines, load


def test_raising_t_reuses_every_earlier_step_and_a_repeated_run_asks_nothing(
    server: ScriptedServer, results: Path
) -> None:
    documents: list[dict[str, Any]] = []
    for steps, asked in ((1, 16), (2, 24), (2, 24)):
        solve_sync(RSA, TWO, N=4, K=2, T=steps)
        documents.append(load(results, "rsa"))
        assert len(server.asked) == len(journal_lines(results, "rsa")) == asked
    short, longer, again = documents
    for before, after in zip(short["problems"], longer["problems"], strict=True):
        assert after["steps"][:2] == before["steps"]
    assert again["problems"] == longer["problems"]
    assert len(list(results.glob("rsa.2*.json"))) == 2, "earlier results are kept"


def test_a_run_says_and_records_which_sampling_it_sends(moody: Moody, results: Path) -> None:
    small = ("PROBLEMS=sums", "LIMIT=2", "N=2", "K=2", "T=1", "TEMPERATURE=0.5")
    status, out, err = run("02_rsa_basic", *small, BASE_URL=moody.url)
    assert status == 0, err
    opening, _, _ = out.partition("mean accuracy")
    assert all(name in opening for name in ("top_k", "min_p", "repetition_penalty")), (
        "the server is unknown"
    )
    assert load(results, "02_rsa_basic")["engine"]["sampling"] == {"temperature": 0.5, "top_p": 1.0}
    sent = moody.bodies[-1]
    assert sent["temperature"] == 0.5 and not {"top_k", "min_p", "repetition_penalty"} & sent.keys()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_with_partial_results(
    server: ScriptedServer, results: Path, sign: signal.Signals
) -> None:
    server.life = 30
    process = start("02_rsa_basic", "PROBLEMS=sums", "LIMIT=8", "N=4", "T=5", BASE_URL=server.url)
    journal = results / "journal" / "02_rsa_basic.jsonl"
    while process.poll() is None and not (
        journal.exists() and journal.read_bytes().count(b"\n") >= 30
    ):
        time.sleep(0.02)
    process.send_signal(sign)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err, err
    assert str(results / "02_rsa_basic.partial.json") in out
    document = load(results, "02_rsa_basic.partial")
    assert not document["complete"] and document["problems"]
    assert not (results / "02_rsa_basic.json").exists()


def test_partial_results_are_whole_and_the_last_contain_them(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    save = write.save

    def saved(document: dict[str, Any], *rest: Any) -> Path:
        path = save(document, *rest)
        if not document["complete"]:
            seen.append(json.loads(path.read_text()))
        return path

    monkeypatch.setattr(write, "save", saved)
    monkeypatch.setattr(experiment, "SAVE_SECONDS", 0.0)
    solve_sync(RSA, TWO, N=4, K=2, T=3)
    sizes = [sum(step["problems"] for step in document["metrics"]["steps"]) for document in seen]
    VALIDATOR.validate(seen[len(seen) // 2])
    assert len(set(sizes)) > 2 and sizes == sorted(sizes), "it grows"
    final = {problem["id"]: problem["steps"] for problem in load(results, "rsa")["problems"]}
    for document, size in zip(seen, sizes, strict=True):
        steps = {problem["id"]: problem["steps"] for problem in document["problems"]}
        assert all(final[id][: len(part)] == part for id, part in steps.items())
        assert not document["complete"] and sum(map(len, steps.values())) == size, (
            "figures and rows are of one moment"
        )
    assert not (results / "rsa.partial.json").exists()


def test_bad_input_is_one_line_and_status_2(results: Path) -> None:
    status, out, err = run("02_rsa_basic", "K=9")
    assert status == 2 and err.startswith("error: ") and err.count("\n") == 1 and "K=9" in err
    assert "Traceback" not in err + out


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("BASE_URL", "http://me:pass-word@127.0.0.1:9", "pass-word"),
        ("API_KEY", "sk-sécret", "sécret"),
    ],
)
def test_a_bad_environment_is_refused_without_its_secrets(
    server: ScriptedServer,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    secret: str,
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=name) as error:
        solve_sync(RSA, TWO)
    assert secret not in str(error.value)


def test_a_local_server_is_reached_without_the_proxy_of_the_environment(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("API_KEY", "key-from-a-file\n")
    solve_sync(RSA, TWO, N=2, K=1, T=0)
    assert not any(
        "key-from-a-file" in path.read_text("latin-1") for path in results.rglob("*.json*")
    )
    monkeypatch.setenv("BIND", "192.0.2.1")  # another address of this machine
    for address in ("192.0.2.1", "0.0.0.0", "[::]", "127.0.0.2", "localhost"):
        assert environment.proxy_of(f"http://{address}:1/v1") is None
    assert environment.proxy_of("http://192.0.2.2:1/v1") == "http://127.0.0.1:9", (
        "of another machine"
    )


def test_all_lines_fit_a_terminal_of_80_columns(
    server: ScriptedServer,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(
        "sys.argv", ["07_nomos.py", "LIMIT=1", "N=2", "K=2", "PERFECT=1", "PROBLEMS=sums"]
    )
    entry_points.run(NOMOS, {"__file__": "07_nomos.py"})
    lines = capsys.readouterr().out.splitlines()
    assert [
        line for line in lines if len(line) > 80 and not line.startswith(("results ", "plot "))
    ] == []
    assert any(line.startswith("0 in all rows: ") for line in lines)
    assert any(line.startswith("final: ") for line in lines[-2:])
