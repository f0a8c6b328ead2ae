"""SGLang Model Gateway (PyPI sglang-router), the one address in front of several servers: its flags, and its servers.

python -m core.engines.gateway FLAGS  in the foreground; `arguments` makes the flags, API_KEY comes from the environment
"""

import json
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from core.base.errors import UserError, command
from core.base.files import results_dir, write_atomically
from core.engines import client, environment
from core.engines.process import START_SECONDS

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


def arguments(urls: Sequence[str], host: str, port: int, metrics_port: int) -> list[str]:
    """The gateway's command line, without the key. Metrics stay on this machine whatever `host` is."""
    return [
        *(("--worker-urls", *urls) if urls else ()),
        *("--host", host, "--port", str(port)),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics_port)),
        *FLAGS,
    ]


def process(urls: Sequence[str], host: str, port: int, metrics_port: int) -> list[str]:
    """The command that runs the gateway as a process of its own. It takes API_KEY from the environment. Raises
    UserError where the gateway is not installed."""
    check_installed()
    return [sys.executable, "-m", "core.engines.gateway", *arguments(urls, host, port, metrics_port)]


def check_installed() -> None:
    """Raises UserError where the gateway is not installed."""
    if find_spec("sglang_router") is None:
        raise UserError("SGLang Model Gateway is not installed here. Run 'bash setup.sh fleet'")


def workers(root: str, key: str = "") -> dict[str, dict[str, Any]]:
    """The servers that the gateway at `root` knows, by URL, with what it says of each ("id", "is_healthy", "load").
    Raises OSError where it does not answer."""
    return listed(json.loads(client.send(f"{root}/workers", key)))


def listed(page: Any) -> dict[str, dict[str, Any]]:
    """Return the servers on the `page` of a gateway, by URL."""
    return {each["url"]: each for each in client.objects(page, "workers") if isinstance(each.get("url"), str)}


def healthy(root: str, key: str = "") -> int:
    """How many servers the gateway at `root` can use now; 0 where it does not answer."""
    try:
        return sum(bool(worker["is_healthy"]) for worker in workers(root, key).values())
    except OSError:
        return 0


def follow(root: str, wanted: set[str], key: str = "") -> None:
    """Make the gateway at `root` serve from the `wanted` URLs and no others. Raises OSError where it is silent."""
    known = workers(root, key)
    note(root, wanted | known.keys())
    for url in wanted - known.keys():
        client.send(f"{root}/workers", key, {"url": url} | ({"api_key": key} if key else {}))
    for url in known.keys() - wanted:
        client.send(f"{root}/workers/{known[url]['id']}", key, method="DELETE")


def note(root: str, urls: Collection[str]) -> None:
    """Keep a list of the servers of ours behind the gateway at `root`, for `ours`; without `urls`, remove it."""
    file = _folder() / f"{urlsplit(root).netloc}.urls"
    if not urls:
        file.unlink(missing_ok=True)
    elif not file.exists() or set(file.read_text().split()) != set(urls):
        write_atomically(file, "\n".join(urls).encode())


def ours() -> set[str]:
    """Return the URLs of the servers that this project has put behind gateways. A run sends its key to no others."""
    urls: set[str] = set()
    for file in _folder().glob("*.urls"):
        with suppress(FileNotFoundError):  # that fleet has just ended
            urls.update(file.read_text().split())
    return urls


def _folder() -> Path:
    return results_dir() / "fleet"


def main(argv: Sequence[str]) -> None:
    """The gateway in the foreground. Raises UserError where it is not installed."""
    check_installed()
    from sglang_router.launch_router import launch_router, parse_router_args

    environment.forget_proxies()
    args = parse_router_args(list(argv))
    args.api_key = environment.api_key() or None  # not a flag: other users of the machine can read those
    launch_router(args)


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
