"""Serve a Slurm job array through SGLang Model Gateway (PyPI sglang-router), with three commands
for scripts/slurm.

`python -m harness.fleet serve FILE` starts a server on a free port. While it runs, FILE contains
its URL. `python -m harness.fleet run FOLDER SERVERS COMMAND …` runs COMMAND with a gateway to the
servers in FOLDER. `python -m harness.fleet gateway HOST PORT METRICS` starts the gateway. API_KEY
comes from the environment. A single machine with several GPUs needs no fleet: bash
scripts/start_server.sh --dp-size 2."""

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from core.base import signals
from core.base.errors import UserError, command
from core.base.files import make_folder, write_atomically
from core.engines import environment, process, queries
from core.engines.need import Need
from core.server import start

STARTS = 5  # starts of one server
PATIENCE = process.START_SECONDS  # for servers to answer for the first time

# Every default that matters is set on purpose (checked with sglang-router 0.3.2, see docs/LOG.md).
ROUTER: dict[str, Any] = {
    # Members of a population share their prompt, so they go to the server that caches it, up to a
    # difference in load of 4. With the default of 64, one server would get nearly everything,
    # because all prompts are similar.
    "policy": "cache_aware",
    "cache_threshold": 0.5,
    "balance_abs_threshold": 4,
    "balance_rel_threshold": 1.1,
    # Only the harness retries (core/client/retry.py), as the gateway's 5 tries in each of its 9
    # would be 45. The circuit breaker counts refused requests (400) as failures, so ten long
    # prompts would block a healthy server.
    "disable_retries": True,
    "disable_circuit_breaker": True,
    # The harness's TIMEOUT ends a request, so the gateway's timeout must be longer.
    "request_timeout_secs": 1_000_000,
    "max_concurrent_requests": -1,  # the harness itself respects the servers' limits
    # A dead server is dropped after 4 s. A busy server has 20 s to answer (SGLang generates a token
    # for the check).
    "health_check_interval_secs": 2,
    "health_failure_threshold": 2,
    "health_success_threshold": 1,
    "health_check_timeout_secs": 20,
    "worker_startup_timeout_secs": PATIENCE,
    "worker_startup_check_interval": 1,
    "shutdown_grace_period_secs": 5,
    "history_backend": "none",
    "log_level": "warn",
    "prometheus_host": "127.0.0.1",
}


def say(line: str) -> None:
    print(f"fleet: {line}", flush=True)


def serve(file: Path) -> NoReturn:
    """Serve until a signal, and restart a server that ends. Raises UserError if it can't start or
    ends STARTS times."""
    if environment.hosting().BIND == "0.0.0.0":
        raise UserError("BIND=0.0.0.0 can't be registered. Set BIND to this node's own address")
    make_folder(file.parent)
    for number in range(1, STARTS + 1):
        failure = _serve_once(file)
        if number < STARTS:
            say(f"{failure}. Restarting the server")
    raise UserError(
        f"{failure}. The server has ended {STARTS} times. Remove the cause, and submit the job "
        "again"
    )


def _serve_once(file: Path) -> str:
    """Serve, and register the server in `file`, until it ends. Return why it ended. Raises
    UserError if it can't start."""
    wanted = environment.wanted_here()
    with start(Need(), port=process.free_port(), wanted=wanted) as server:
        try:
            write_atomically(file, server.root.encode())
            say(f"{server.root} answers and is registered in {file}")
            while not (failure := server.failure()):
                time.sleep(process.POLL)
            return failure
        finally:
            file.unlink(missing_ok=True)


def follow(root: str, folder: Path) -> int:
    """Make the gateway at `root` use exactly the servers of `folder`. Return how many are healthy,
    or 0 without it."""
    key = environment.api_key()
    registered = environment.registered(folder)
    with suppress(OSError, queries.Loading):  # the gateway is starting, or a server has just ended
        page = queries.find(f"{root}/workers", key)
        workers = {worker["url"]: worker for worker in queries.objects(page, "workers")}
        for url in registered - workers.keys():
            queries.send(f"{root}/workers", key, {"url": url, "api_key": key})
        for url in workers.keys() - registered:
            queries.send(f"{root}/workers/{workers[url]['id']}", key, method="DELETE")
        used = registered & workers.keys()
        return len([url for url in used if workers[url]["is_healthy"]])
    return 0


def run(folder: Path, servers: int, args: Sequence[str]) -> int:
    """Run a command with a gateway once `servers` servers answer. After PATIENCE seconds, one
    server is enough. Return the command's exit status. Raises UserError if no server answers or the
    gateway ends."""
    began = time.monotonic()
    host = environment.hosting().BIND
    port = process.free_port()
    root = f"http://{host}:{port}"
    addresses = [host, str(port), str(process.free_port())]
    gateway_args = [sys.executable, "-m", "harness.fleet", "gateway", *addresses]

    def enough() -> int | None:
        count = follow(root, folder)
        if count >= servers:
            return count
        if time.monotonic() <= began + PATIENCE:
            return None
        if not count:
            raise UserError(
                f"no server registered in {folder} answers after {PATIENCE} s. See the servers' "
                "logs"
            )
        return count

    log = folder.with_suffix(".gateway.log")
    key = environment.api_key()
    with process.running("the gateway", gateway_args, port, log, secret=key) as gateway:
        count = gateway.wait_until(enough, 2 * PATIENCE)
        say(f"{count} of {servers} servers answer. Running {' '.join(args)}")
        behind_gateway = environment.behind_gateway(root, folder)
        job = subprocess.Popen(args, env=behind_gateway, start_new_session=True)
        try:
            while job.poll() is None:
                if failure := gateway.failure():
                    raise UserError(failure)
                follow(root, folder)
                time.sleep(process.POLL)
        finally:
            process.end_group(job)
        return job.returncode


def serve_gateway(host: str, port: int, metrics_port: int) -> None:
    """Run the gateway in this process until a signal."""
    from sglang_router.router import Router  # submit.sh has installed it
    from sglang_router.router_args import RouterArgs

    environment.forget_proxies()
    settings = RouterArgs(
        **ROUTER,
        host=host,
        port=port,
        prometheus_port=metrics_port,
        api_key=environment.api_key() or None,
    )
    Router.from_args(settings).start()


def main(role: str, *args: str) -> int:
    environment.check()
    if role == "gateway":
        host, port, metrics_port = args
        serve_gateway(host, int(port), int(metrics_port))
        return 0
    signals.catch()
    if role == "serve":
        serve(Path(args[0]))
    folder, servers, *job = args
    return run(Path(folder), int(servers), job)


if __name__ == "__main__":
    with command():
        raise SystemExit(main(*sys.argv[1:]))
