"""Test llama.cpp in a process of its own: it answers as in this process, and a stop ends it while
it loads."""

import json
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.engines import gguf_server, holding, queries
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.need import Need
from core.engines.process import free_port
from core.engines.protocol import Server
from core.engines.queries import Loading
from core.server import embedded, on_llamacpp
from tests.conftest import ROOT, ended, python
from tests.helpers.processes import eventually, is_alive

# A stand-in for xllamacpp whose server never finishes to load. It writes its process id.
STUCK = """
import os, time
from unittest.mock import MagicMock

CommonParams = llama_flash_attn_type = ggml_type = llama_pooling_type = MagicMock()

def Server(params):
    with open(os.environ["STARTED"], "w") as out:
        out.write(str(os.getpid()))
    while True:
        time.sleep(0.1)
"""


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_server, "SMALL", 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write a user's file: the embedded model with a hole at its end, as large as a file in a
    process of its own."""
    out = tmp_path / "large.gguf"
    with open(out, "wb") as file:
        file.write(EMBEDDED_GGUF.read_bytes())
        file.truncate(gguf_server.SMALL)
    return out


def greedy(server: Server) -> str:
    body = {"prompt": "1 + 5 =", "n_predict": 10, "temperature": 0}
    return str(
        json.loads(queries.send(f"{server.root}/completion", server.key, body, seconds=600))[
            "content"
        ]
    )


def test_it_answers_as_in_this_process_and_ends_with_the_block(
    monkeypatch: pytest.MonkeyPatch, own_process: None
) -> None:
    monkeypatch.setenv("EXACT", "1")
    monkeypatch.setenv("API_KEY", "sk-secret-of-the-test")
    with on_llamacpp(EMBEDDED_GGUF, Need(1, 100, 16)) as server:
        reply = greedy(server)
        root = server.root
        assert server.failure() is None and server.exact
    assert queries.find(f"{root}/v1/models") is None
    monkeypatch.setattr(gguf_server, "SMALL", 10**9)
    with on_llamacpp(EMBEDDED_GGUF, Need(1, 100, 16)) as server:
        assert greedy(server) == reply


def test_its_errors_are_those_of_llamacpp(tmp_path: Path, own_process: None) -> None:
    (tmp_path / "cut.gguf").write_bytes(EMBEDDED_GGUF.read_bytes()[:-1])
    with (
        pytest.raises(UserError, match=r"cut\.gguf"),
        on_llamacpp(tmp_path / "cut.gguf", Need(1, 100)),
    ):
        pass


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def pids_of_servers() -> list[int]:
    """Return the processes of gguf_server whose supervisor this process has started."""
    servers = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has ended
            pid = int(path.parent.name)
            is_server = b"core.engines.gguf_server" in path.read_bytes().split(b"\0")[2:3]
            if is_server and parent_of(parent_of(pid)) == os.getpid():
                servers.append(pid)
    return servers


def test_its_death_is_noticed(own_process: None) -> None:
    with on_llamacpp(EMBEDDED_GGUF, Need(1, 100, 16)) as server:
        [pid] = pids_of_servers()
        os.kill(pid, signal.SIGKILL)
        assert eventually(server.failure) and "memory" in str(server.failure())


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("command", ["a run", "start_server"])
def test_a_stop_while_a_file_is_loaded_ends_it_at_once(
    command: str, sign: signal.Signals, file: Path, tmp_path: Path, results: Path
) -> None:
    (tmp_path / "xllamacpp.py").write_text(STUCK)
    started = tmp_path / "started"
    port = str(free_port())
    changes = {
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "STARTED": str(started),
        "MODEL": str(file),
        "PORT": port,
    }
    args = ["-m", "core.server"]
    if command == "a run":
        args = ["experiments/01_baseline.py", "PROBLEMS=sums"]
    process = python(*args, "MAX_TOKENS=100", **changes)
    try:
        assert process.stderr is not None
        assert file.name in process.stderr.readline() and eventually(
            lambda: started.exists() and started.read_text()
        )
        if command == "start_server":
            with pytest.raises(Loading):
                queries.find(f"http://127.0.0.1:{port}/v1/models")
        began = time.monotonic()
        process.send_signal(sign)
    finally:
        status, _, err = ended(process)
    assert time.monotonic() - began < 20 and status == (130 if command == "a run" else 0), err
    assert "Traceback" not in err and not is_alive(int(started.read_text()))


def test_a_run_beside_start_server_waits_and_never_takes_the_embedded_model(
    file: Path, tmp_path: Path, results: Path
) -> None:
    (tmp_path / "xllamacpp.py").write_text(STUCK)
    changes = {
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "STARTED": str(tmp_path / "started"),
        "PORT": str(free_port()),
    }
    server = python("-m", "core.server", MODEL=str(file), **changes)
    try:
        assert server.stderr is not None and file.name in server.stderr.readline()
        beside = python(
            "experiments/01_baseline.py", "PROBLEMS=sums", "LIMIT=1", "N=1", PORT=changes["PORT"]
        )
        assert beside.stderr is not None and changes["PORT"] in beside.stderr.readline()
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    status, out, err = ended(beside)  # the server has ended before it answered
    assert (
        status == 2
        and changes["PORT"] in err
        and "embedded" not in out
        and not [*results.glob("*.json")]
    )


# The port of a server that loads


def test_a_port_is_held_until_its_server_answers_and_without_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1/models"
    states = []

    def ready() -> None:
        states.append("ready")
        with suppress(Loading):
            assert queries.find(url) is not None, "the new server or the old answer"
        release()
        assert queries.find(url)

    with holding.held("127.0.0.1", port) as release:
        with pytest.raises(Loading) as raised:
            queries.find(url)
        assert raised.value.says_so
        with embedded(port, ready=ready) as server:
            assert states == ["ready"] and server.base_url == f"http://127.0.0.1:{port}/v1"
    assert queries.find(url) is None


def test_a_port_in_use_can_not_be_held() -> None:
    with holding.held("127.0.0.1", free_port()):
        pass
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=str(port)), holding.held("127.0.0.1", port):
            pass
