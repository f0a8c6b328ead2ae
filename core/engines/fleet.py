"""A fleet: several servers of one model behind SGLang Model Gateway, which a run attaches to as to a single server.

    python -m core.engines.fleet [GPUS=0,1]    a server on each GPU of this machine (or on these), and the gateway
    python -m core.engines.fleet --embedded 3  the same with three embedded servers: no GPU needed
    python -m core.engines.fleet --register FILE
                                             one server on a free port; FILE holds its URL while it answers (Slurm)
    python -m core.engines.fleet --gateway FOLDER --servers 3 -- COMMAND …
                                             the gateway for the servers registered in FOLDER, as they come and go, and
                                             COMMAND with BASE_URL set to it, once three of them answer

Other flags are passed on to every server. The gateway listens on PORT, the servers on the ports after it, all on
127.0.0.1 (BIND=… for --register). What dies is started again, RESTARTS times at most; logs are in RESULTS_DIR/fleet.
"""

import math
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from core.base import signals
from core.base.arguments import Parser
from core.base.errors import UserError, command
from core.base.files import results_dir, write_atomically
from core.engines import client, environment, gateway, gpus, process

EMBEDDED_SERVERS = 2  # where there is no GPU and no number is given
MOST = 64  # servers
RESTARTS = 5  # of one process; the waits before them are 1, 2, 4, 8, 16 s
POLL = 0.5  # seconds
PATIENCE = process.START_SECONDS  # for servers to answer for the first time


class Service:
    """A server or the gateway: under a supervisor (core/engines/process.py), with a log, started again when it dies."""

    def __init__(self, name: str, args: list[str], port: int, changes: dict[str, str]) -> None:
        self.name, self.args, self.port, self.changes = name, args, port, changes
        self.url = f"http://{environment.host()}:{port}"
        folder = results_dir() / "fleet"
        folder.mkdir(exist_ok=True)
        self.log = folder / f"{name}.log"
        self.has_answered = False  # since the fleet was started
        self.deaths = 0
        self.start_at: float | None = None  # when a dead one is due
        self.held = self._start(again=False)

    def _start(self, again: bool) -> process.Process:
        secret = environment.api_key()
        return process.start(self.name, self.args, self.port, self.log, self.changes, secret, again)

    @property
    def is_gateway(self) -> bool:
        return self.name.startswith("gateway")

    @property
    def given_up(self) -> bool:
        return self.deaths > RESTARTS

    def answers(self) -> bool:
        """Whether it is up and says that it is ready."""
        is_healthy = self.held.status() is None and client.is_healthy(self.url)
        self.has_answered = self.has_answered or is_healthy
        return is_healthy

    def tend(self) -> None:
        """Notice a death, and start it again when it is due. Raises UserError where it has died before it ever
        answered: that would only happen again."""
        status = self.held.status()
        if self.given_up or status is None:
            return
        if self.start_at is None:
            how = f"{self.name} ended with {_shown(status)}"
            if not self.has_answered:
                words = process.last_words(list(self.held.tail)).removeprefix("error: ") or "no output"
                raise UserError(f"{how} before it answered: {words}. Its log is {self.log}")
            self.deaths += 1
            self.start_at = time.monotonic() + 2 ** (self.deaths - 1)
            then = "given up" if self.given_up else f"starting it again ({self.deaths} of {RESTARTS})"
            say(f"{how}; {then}; its log is {self.log}")
        elif time.monotonic() >= self.start_at:
            self.start_at = None
            self.held.stop()
            self.held = self._start(again=True)


class Fleet:
    """Services that live and die together; use it as a context manager."""

    def __init__(self) -> None:
        self.services: list[Service] = []

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        with signals.ignored():
            for one in self.services:
                one.held.let_go()  # all at once; then wait for each
            for one in self.services:
                one.held.stop()
        for one in self.services:
            if one.is_gateway:
                gateway.note(one.url, ())

    def add_server(self, port: int, flags: list[str], name: str = "server", **changes: str) -> Service:
        """A server on `port` as scripts/start_server.sh starts it, with `changes` to its environment."""
        args = [sys.executable, "-m", "core.engines.start", *flags]
        return self.add(f"{name}-{port}", args, port, PORT=str(port), **changes)

    def add_gateway(self, urls: list[str], port: int, metrics_port: int) -> Service:
        """The gateway in front of the servers at `urls`. Raises UserError where it is not installed."""
        gateway.note(f"http://{environment.host()}:{port}", urls)
        return self.add(f"gateway-{port}", gateway.process(urls, environment.host(), port, metrics_port), port)

    def add(self, name: str, args: list[str], port: int, **changes: str) -> Service:
        self.services.append(Service(name, args, port, changes))
        return self.services[-1]

    def tend_until(self, done: Callable[[], bool], seconds: float = math.inf) -> bool:
        """Keep all services alive until `done()`; False if that takes longer than `seconds`. Raises UserError where
        one cannot start, or no gateway or server is left."""
        deadline = time.monotonic() + seconds
        while not (is_done := done()) and time.monotonic() < deadline:
            for one in self.services:
                one.tend()
                if one.given_up and (
                    one.is_gateway or all(other.given_up or other.is_gateway for other in self.services)
                ):
                    raise UserError(f"{one.name} has died {one.deaths} times. Its log is {one.log}")
            time.sleep(POLL)
        return is_done


def say(line: str) -> None:
    print(f"fleet: {line}", flush=True)


def _shown(status: int) -> str:
    """The status of a supervisor, in words: it counts signals from 128 on, as a shell does."""
    names = {128 + sign: f"signal {sign.name}" for sign in signal.Signals}
    return names.get(status, f"status {status}")


def _check_free(port: int) -> None:
    with socket.socket() as caller:
        if caller.connect_ex((environment.host(), port)) == 0:
            raise UserError(f"port {port} is in use. Stop what listens there, or choose another PORT")


def chosen_gpus(wanted: str) -> list[str]:
    """The indices of the GPUs to serve on: those in `wanted` ("0,2"), else in CUDA_VISIBLE_DEVICES, else all. Raises
    UserError for one that is not here."""
    here = gpus.indices()
    chosen = [gpu.strip() for gpu in (wanted or environment.visible_gpus()).split(",") if gpu.strip()]
    if unknown := [gpu for gpu in chosen if gpu not in here]:
        raise UserError(f"there is no GPU {', '.join(unknown)} here. This machine has {', '.join(here)}")
    return list(dict.fromkeys(chosen)) or here


def serve_here(embedded: int | None, wanted: str, flags: list[str]) -> None:
    """Servers and gateway on this machine, until a signal: `embedded` ones, or one on each of the GPUs in `wanted`.
    Raises UserError where that can't be."""
    gateway.check_installed()
    if not embedded and not gpus.has_gpu():
        if wanted:
            raise UserError(f"GPUS={wanted}: there is no NVIDIA GPU here. Try --embedded {EMBEDDED_SERVERS}")
        embedded = EMBEDDED_SERVERS
    # nvidia-smi numbers GPUs by their place on the bus; CUDA, left alone, puts the fastest first.
    places = (
        [{"ENGINE": "embedded"}] * embedded
        if embedded
        else [{"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} for gpu in chosen_gpus(wanted)]
    )
    first = environment.port()
    if first + len(places) > 65535 or first < 1024:
        raise UserError(f"PORT={first} leaves no room for {len(places)} servers after it. Give one from 1024 to 65000")
    for port in range(first, first + len(places) + 1):
        _check_free(port)
    with Fleet() as fleet:
        for port, place in enumerate(places, first + 1):
            fleet.add_server(port, flags, **place)
        root, log = f"http://{environment.host()}:{first}", fleet.services[0].log.parent
        metrics = process.free_port()
        fleet.add_gateway([server.url for server in fleet.services], first, metrics)
        kind = "embedded" if embedded else "one on each GPU"
        say(f"{len(places)} servers ({kind}) start on the ports after {first}; their logs are in {log}")
        if not fleet.tend_until(lambda: all(one.has_answered or one.answers() for one in fleet.services), PATIENCE):
            late = ", ".join(one.name for one in fleet.services if not one.has_answered)
            raise UserError(f"{late} did not answer within {PATIENCE} s. Look into the logs in {log}")
        if not fleet.tend_until(lambda: gateway.healthy(root, environment.api_key()) == len(places), 60):
            raise UserError(f"the gateway does not reach the servers. Its log is {fleet.services[-1].log}")
        say(f"ready on {root}/v1 (metrics: http://127.0.0.1:{metrics}/metrics). In another terminal, for instance:")
        setting = "" if first == environment.PORT else f"PORT={first} "
        say(f"{setting}bash scripts/run.sh 02_rsa_basic. Ctrl-C stops everything")
        fleet.tend_until(lambda: False)


def register(file: Path, flags: list[str]) -> None:
    """One server on a free port, its URL in `file` while it answers, until a signal. Raises UserError where it can't
    start."""
    if environment.host() == "0.0.0.0":
        raise UserError("BIND=0.0.0.0 is not an address to register. Set BIND to this node's own")
    port = process.free_port()
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Fleet() as fleet:
            server = fleet.add_server(port, flags, f"server-{socket.gethostname()}")  # nodes share the folder of logs
            while True:
                fleet.tend_until(server.answers)
                write_atomically(file, server.url.encode())
                say(f"{server.url} answers; it is registered as {file}")
                fleet.tend_until(lambda: server.held.status() is not None)
                file.unlink(missing_ok=True)
    finally:
        file.unlink(missing_ok=True)


def registered(folder: Path) -> set[str]:
    """URLs of the servers that have registered themselves in `folder`."""
    urls = set()
    for file in folder.glob("[0-9]*"):
        with suppress(FileNotFoundError):  # gone between the listing and the reading
            urls.add(file.read_text())
    return urls


def gateway_and_command(folder: Path, servers: int, args: list[str]) -> int:
    """The gateway in front of the servers registered in `folder`, and the status of the command `args` behind it.

    The command starts when `servers` of them answer, or after PATIENCE with those that do. Raises UserError where
    none does.
    """
    port, key = process.free_port(), environment.api_key()
    root = f"http://{environment.host()}:{port}"

    def follow() -> int:
        """Pass on to the gateway who has come and gone; returns how many servers it can use."""
        with suppress(OSError):  # the gateway is starting, or a server has just gone
            gateway.follow(root, registered(folder), key)
        return gateway.healthy(root, key)

    with Fleet() as fleet:
        fleet.tend_until(fleet.add_gateway([], port, process.free_port()).answers, PATIENCE)
        fleet.tend_until(lambda: follow() >= servers, PATIENCE)
        count = follow()
        if not count:
            raise UserError(f"no server registered in {folder} answers after {PATIENCE} s. Look into the servers' logs")
        say(f"{count} of {servers} servers answer; running {' '.join(args)}")
        hosts = {str(urlsplit(url).hostname) for url in registered(folder)}
        job = subprocess.Popen(args, env=environment.behind_gateway(root, hosts), start_new_session=True)
        try:
            fleet.tend_until(lambda: follow() < 0 or job.poll() is not None)
        finally:
            with signals.ignored():
                process.end_group(job)
        return job.returncode


def main(argv: Sequence[str]) -> int:
    """The exit status: that of the command behind the gateway, else 0."""
    ours, command_after = list(argv), []
    if "--" in ours:
        ours, command_after = ours[: ours.index("--")], ours[ours.index("--") + 1 :]
    parser = Parser(prog="start_fleet.sh", description=(__doc__ or "").split("\n")[0], allow_abbrev=False)
    parser.add_argument("--embedded", type=int, nargs="?", const=EMBEDDED_SERVERS, metavar="N", help="embedded servers")
    parser.add_argument("--register", type=Path, metavar="FILE", help="one server, registered in FILE while it answers")
    parser.add_argument("--gateway", type=Path, metavar="FOLDER", help="the gateway for the servers registered there")
    parser.add_argument("--servers", type=int, default=1, metavar="N", help="with --gateway: how many to wait for")
    args, flags = parser.parse_known_args(ours)
    named = [flag for flag in flags if flag.startswith("GPUS=")]
    flags = [flag for flag in flags if flag not in named]
    for name in ("embedded", "servers"):
        if not 1 <= (getattr(args, name) or 1) <= MOST or getattr(args, name) == 0:
            raise UserError(f"--{name} {getattr(args, name)}: give a number from 1 to {MOST}")
    environment.check()
    signals.stop_once()
    if args.gateway:
        if not command_after:
            raise UserError("--gateway FOLDER needs a command behind it: -- bash scripts/run.sh 02_rsa_basic")
        return gateway_and_command(args.gateway, args.servers, command_after)
    try:
        if args.register:
            register(args.register, flags)
        else:
            serve_here(args.embedded, named[-1].removeprefix("GPUS=") if named else environment.wanted_gpus(), flags)
    except KeyboardInterrupt:
        say("stopped")
    return 0


if __name__ == "__main__":
    with command():
        raise SystemExit(main(sys.argv[1:]))
