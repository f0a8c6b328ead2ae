"""The servers of a Slurm job array, behind SGLang Model Gateway (PyPI sglang-router). scripts/slurm starts them:

python -m core.engines.fleet serve FILE    a server on a free port; FILE holds its URL while it answers
python -m core.engines.fleet run FOLDER SERVERS COMMAND …    COMMAND behind a gateway for the servers of FOLDER's files
python -m core.engines.fleet gateway FLAGS    the gateway; API_KEY comes from the environment

A machine with several GPUs needs none of this: bash scripts/start_server.sh --dp-size 2.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from core.base import signals
from core.base.errors import UserError, command
from core.base.files import make_folder, write_atomically
from core.engines import client, environment, process, start
from core.engines.need import Need

STARTS = 5  # of one server
POLL = 0.5  # seconds
PATIENCE = process.START_SECONDS  # for servers to answer for the first time

# Every default that matters is set on purpose; checked with sglang-router 0.3.2, see docs/LOG.md.
FLAGS = (
    # The members of a population share their prompt, so they go where it is cached, up to a difference in load of 4.
    # By default it takes 64 before another server is given anything, and all prompts resemble each other.
    *("--policy", "cache_aware", "--cache-threshold", "0.5"),
    *("--balance-abs-threshold", "4", "--balance-rel-threshold", "1.1"),
    # The harness alone decides what is asked again, and how often (core/generate/generator.py). 5 tries of the
    # gateway's inside each of its 9 would be 45; and its breaker counts refused requests (400) as failures: ten
    # prompts that are too long would close a healthy server for a minute.
    *("--disable-retries", "--disable-circuit-breaker"),
    # The harness's TIMEOUT ends a request, so the gateway's must never come first: the largest TIMEOUT there is.
    *("--request-timeout-secs", "1000000"),
    *("--max-concurrent-requests", "-1"),  # no limit here: the harness keeps to the servers' own
    # A dead server is left out after 4 s; one that is merely busy has 20 s to answer (SGLang generates a token for it).
    *("--health-check-interval-secs", "2", "--health-failure-threshold", "2", "--health-success-threshold", "1"),
    *("--health-check-timeout-secs", "20"),
    *("--worker-startup-timeout-secs", str(PATIENCE), "--worker-startup-check-interval", "1"),
    *("--shutdown-grace-period-secs", "5"),
    *("--history-backend", "none", "--log-level", "warn"),
    *("--prometheus-host", "127.0.0.1"),
)


def say(line: str) -> None:
    print(f"fleet: {line}", flush=True)


def serve(file: Path) -> None:
    """Serve until a signal, and start the server again if it ends. Raises UserError if it can't start, or ends for the
    last time."""
    if environment.host() == "0.0.0.0":
        raise UserError("BIND=0.0.0.0 is not an address to register. Set BIND to this node's own")
    make_folder(file.parent)
    for left in reversed(range(STARTS)):
        with start.asked_for(Need(), port=process.free_port()) as server:
            try:
                write_atomically(file, server.root.encode())
                say(f"{server.root} answers; it is registered as {file}")
                while not (why := server.failure()):
                    time.sleep(POLL)
            finally:
                file.unlink(missing_ok=True)
        if not left:
            raise UserError(f"{why}; that was {STARTS} times")
        say(f"{why}; starting it again")


def follow(root: str, folder: Path) -> int:
    """Have the gateway at `root` serve from the servers of `folder` alone. Return how many of them it can use."""
    key, wanted = environment.api_key(), environment.registered(folder)
    with suppress(OSError):  # the gateway is starting, or a server has just gone
        known = {each["url"]: each for each in client.objects(client.find(f"{root}/workers", key), "workers")}
        for url in wanted - known.keys():
            client.send(f"{root}/workers", key, {"url": url, "api_key": key})
        for url in known.keys() - wanted:
            client.send(f"{root}/workers/{known[url]['id']}", key, method="DELETE")
        return sum(bool(known[url]["is_healthy"]) for url in wanted & known.keys())
    return 0


def run(folder: Path, servers: int, args: Sequence[str]) -> int:
    """Run a command behind a gateway, as soon as so many `servers` answer, or after PATIENCE with those that do. Return
    its exit status. Raises UserError if no server answers, or the gateway ends."""
    port, began = process.free_port(), time.monotonic()
    root = f"http://{environment.host()}:{port}"
    places = ("--host", environment.host(), "--port", str(port), "--prometheus-port", str(process.free_port()))
    gateway = [sys.executable, "-m", "core.engines.fleet", "gateway", *FLAGS, *places]

    def enough() -> int | None:
        count, is_late = follow(root, folder), time.monotonic() > began + PATIENCE
        if is_late and not count:
            raise UserError(f"no server registered in {folder} answers after {PATIENCE} s. Look into the servers' logs")
        return count if count >= servers or is_late else None

    key, log = environment.api_key(), folder.with_suffix(".gateway.log")
    with process.running("the gateway", gateway, port, log, secret=key) as held:
        say(f"{held.wait_until(enough, 2 * PATIENCE)} of {servers} servers answer; running {' '.join(args)}")
        job = subprocess.Popen(args, env=environment.behind_gateway(root, folder), start_new_session=True)
        try:
            while job.poll() is None:
                if why := held.failure():
                    raise UserError(why)
                follow(root, folder)
                time.sleep(POLL)
        finally:
            process.end_group(job)
        return job.returncode


def serve_gateway(flags: Sequence[str]) -> None:
    """Serve the gateway in the foreground. Raises UserError if it is not installed."""
    if find_spec("sglang_router") is None:
        raise UserError("SGLang Model Gateway is not installed here. Run 'bash setup.sh fleet'")
    from sglang_router.launch_router import launch_router, parse_router_args

    environment.forget_proxies()
    args = parse_router_args(list(flags))
    args.api_key = environment.api_key() or None  # not a flag: other users of the machine can read those
    launch_router(args)


def main(what: str, *rest: str) -> int:
    environment.check()
    if what == "gateway":
        serve_gateway(rest)
        return 0
    signals.Stop()
    if what == "serve":
        serve(Path(rest[0]))
    folder, servers, *args = rest
    return run(Path(folder), int(servers), args)


if __name__ == "__main__":
    with command():
        raise SystemExit(main(*sys.argv[1:]))
