"""Test runs that start while a server loads its model, or while another program uses the port."""

import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.engines import attach, environment, gpus, holding, our_port, queries, waiting
from core.engines.need import Need
from core.engines.process import free_port
from core.engines.queries import Loading
from core.engines.wanted import GRADER
from core.grader_server import grading_server, second_server
from core.rsa import RSA
from core.server import serving
from harness.run import solve_sync
from tests.conftest import ended, python, run
from tests.fakes.engines import StandIn, llama, models
from tests.fakes.http import Answer, HttpFake, Request, answer, silence
from tests.helpers.machine import SGLANG, gpu_machine

WORDS: dict[str, Any] = {
    "error": {"message": "Loading model", "type": "unavailable_error", "code": 503}
}
READY = models("vllm", "big")["/v1/models"]


def refusal(request: Request) -> None:
    """Close a connection without a reply, as docker's proxy does for a container that does not
    listen yet."""
    request.close_connection = True


def reset(request: Request) -> None:
    """Reset a connection."""
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()
    request.close_connection = True


def interim(status: int) -> Answer:
    return answer(status, b"<html>Bad Gateway</html>", "text/html")


LOADING: dict[str, Answer] = {
    "llama.cpp": answer(503, WORDS),
    "gateway 502": interim(502),
    "gateway 504": interim(504),
    "silent": silence(2),
    "closing": refusal,
    "resetting": reset,
    "empty list": answer(200, {"object": "list", "data": []}),
    "no list": answer(200, {"object": "list", "data": None}),
}


class Slow(HttpFake):
    """A server that answers `loading` a few times, and then lists one model."""

    def __init__(
        self, loading: Answer, times: int = 2, pages: dict[str, Any] | None = None, port: int = 0
    ) -> None:
        self.loading = loading
        self.times = times
        self.pages = pages or {"/v1/models": READY}
        super().__init__(port)

    def get(self, request: Request) -> None:
        if self.times > 0 and request.path == "/v1/models":
            self.times -= 1
            return self.loading(request)
        page = self.pages.get(request.path)
        answer(404 if page is None else 200, page or {})(request)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "POLL", 0.01)
    monkeypatch.setattr(queries, "SECONDS", 0.5)
    monkeypatch.setattr(gpus, "count", lambda: 0)


@pytest.fixture
def no_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the embedded model is not what a user with a server asked for")

    monkeypatch.setattr("core.server.embedded", refuse)


@pytest.mark.parametrize("state", LOADING)
@pytest.mark.parametrize("by", ["PORT", "BASE_URL"])
def test_a_run_waits_for_a_server_that_is_loading(
    state: str,
    by: str,
    no_embedded: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with closing(Slow(LOADING[state])) as slow:
        monkeypatch.setenv(by, str(slow.port) if by == "PORT" else slow.url)
        with serving() as server:
            assert (server.model, server.kind) == ("big", "vllm")
    err = capsys.readouterr().err
    assert err.count("30 minutes") == 1 and str(slow.port) in err


def test_a_grader_that_is_loading_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Slow(LOADING["llama.cpp"])) as slow:
        monkeypatch.setenv("GRADER_URL", slow.url)
        with second_server(GRADER, Need()) as server:
            assert server is not None and server.model == "big"


@pytest.mark.parametrize("at", ["GRADER_URL", "BASE_URL"])
def test_a_grader_is_any_model_of_a_server(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "sk-of-the-run")
    monkeypatch.setenv("GRADER_KEY", "sk-of-the-grader")
    with closing(StandIn(models("vllm", "big", "small"))) as here:
        monkeypatch.setenv(at, here.url)
        with grading_server("small", Need()) as server:
            assert (server.model, server.base_url) == ("small", here.url)
            assert server.key == ("sk-of-the-grader" if at == "GRADER_URL" else "sk-of-the-run")
        with pytest.raises(UserError, match="big, small"), grading_server("none", Need()):
            pass


def test_llamacpp_that_lists_its_model_early_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its identity depends on the other endpoints, so it must not be taken before they answer."""

    class Early(Slow):
        def get(self, request: Request) -> None:
            if self.times > 0 and request.path == "/props":
                self.times -= 1
                return answer(503, WORDS)(request)
            page = self.pages.get(request.path)
            answer(404 if page is None else 200, page or {})(request)

    with closing(Early(answer(503, WORDS), 3, llama("/models/big.gguf"))) as early:
        monkeypatch.setenv("PORT", str(early.port))
        with serving() as server:
            assert server.key_fields == {"kind": "llama.cpp", "weights": "/models/big.gguf"}


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (answer(500, {"error": "internal"}), "500"),
        (answer(404, {"detail": "Not Found"}), "404"),
        (answer(200, {"object": "page"}), "models"),
    ],
)
def test_an_address_without_a_list_of_models_is_shown_with_its_answer(
    listed: Answer, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Slow(listed, 9)) as elsewhere:
        monkeypatch.setenv("BASE_URL", elsewhere.url)
        with pytest.raises(UserError, match=f"{words}.*MODEL=NAME"), serving():
            pass


@pytest.mark.parametrize("by", ["PORT", "BASE_URL"])
def test_a_server_that_never_gets_ready_is_an_error(
    by: str, no_embedded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "LOADING_SECONDS", 0.2)
    with closing(Slow(LOADING["llama.cpp"], 10**9)) as slow:
        monkeypatch.setenv(by, str(slow.port) if by == "PORT" else slow.url)
        with pytest.raises(UserError, match=str(slow.port)), serving():
            pass


def test_a_server_that_ends_while_it_loads_is_an_error(
    no_embedded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "GONE_SECONDS", 0.1)
    slow = Slow(LOADING["llama.cpp"], 10**9)
    monkeypatch.setenv("PORT", str(slow.port))
    threading.Timer(0.3, slow.close).start()
    with pytest.raises(UserError, match=str(slow.port)), serving():
        pass


@contextmanager
def talking(greeting: bytes) -> Iterator[int]:
    """Yield the port of a program that greets each client, as ssh and databases do."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(greeting)
                connection.recv(1024)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


PAGES: dict[str, Answer] = {
    "a web page": answer(200, b"<html>Jupyter</html>", "text/html"),
    "no page": answer(404, {}),
    "other JSON": answer(200, {"name": "a database"}),
    "a list": answer(200, b"[1, 2]"),
    "a crash": answer(500, b"oops", "text/plain"),
}


@pytest.mark.parametrize("page", PAGES)
def test_another_program_on_the_port_is_an_error_and_never_the_embedded_model(
    page: str, no_embedded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Slow(PAGES[page], 10**9)) as other:
        monkeypatch.setenv("PORT", str(other.port))
        with (
            pytest.raises(UserError, match=f"PORT.*BASE_URL=http://127.0.0.1:{other.port}"),
            serving(),
        ):
            pass


def test_another_protocol_on_the_port_is_an_error(
    no_embedded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talking(b"SSH-2.0-OpenSSH_9.6\r\n") as port:
        monkeypatch.setenv("PORT", str(port))
        with pytest.raises(UserError, match="PORT"), serving():
            pass


def test_the_embedded_engine_that_is_asked_for_ignores_the_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINE", "embedded")
    with closing(Slow(LOADING["llama.cpp"], 10**9)) as slow:
        monkeypatch.setenv("PORT", str(slow.port))
        with serving() as server:
            assert server.card.engine == "embedded"


def test_a_full_queue_of_connections_on_this_machine_is_a_loading_server() -> None:
    """A process that loads accepts no connection, and the system refuses none."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        clients = [socket.socket() for _ in range(4)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        with pytest.raises(Loading):
            queries.find(f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models")
        for client in clients:
            client.close()


def test_a_run_in_progress_takes_a_loading_server_for_an_absent_one() -> None:
    with closing(Slow(LOADING["llama.cpp"], 0)) as slow:
        server = attach.probe(slow.url, "x")
        assert server is not None
        slow.times = 1
        assert attach.probe_again(server) is None and attach.probe_again(server) == server


def test_a_server_that_start_server_starts_is_waited_for_before_it_listens(
    no_embedded: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SGLang listens only after it has loaded its model."""
    port = free_port()
    monkeypatch.setenv("PORT", str(port))
    late: list[Slow] = []
    with holding.claimed("127.0.0.1", port):
        assert our_port.is_taken(environment.hosting())
        threading.Timer(0.3, lambda: late.append(Slow(LOADING["llama.cpp"], 1, port=port))).start()
        with serving() as server:
            assert server.model == "big"
    late[0].close()
    assert str(port) in capsys.readouterr().err and not holding.is_claimed("127.0.0.1", port)


# By process


def test_a_run_beside_a_loading_server_waits_and_one_ctrl_c_ends_it(results: Path) -> None:
    with closing(Slow(LOADING["llama.cpp"], 10**9)) as slow:
        process = python(
            "experiments/01_baseline.py", "PROBLEMS=sums", "LIMIT=1", PORT=str(slow.port)
        )
        assert process.stderr is not None
        assert str(slow.port) in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        status, _, err = ended(process)
    assert status == 130 and "Traceback" not in err and not [*results.glob("*.json")]


def test_a_run_beside_another_program_names_the_remedy(results: Path) -> None:
    with closing(Slow(PAGES["a web page"], 10**9)) as other:
        status, out, err = run("01_baseline", "PROBLEMS=sums", "LIMIT=1", PORT=str(other.port))
    assert (
        status == 2
        and f"port {other.port}" in err
        and "embedded" not in out
        and not [*results.glob("*.json")]
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost"])
def test_the_address_that_servers_print_is_reached_without_the_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    """vLLM prints http://0.0.0.0:8000. The list of models and the requests of a run must both reach
    it."""
    with closing(StandIn(models("vllm", "big"))) as here:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("BASE_URL", here.url.replace("127.0.0.1", host))
        solve_sync(RSA, [{"problem": "6*7?", "answer": 42}], N=1, K=1, T=0)
        assert here.asked


def test_an_error_behind_a_proxy_names_the_proxy_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://me:pass-word@127.0.0.1:9")
    monkeypatch.setenv("BASE_URL", "http://192.0.2.2:8000")
    with pytest.raises(UserError, match="http://127.0.0.1:9") as raised, serving():
        pass
    assert "pass-word" not in str(raised.value)


def test_a_run_beside_start_server_on_a_gpu_waits_and_starts_no_second_server(
    tmp_path: Path, results: Path
) -> None:
    port = str(free_port())
    wait = 'echo "$@" >>"$RESULTS_DIR/flags"; until [ -e "$RESULTS_DIR/go" ]; do sleep 0.1; done'
    env = gpu_machine(
        tmp_path, results, SGLANG.replace('echo "$@" >"$RESULTS_DIR/flags"', wait), port
    )
    server = python("-m", "core.server", **env)
    try:
        assert server.stderr is not None and "sglang" in server.stderr.readline()
        beside = python("experiments/01_baseline.py", "PROBLEMS=sums", "LIMIT=1", "N=2", **env)
        assert beside.stderr is not None and port in beside.stderr.readline()
        (results / "go").touch()
        status, out, err = ended(beside)
    finally:
        (results / "go").touch()
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
    assert status == 0 and f"a server answers on port {port}" in out, err
    assert len((results / "flags").read_text().splitlines()) == 1
