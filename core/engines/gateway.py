"""SGLang Model Gateway (PyPI sglang-router), the one address in front of several servers: its flags, and its servers.

python -m core.engines.gateway FLAGS  in the foreground; `arguments` makes the flags, API_KEY comes from the environment
"""

import json
import os
import sys
import urllib.request
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from core.engines.origin import SameOrigin
from core.engines.server import API_KEY, HOST, START_SECONDS
from core.errors import UserError, command

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
    *("--worker-startup-timeout-secs", str(START_SECONDS), "--worker-startup-check-interval", "1"),
    *("--shutdown-grace-period-secs", "5"),
    *("--history-backend", "none", "--log-level", "warn"),
)


def arguments(urls: Sequence[str], port: int, metrics_port: int) -> list[str]:
    """The gateway's command line, without the key. Metrics stay on this machine whatever HOST is."""
    return [
        *(("--worker-urls", *urls) if urls else ()),
        *(
            "--host",
            HOST,
            "--port",
            str(port),
            "--prometheus-host",
            "127.0.0.1",
            "--prometheus-port",
            str(metrics_port),
        ),
        *FLAGS,
    ]


def process(urls: Sequence[str], port: int, metrics_port: int) -> list[str]:
    """The command that runs the gateway as a process of its own. It takes API_KEY from the environment."""
    check_installed()
    return [sys.executable, "-m", "core.engines.gateway", *arguments(urls, port, metrics_port)]


def check_installed() -> None:
    if find_spec("sglang_router") is None:
        raise UserError("SGLang Model Gateway is not installed here. Run 'bash setup.sh fleet'")


def workers(root: str) -> dict[str, dict[str, Any]]:
    """The servers that the gateway at `root` knows, by URL, with what it says of each ("id", "is_healthy", "load").
    Raises OSError where it does not answer."""
    return {worker["url"]: worker for worker in _ask("GET", f"{root}/workers")["workers"]}


def follow(root: str, wanted: set[str]) -> None:
    """Make the gateway at `root` serve from the `wanted` URLs and no others. Raises OSError where it is silent."""
    known = workers(root)
    for url in wanted - known.keys():
        _ask("POST", f"{root}/workers", {"url": url} | ({"api_key": API_KEY} if API_KEY else {}))
    for url in known.keys() - wanted:
        _ask("DELETE", f"{root}/workers/{known[url]['id']}")


def _ask(method: str, url: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"}, method=method)
    if API_KEY:
        request.add_header("Authorization", f"Bearer {API_KEY}")
    direct = urllib.request.build_opener(SameOrigin, urllib.request.ProxyHandler({}))  # our own is behind no proxy
    with direct.open(request, timeout=10) as reply:
        answer: dict[str, Any] = json.load(reply)
    return answer


def main(argv: Sequence[str]) -> None:
    check_installed()
    from sglang_router.launch_router import launch_router, parse_router_args

    for name in [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]:
        del os.environ[name]  # a proxy is for the world outside, not for our servers; the gateway knows no NO_PROXY=*
    args = parse_router_args(list(argv))
    args.api_key = API_KEY or None  # not a flag: other users of the machine can read those
    launch_router(args)


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
