"""Read the settings of servers from environment variables. Only this module reads these variables.

The settings are read at each use, not at import. Most values are stripped, because a key from a
file often ends in a newline. MODEL may name a card (core/engines/cards.py), which may supply the
model, address, key and engine.

`python -m core.engines.environment CARD` prints the address of a grader's model, or the engine that
serves it. On a cluster, an unknown card or a missing key is thus an error before any job is
submitted."""

import io
import os
import re
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core.base import files
from core.base.errors import UserError, command
from core.base.files import ROOT
from core.constants import Part, constant, rules
from core.engines import cards
from core.engines.cards import Card
from core.engines.protocol import Key, engines, is_local, is_unspecified
from core.engines.shape import KV_BYTES

LLAMACPP = "llamacpp"  # the ENGINE for a .gguf file
EMBEDDED = "embedded"  # the ENGINE for the embedded model
_ON_HUB = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:/(\w[\w.-]*\.gguf))?")


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()


class Hosting(Part):
    """The settings of servers that are started here. Each is an environment variable."""

    BIND: str = constant("127.0.0.1", "the address on which the servers listen")
    PORT: int = constant(30000, "the port of the server", 1, 65535)
    TP: int = constant(1, "the number of GPUs that a server uses together", 1, 16)
    KV: str = constant(
        "auto", "the type of the KV cache (auto: by the GPU)", choices=("auto", *KV_BYTES)
    )
    DETERMINISTIC: int = constant(0, "whether SGLang honours seeds", 0, 1)
    EXACT: str = constant(
        "auto", "whether llama.cpp's replies ignore the batch", choices=("auto", "0", "1")
    )
    REVISION: str = constant("main", "the commit, branch or tag of a hub model")
    WEIGHTS_DIR: str = constant("", "the folder for downloaded weights")

    @property
    def address(self) -> str:
        return f"http://{self.BIND}:{self.PORT}"

    def exact(self, default: bool) -> bool:
        """Return whether llama.cpp must give equal replies to equal seeds in any batch, by EXACT or
        else `default`."""
        return default if self.EXACT == "auto" else self.EXACT == "1"


def hosting() -> Hosting:
    """Read the settings of our servers. Raises UserError if one of them is invalid."""
    given: dict[str, Any] = {name: value for name in rules(Hosting) if (value := _value(name))}
    return Hosting(**given)


def revision() -> str:
    """Return the commit, branch or tag in REVISION, or "" if it is unset. Raises UserError if a
    setting is invalid."""
    return hosting().REVISION if _value("REVISION") else ""


def unused_revision(commit: str | None) -> str:
    """Return REVISION if it has no effect on a run, else "". `commit` is the commit of the weights
    that the run's server loaded, or None if they were not fetched here. Raises UserError if a
    setting is invalid."""
    if _value("FLEET"):  # the servers of a Slurm job have read REVISION
        return ""
    is_fetched = bool(commit) or hub_model(model()) is not None
    return "" if is_fetched and not base_url() else revision()


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


def check() -> None:
    """Raise UserError if a setting of our servers or MODEL's card is invalid, or if BIND requires
    API_KEY."""
    engine()
    if not api_key() and not is_local(hosting().address):
        raise UserError(
            f"BIND={hosting().BIND} opens the server to the network. Set API_KEY, which clients "
            "must send"
        )


def api_key() -> Key:
    """Return the key API_KEY, or "". Our servers require it in requests. Raises UserError if the
    key is invalid."""
    return Key(_value("API_KEY"))


def engine() -> str:
    """Return the engine that ENGINE, MODEL's card or a .gguf file in MODEL selects, or "" if none
    of them selects one. With an address (BASE_URL or the card's), .gguf selects nothing. Raises
    UserError if ENGINE and the card differ, if a card names no server, or if the embedded engine
    should serve another model."""
    found, named, path = card(), _value("ENGINE").lower(), model()
    if unknown := {named, found.engine} - {"", *engines()}:
        raise UserError(
            f"there is no engine {min(unknown)}. ENGINE or a card can name {', '.join(engines())}. "
            "For another server, unset ENGINE and set BASE_URL to its address"
        )
    chosen, is_gguf = named or found.engine, path.endswith(".gguf")
    if base_url():
        return chosen
    if found.name and not chosen:
        raise UserError(
            f"the card {found.name} names no server. Set base_url in a copy of it, or BASE_URL for "
            "a run"
        )
    if found.engine not in ("", chosen):
        raise UserError(
            f"ENGINE={named}, but MODEL={_value('MODEL')} is a card for {found.engine}. Unset one "
            "of them"
        )
    if chosen == EMBEDDED and (is_gguf or (path and not found.name)):
        why = f"the embedded engine serves only its own model, not {path}"
        raise UserError(f"{why}. Unset ENGINE, and set MODEL={path} alone, or unset MODEL")
    return chosen or (LLAMACPP if is_gguf and (Path(path).is_file() or hub_model(path)) else "")


def asked_by() -> str:
    """Return the setting that selects the engine, as NAME=value."""
    return f"ENGINE={_value('ENGINE').lower()}" if _value("ENGINE") else f"MODEL={_value('MODEL')}"


# A server to attach to


def base_url() -> str:
    """Return the address of the server to use, from BASE_URL or else the card, or "" if neither has
    an address."""
    return _value("BASE_URL") or card().base_url


def key() -> Key:
    """Return the key of the server to use. Raises UserError if a card's key is missing, or if the
    key is invalid."""
    return _key_for(card(), _value("BASE_URL"), "API_KEY")


def grader() -> tuple[str, str, Key, Card]:
    """Return address, model, key and card of the grader's own server. Unset values are "" (card:
    cards.NONE). The grader never receives our API_KEY. Raises UserError if GRADER_MODEL has no
    address, or the key is missing."""
    url, named = _value("GRADER_URL"), _value("GRADER_MODEL")
    its = cards.find(named) if named else cards.NONE
    if address := url or its.base_url:
        return address, its.model if its.name else named, _key_for(its, url, "GRADER_KEY"), its
    if not named:
        return "", "", Key(), its
    wrong = "is a card without an address" if its.name else "is no card, and GRADER_URL is not set"
    raise UserError(
        f"GRADER_MODEL={named} {wrong}. Set GRADER_URL to its server's address. {cards.listing()}"
    )


def _key_for(card: Card, url: str, other: str) -> Key:
    """Return the key for the server at `url`, or for the card's server if `url` is "". If a card
    has an address, its key is sent only there. Other servers get the key in the variable `other`.
    Raises UserError if a key is missing."""
    is_its_own = not (url and card.base_url) or cards.origin(url) == cards.origin(card.base_url)
    if (names := card.key_variables) and is_its_own:
        for name in names:
            if key := Key(_value(name) or _in_file(name), name, card.key_header):
                return key
        raise UserError(
            f"{' or '.join(names)} is not set, but the card {card.name} reads the server's key "
            f"from it. Set it in the environment, or write {names[0]}=… into {files.HOME}/.env"
        )
    if card.base_url and is_its_own:
        return Key(variable="")
    return Key(_value(other), other, card.key_header)


def _in_file(name: str) -> str:
    """Return the value of `name` in files.HOME/.env, or "" if it is missing. A venv named .env is
    ignored."""
    if not (path := files.HOME / ".env").is_file():
        return ""
    from dotenv import dotenv_values  # slow to load, and rarely needed

    text = files.read_text(path, "the file", "Set the key in the environment")
    return (dotenv_values(stream=io.StringIO(text), interpolate=False).get(name) or "").strip()


# MODEL is a card's name or .toml file, the path of weights to serve, or the name of a model on a
# server. If BASE_URL is set, a path is a name too, because vLLM and SGLang by default name a model
# by its path.


def card() -> Card:
    """Return the card that MODEL names, or cards.NONE if MODEL names no card. EFFORT replaces its
    effort. Raises UserError for an invalid card, or for EFFORT if the model does not reason or no
    model is chosen."""
    found, effort = cards.find(_value("MODEL")), _value("EFFORT")
    if not effort:
        return found
    if not (_value("MODEL") or _value("BASE_URL")):
        raise UserError(
            f"EFFORT={effort:.40} needs a model that reasons. Set MODEL to a card like openai or "
            "to a model of the hub (owner/name), or BASE_URL to a server. Or unset EFFORT"
        )
    if _value("MODEL") and not found.name:
        cards.of_model(_value("MODEL"), "").with_effort(effort)  # a known model may take no effort
    return found.with_effort(effort)


@contextmanager
def choosing(named: str) -> Iterator[None]:
    """Select the grader that GRADER=`named` names, during the block. If `named` is "", nothing
    changes. A card replaces MODEL, BASE_URL and ENGINE. Another name is a model of the server at
    GRADER_URL or BASE_URL, or else of the server that MODEL's card describes. Otherwise, a model of
    the hub or a path is served here. Raises UserError for an invalid card or another name."""
    with setting(**_choice(named)):
        yield


def _choice(named: str) -> dict[str, str]:
    """Return the settings for `choosing`."""
    if not named:
        return {}
    if cards.find(named).name:
        return {"MODEL": named, "BASE_URL": "", "ENGINE": ""}
    if _value("GRADER_URL"):
        return {"GRADER_MODEL": named}
    if _value("BASE_URL"):
        return {"MODEL": named}
    if hub_model(named) or Path(named).exists():
        return {"MODEL": named}
    its = cards.find(_value("MODEL"))
    if its.base_url and its.name in cards.names():
        return {"MODEL": f"{its.name}:{named}"}
    raise UserError(
        f"there is no card {named!r:.60}. For a model of a server, set GRADER_URL or BASE_URL. For "
        f"a model of the hub, give owner/name. {cards.listing()}"
    )


def has_own_grader(named: str) -> bool:
    """Return whether the model that GRADER=`named` names ("": unset) is on the grader's own server:
    at GRADER_URL, or in GRADER_MODEL's card. Raises UserError as `grader` does."""
    return bool(_value("GRADER_URL")) and not cards.find(named).name if named else bool(grader()[0])


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


def model() -> str:
    """Return the model that MODEL or its card names, or "" if neither does. Raises UserError for an
    invalid card."""
    its = card()
    return its.model if its.name else _value("MODEL")


def served_model() -> str:
    """Return the name that MODEL gives to a server's model, or "" if MODEL is unset or the path of
    weights to serve."""
    return "" if _is_weights() and not base_url() else model()


def _is_weights() -> bool:
    return bool(model()) and Path(model()).exists()


# The weights, and how they are served


def hub_model(named: str) -> tuple[str, str] | None:
    """Return the repository and the GGUF file ("": any) of a hub model (owner/name,
    owner/name/FILE.gguf), or None."""
    found = _ON_HUB.fullmatch(named)
    return (found[1], found[2] or "") if found and not Path(named).exists() else None


def python(engine: str) -> str | None:
    """Return the interpreter in SGLANG_PYTHON, VLLM_PYTHON or TRAIN_PYTHON, or None if the variable
    is not set."""
    return os.environ.get(f"{engine.upper()}_PYTHON")


# The environment of this process and its children


def with_changes(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with `changes` and this project in PYTHONPATH, for a process that runs
    its modules."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))  # ours first
    return {**os.environ, **changes, "PYTHONPATH": path}


def behind_gateway(root: str, folder: Path) -> dict[str, str]:
    """Return the environment of a command that uses the gateway at `root`, whose servers are
    registered in `folder`. Requests to these servers use no proxy. A path in MODEL is dropped,
    because the servers use another name."""
    hosts = {str(urllib.parse.urlsplit(url).hostname) for url in registered(folder)}
    direct = ",".join(filter(None, [os.environ.get("no_proxy"), *sorted(hosts)]))
    kept = {
        name: value for name, value in os.environ.items() if name != "MODEL" or not _is_weights()
    }
    return kept | {
        "BASE_URL": f"{root}/v1",
        "FLEET": str(folder),
        "no_proxy": direct,
        "NO_PROXY": direct,
    }


def fleet(address: str) -> set[str]:
    """Return the URLs of the servers that the gateway at `address` uses. A run sends its key only
    to these servers. The set is empty unless harness/fleet.py started this process for the
    gateway."""
    return (
        registered(Path(os.environ["FLEET"]))
        if address == _value("BASE_URL") and _value("FLEET")
        else set()
    )


def registered(folder: Path) -> set[str]:
    """Return the URLs of the servers that are registered in `folder`."""
    urls = set()
    for file in folder.glob("[0-9]*"):
        with suppress(FileNotFoundError):  # removed after it was listed
            urls.add(file.read_text())
    return urls


def forget_proxies() -> None:
    """Remove the proxies' variables. Our servers must be reached directly, and the gateway ignores
    NO_PROXY=*."""
    for name in [
        name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")
    ]:
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
        return print(engine())
    if len(argv) != 1 or not argv[0]:
        raise UserError("no grader is named. Give GRADER=CARD or GRADER=owner/name")
    with choosing(argv[0]):
        if has_own_grader(argv[0]):
            return print(grader()[0])
        key()
        print(base_url() or engine())


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
