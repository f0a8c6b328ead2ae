"""Read the settings of servers from environment variables. Only this module reads these variables.

`wanted` reads them all once, when a run or a server starts, and never at import. The other
functions read the variable that they name.

`python -m core.engines.environment CARD` prints the address of a grader's model, or the engine that
serves it. On a cluster, an unknown card or a missing key is thus an error before any job is
submitted."""

import os
import shlex
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from core.base.errors import UserError, command
from core.base.files import ROOT
from core.engines import cards
from core.engines.cards import Card
from core.engines.protocol import Key, is_local, is_unspecified
from core.engines.wanted import GRADER, Hosting, Remote, Wanted, hub_model, with_openai_names

# settings that choose a model and its server, in the order in which a command has them
CHOOSING = ("BASE_URL", "PORT", "ENGINE", "REVISION", "EFFORT", "MODEL")
OPENAI_KEY = "OPENAI_API_KEY"
# an account's organisation and project, and headers of any kind
OPENAI_SETTINGS = ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")


def wanted() -> Wanted:
    """Read the environment. The result does not change with it."""
    return Wanted(with_openai_names(os.environ))


def wanted_here() -> Wanted:
    """Read the environment for a server that is started here in any case. OPENAI_BASE_URL, which
    may be set for other programs, has no effect."""
    return Wanted(dict(os.environ))


def is_set(name: str) -> bool:
    """Return whether the variable `name` is set."""
    return name in os.environ


def check() -> None:
    """Raise UserError if a setting of our servers or MODEL's card is invalid, or if BIND requires
    API_KEY."""
    wanted().check()


def hosting() -> Hosting:
    """Read the settings of our servers. Raises UserError if one of them is invalid."""
    return wanted().hosting


def api_key() -> Key:
    """Return the key API_KEY, or "". Our servers require it in requests. Raises UserError if the
    key is invalid."""
    return wanted().api_key


def card() -> Card:
    """Return the card that MODEL names, or cards.NONE. Raises UserError as `Wanted.card` does."""
    return wanted().card


def model() -> str:
    """Return the model that MODEL or its card names, or "" if neither does. Raises UserError for an
    invalid card."""
    return wanted().model


def engine() -> str:
    """Return the engine that ENGINE, MODEL's card or a .gguf file in MODEL selects, or "" if none
    of them selects one. Raises UserError as `Wanted.engine` does."""
    return wanted().engine


def base_url() -> str:
    """Return the address of the server to use, from BASE_URL or else the card, or "" if neither has
    an address."""
    return wanted().base_url


def revision() -> str:
    """Return the commit, branch or tag in REVISION, or "" if it is unset. Raises UserError if a
    setting is invalid."""
    return wanted().revision


def unused_revision(commit: str | None) -> str:
    """Return REVISION if it has no effect on a run, else "". `commit` is the commit of the weights
    that the run's server loaded, or None if they were not fetched here. Raises UserError if a
    setting is invalid."""
    settings = wanted()
    if settings.value("FLEET"):  # the servers of a Slurm job have read REVISION
        return ""
    is_fetched = bool(commit) or settings.is_on_hub
    return "" if is_fetched and not settings.base_url else settings.revision


def typed() -> list[str]:
    """Return the settings of this process that choose a model and its server, as words before a
    command. Keys, and queries of addresses, are left out."""
    words = []
    for name in CHOOSING:
        if name in os.environ:
            value, _, _ = os.environ[name].partition("?")
            words.append(f"{name}={shlex.quote(value)}")
    return words


def python(engine: str) -> str | None:
    """Return the interpreter in SGLANG_PYTHON, VLLM_PYTHON or TRAIN_PYTHON, or None if the variable
    is not set."""
    return os.environ.get(f"{engine.upper()}_PYTHON")


# Addresses and proxies


def is_ours(url: str) -> bool:
    """Return whether `url` has a loopback address, the address BIND, or 0.0.0.0 or [::], which
    servers print as theirs. These addresses are on this machine and need no proxy."""
    return (
        is_local(url)
        or is_unspecified(url)
        or urllib.parse.urlsplit(url).hostname == hosting().BIND
    )


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment sets for `url`, or None. Addresses on this machine need
    no proxy."""
    parts = urllib.parse.urlsplit(url)
    if is_ours(url) or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def fleet(address: str) -> set[str]:
    """Return the URLs of the servers that the gateway at `address` uses. A run sends its key only
    to these servers. The set is empty unless harness/fleet.py started this process for the
    gateway."""
    settings = wanted()
    if not settings.value("FLEET") or address != settings.value("BASE_URL"):
        return set()
    return registered(Path(os.environ["FLEET"]))


def registered(folder: Path) -> set[str]:
    """Return the URLs of the servers that are registered in `folder`."""
    urls = set()
    for file in folder.glob("[0-9]*"):
        with suppress(FileNotFoundError):  # removed after it was listed
            urls.add(file.read_text())
    return urls


# The choice of a second model


def second(role: str) -> Remote:
    """Return the server of the second model with this `role`. Raises UserError as `Wanted.second`
    does."""
    return wanted().second(role)


def served_second(role: str) -> Wanted | None:
    """Return the server of the second model that is started here, or None if there is none."""
    return wanted().served_second(role)


def has_second(role: str) -> bool:
    """Return whether the second model with this `role` has a server of its own: at its variable's
    or its card's address, or started here. Raises UserError as `second` does."""
    settings = wanted()
    return bool(settings.second(role).url or settings.served_second(role))


def has_own_grader(named: str) -> bool:
    """Return whether the model that GRADER=`named` names ("": unset) is on the grader's own server.
    Raises UserError as `second` does."""
    if not named:
        return has_second(GRADER)
    return bool(wanted().value("GRADER_URL")) and not cards.find(named).name


@contextmanager
def choosing(named: str) -> Iterator[None]:
    """Select the grader that GRADER=`named` names, during the block. If `named` is "", nothing
    changes. A card replaces MODEL, BASE_URL and ENGINE. Another name is a model of the server at
    GRADER_URL or BASE_URL, or else of the server that MODEL's card describes. Otherwise, a model of
    the hub or a path is served here. Raises UserError for an invalid card or another name."""
    with setting(**_changes_for(named)):
        yield


def _changes_for(named: str) -> dict[str, str]:
    """Return the settings for `choosing`."""
    if not named:
        return {}
    settings = wanted()
    if cards.find(named).name:
        return {"MODEL": named, "BASE_URL": "", "ENGINE": ""}
    if settings.value("GRADER_URL"):
        return {"GRADER_MODEL": named}
    if settings.value("BASE_URL"):
        return {"MODEL": named}
    if hub_model(named) or Path(named).exists():
        return {"MODEL": named}
    card = cards.find(settings.value("MODEL"))
    if card.base_url and card.name in cards.names():
        return {"MODEL": f"{card.name}:{named}"}
    raise UserError(
        f"there is no card {named!r:.60}. For a model of a server, set GRADER_URL or BASE_URL. For "
        f"a model of the hub, give owner/name. {cards.listing(named)}"
    )


# The environment of this process and its children


@contextmanager
def setting(**values: str | None) -> Iterator[None]:
    """Set environment variables during the block. A variable with the value None does not
    change."""
    given = {name: value for name, value in values.items() if value is not None}
    before = {name: os.environ[name] for name in given if name in os.environ}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def openai_settings_for(key: Key) -> Iterator[None]:
    """Hide the variables whose values the openai client sends (OPENAI_SETTINGS) during the block,
    unless `key` is the user's OpenAI key: other servers must not receive them."""
    is_openai_key = bool(key) and key == os.environ.get(OPENAI_KEY, "").strip()
    names = () if is_openai_key or key.variable == OPENAI_KEY else OPENAI_SETTINGS
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def with_changes(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with `changes` and this project in PYTHONPATH, for a process that runs
    its modules."""
    path = str(ROOT)
    if earlier_path := os.environ.get("PYTHONPATH"):
        path = f"{path}{os.pathsep}{earlier_path}"
    return {**os.environ, **changes, "PYTHONPATH": path}


def behind_gateway(root: str, folder: Path) -> dict[str, str]:
    """Return the environment of a command that uses the gateway at `root`, whose servers are
    registered in `folder`. Requests to these servers use no proxy. A path in MODEL is dropped,
    because the servers use another name."""
    hosts = {str(urllib.parse.urlsplit(url).hostname) for url in registered(folder)}
    direct = sorted(hosts)
    if earlier_hosts := os.environ.get("no_proxy"):
        direct.insert(0, earlier_hosts)
    changed = dict(os.environ)
    if wanted().is_weights():
        del changed["MODEL"]
    changed["BASE_URL"] = f"{root}/v1"
    changed["FLEET"] = str(folder)
    changed["no_proxy"] = changed["NO_PROXY"] = ",".join(direct)
    return changed


def forget_proxies() -> None:
    """Remove the proxies' variables. Our servers must be reached directly, and the gateway ignores
    NO_PROXY=*."""
    for name in list(os.environ):
        if name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
            del os.environ[name]


def let_openmp_sleep() -> None:
    """Let idle OpenMP threads sleep. Call this function before importing llama.cpp.
    Threads that spin on busy cores would slow llama.cpp down from 1,400 to 3-13 tokens/s."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")


def main(argv: Sequence[str]) -> None:
    """Print the engine that a run selects ("": none), or the address or engine of a named
    grader."""
    if not argv:
        print(engine())
        return
    if len(argv) != 1 or not argv[0]:
        raise UserError("no grader is named. Give GRADER=CARD or GRADER=owner/name")
    with choosing(argv[0]):
        if has_own_grader(argv[0]):
            print(second(GRADER).url)
            return
        settings = wanted()
        print(settings.remote.url or settings.engine)  # a missing key is an error


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
