"""Serve a Slurm job array through SGLang Model Gateway (PyPI sglang-router), with three commands
for scripts/slurm.

`python -m harness.fleet serve FILE` starts a server on a free port. While it runs, FILE
contains its URL. `python -m harness.fleet run FOLDER SERVERS COMMAND …` runs COMMAND with a
gateway to the servers in FOLDER. `python -m harness.fleet gateway HOST PORT METRICS` starts
the gateway. API_KEY comes from the environment. A single machine with several GPUs needs no fleet:
bash scripts/start_server.sh --dp-size 2."""

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core import server as start
from core.base import signals
from core.base.errors import UserError, command
from core.base.files import make_folder, write_atomically
from core.engines import environment, process
from core.engines import queries as client
from core.engines.need import Need

STARTS = 5  # starts of one server
PATIENCE = process.START_SECONDS  # for servers to answer for the first time

# Every default that matters is set on purpose (checked with sglang-router 0.3.2, see docs/LOG.md).
SETTINGS: dict[str, Any] = {
    # Members of a population share their prompt, so they go to the server that caches it, up to a
    # difference in load of 4. With the default of 64, one server would get nearly everything,
    # because all prompts are similar.
    "policy": "cache_aware", "cache_threshold": 0.5, "balance_abs_threshold": 4, (
        "balance_rel_threshold"
    ): 1.1,
    # Only the harness retries (core/client/retry.py), as the gateway's 5 tries in each of its 9
    # would be 45. The circuit breaker counts refused requests (400) as failures, so ten long
    # prompts would block a healthy server.
    "disable_retries": True, "disable_circuit_breaker": True,
    # The harness's TIMEOUT ends a request, so the gateway's timeout must be longer.
    "request_timeout_secs": 1_000_000,
    "max_concurrent_requests": -1,  # the harness itself respects the servers' limits
    # A dead server is dropped after 4 s. A busy server has 20 s to answer (SGLang generates a token
    # for the check).
    "health_check_interval_secs": 2, "health_failure_threshold": 2, "health_success_threshold": 1,
    "health_check_timeout_secs": 20, "worker_startup_timeout_secs": PATIENCE, (
        "worker_startup_check_interval"
    ): 1,
    "shutdown_grace_period_secs": 5, "history_backend": "none", "log_level": "warn", (
        "prometheus_host"
    ): (
        "127.0.0.1"
    ),
}  # fmt: skip


def say(line: str) -> None:
    print(f"fleet: {line}", flush=True)


def serve(file: Path) -> None:
    """Serve until a signal, and restart a server that ends. Raises UserError if it can't start or
    ends STARTS times."""
    if environment.hosting().BIND == "0.0.0.0":
        raise UserError("BIND=0.0.0.0 can't be registered. Set BIND to this node's own address")
    make_folder(file.parent)
    for left in reversed(range(STARTS)):
        with start.asked_for(Need(), port=process.free_port()) as server:
            try:
                write_atomically(file, server.root.encode())
                say(f"{server.root} answers and is registered in {file}")
                while not (why := server.failure()):
                    time.sleep(process.POLL)
            finally:
                file.unlink(missing_ok=True)
        if not left:
            raise UserError(
                f"{why}. The server has ended {STARTS} times. Remove the cause, and submit the job "
                "again"
            )
        say(f"{why}. Restarting the server")


def follow(root: str, folder: Path) -> int:
    """Make the gateway at `root` use exactly the servers of `folder`. Return how many are healthy,
    or 0 without it."""
    key, wanted = environment.api_key(), environment.registered(folder)
    with suppress(OSError, client.Loading):  # the gateway is starting, or a server has just ended
        known = {
            each["url"]: each
            for each in client.objects(client.find(f"{root}/workers", key), "workers")
        }
        for url in wanted - known.keys():
            client.send(f"{root}/workers", key, {"url": url, "api_key": key})
        for url in known.keys() - wanted:
            client.send(f"{root}/workers/{known[url]['id']}", key, method="DELETE")
        return sum(bool(known[url]["is_healthy"]) for url in wanted & known.keys())
    return 0


def run(folder: Path, servers: int, args: Sequence[str]) -> int:
    """Run a command with a gateway once `servers` servers answer. After PATIENCE seconds, one
    server is enough. Return the command's exit status. Raises UserError if no server answers or the
    gateway ends."""
    host, port, began = environment.hosting().BIND, process.free_port(), time.monotonic()
    root = f"http://{host}:{port}"
    gateway = [
        sys.executable,
        "-m",
        "harness.fleet",
        "gateway",
        host,
        str(port),
        str(process.free_port()),
    ]

    def enough() -> int | None:
        count, is_late = follow(root, folder), time.monotonic() > began + PATIENCE
        if is_late and not count:
            raise UserError(
                f"no server registered in {folder} answers after {PATIENCE} s. See the servers' "
                "logs"
            )
        return count if count >= servers or is_late else None

    key, log = environment.api_key(), folder.with_suffix(".gateway.log")
    with process.running("the gateway", gateway, port, log, secret=key) as held:
        say(
            f"{held.wait_until(enough, 2 * PATIENCE)} of {servers} servers answer. Running "
            f"{' '.join(args)}"
        )
        job = subprocess.Popen(
            args, env=environment.behind_gateway(root, folder), start_new_session=True
        )
        try:
            while job.poll() is None:
                if why := held.failure():
                    raise UserError(why)
                follow(root, folder)
                time.sleep(process.POLL)
        finally:
            process.end_group(job)
        return job.returncode


def main(role: str, *rest: str) -> int:
    environment.check()
    if role == "gateway":
        from sglang_router.router import Router  # submit.sh has installed it
        from sglang_router.router_args import RouterArgs

        environment.forget_proxies()
        places = {"host": rest[0], "port": int(rest[1]), "prometheus_port": int(rest[2])}
        Router.from_args(
            RouterArgs(**SETTINGS, **places, api_key=environment.api_key() or None)
        ).start()
        return 0
    signals.catch()
    if role == "serve":
        serve(Path(rest[0]))
    return run(Path(rest[0]), int(rest[1]), rest[2:])


if __name__ == "__main__":
    with command():
        raise SystemExit(main(*sys.argv[1:]))
