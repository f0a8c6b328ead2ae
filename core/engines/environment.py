"""The settings of servers in the environment, each read here and nowhere else (RESULTS_DIR: core/base/files.py).

They are read when they are used, never at import, and without the blanks around them: a key that was read from a file
often ends in a newline. MODEL may name a card (core/engines/cards.py), and then stands for the fields of that.

`python -m core.engines.environment CARD` prints the need of a grader on a cluster: the address of its model, or the
engine that serves it. A card that is unknown, or whose key is missing, is an error before anything is submitted.
"""

import io
import os
import sys
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from core.base import files
from core.base.errors import UserError, command
from core.base.files import ROOT
from core.engines import cards
from core.engines.cards import Card
from core.engines.server import Key, engines, is_local
from core.engines.shape import KV_BYTES

PORT = 30000  # the default


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()


def check() -> None:
    """Raises UserError for settings that cannot be meant."""
    engine()
    port()
    api_key()
    if not api_key() and not is_local(f"http://{host()}"):
        raise UserError(f"BIND={host()} opens the server to the network. Set API_KEY, which requests must then carry")


# Where servers listen, and which one is asked for


def host() -> str:
    """The address that our servers listen on: BIND, else this machine alone."""
    return _value("BIND") or "127.0.0.1"


def port() -> int:
    """The port that our server listens on, and where a run looks for one: PORT, else 30000. Raises UserError."""
    named = os.environ.get("PORT", str(PORT))
    if not named.isascii() or not named.isdigit() or not 0 < int(named) < 65536:
        raise UserError(f"PORT={named} is not a port. Give a number from 1 to 65535")
    return int(named)


def api_key() -> Key:
    """The key that our servers ask for, and that requests carry; "" where there is none. Raises UserError."""
    return Key(_secret("API_KEY", _value("API_KEY")))


def engine() -> str:
    """The engine that ENGINE, or the card of MODEL, asks for; "" where the best is taken. Raises UserError."""
    named, of_card = _value("ENGINE").lower(), card().engine
    if unknown := {named, of_card} - {"", *engines()}:
        raise UserError(f"ENGINE={min(unknown)} is not known. There are: {', '.join(engines())}")
    if named and of_card and named != of_card and not base_url():
        raise UserError(
            f"ENGINE={named}, but MODEL={_value('MODEL')} is a card for ENGINE={of_card}. Unset one of them"
        )
    return named or of_card


def asked_by() -> str:
    """What asks for that engine, as it was written."""
    return f"ENGINE={_value('ENGINE').lower()}" if _value("ENGINE") else f"MODEL={_value('MODEL')}"


def check_is_served(card: Card, engine: str) -> None:
    """Raise UserError for a `card` that names no engine, if no `engine` is asked for."""
    if card.name and not engine:
        raise UserError(
            f"the card {card.name} names no engine to start. Set BASE_URL to the server's address, or unset MODEL"
        )


# A server to attach to


def base_url() -> str:
    """The address of the server to use: BASE_URL, else the card's; "" where none is named."""
    return _value("BASE_URL") or card().base_url


def is_cards_address() -> bool:
    """Whether that is the address of MODEL's card, and not BASE_URL."""
    return not _value("BASE_URL") and bool(card().base_url)


def key() -> Key:
    """Its key. Raises UserError where the card names one that is not there."""
    return _key_for(card(), _value("BASE_URL"), "API_KEY")


def grader() -> tuple[str, str, Key, Card]:
    """Address, model, key and card of a grader's own server; "" for what is not set. Our API_KEY is not sent there.
    Raises UserError."""
    url, named = _value("GRADER_URL"), _value("GRADER_MODEL")
    its = cards.find(named) if named else cards.NONE
    if address := url or its.base_url:
        return address, its.model if its.name else named, _key_for(its, url, "GRADER_KEY"), its
    if not named:
        return "", "", Key(), its
    what = "is a card without an address" if its.name else "is no card, and GRADER_URL is not set"
    raise UserError(f"GRADER_MODEL={named} {what}. Set GRADER_URL to its server's address. {cards.listing()}")


def _key_for(card: Card, url: str, other: str) -> Key:
    """The key for the server of `card`, or for the one at `url` in its place. A card's key goes to its own address and
    nowhere else; `other` names the variable of servers that have no key of a card's. Raises UserError."""
    is_its_own = not (url and card.base_url) or cards.origin(url) == cards.origin(card.base_url)
    if card.key_env and is_its_own:
        found = _secret(card.key_env, _value(card.key_env) or _in_file(card.key_env))
        if not found:
            raise UserError(
                f"{card.key_env} is not set: it holds the key of the server that the card {card.name} is of. Set it in "
                f"the environment, or write {card.key_env}=… into {_file()}"
            )
        return Key(found, card.key_env, card.key_header)
    if card.base_url and is_its_own:
        return Key(variable="")
    return Key(_secret(other, _value(other)), other, card.key_header)


def _file() -> Path:
    return files.HOME / ".env"


def _in_file(name: str) -> str:
    """What .env in the checkout says; "" where it says nothing. (Some keep a folder of that name there.)"""
    if not _file().is_file():
        return ""
    from dotenv import dotenv_values  # takes a while to load, and few need it

    text = files.read_text(_file(), "the file", "Set the key in the environment")
    return (dotenv_values(stream=io.StringIO(text), interpolate=False).get(name) or "").strip()


def _secret(name: str, key: str) -> str:
    """`key`, which the variable `name` holds. Raises UserError, and does not show it."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UserError(f"{name} holds a character that no key has (it is not shown here). Set it again")
    return key


# MODEL: the name of a card, or a .toml file; else a path that exists here is of weights to serve, and anything else the
# name of a model on a server. With BASE_URL nothing is served here, and a path is a name too: vLLM and SGLang call a
# model so where they are given no other.


def card() -> Card:
    """The card that MODEL names; cards.NONE where it names none. Raises UserError."""
    named = _value("MODEL")
    is_path = bool(named) and not named.endswith(".toml") and Path(named).exists()
    return cards.NONE if is_path or not named else cards.find(named)


@contextmanager
def choosing(named: str) -> Iterator[None]:
    """While the block runs, MODEL is the card of this name (or .toml file), and BASE_URL and ENGINE, which are of
    another model, say nothing. "": all stays as it is. Raises UserError where there is no such card."""
    if not named:
        yield
        return
    chosen = named if named.endswith(".toml") else f"{cards.EXPLICIT}{named.removeprefix(cards.EXPLICIT)}"
    cards.find(chosen)
    with _in_place_of(("MODEL", "BASE_URL", "ENGINE"), chosen):
        yield


@contextmanager
def choosing_weights(path: Path) -> Iterator[None]:
    """While the block runs, MODEL is the weights in `path`."""
    with _in_place_of(("MODEL",), str(path)):
        yield


@contextmanager
def setting(**values: str | None) -> Iterator[None]:
    """Set environment variables during the block. None leaves one as it is."""
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
def _in_place_of(names: Iterable[str], model: str) -> Iterator[None]:
    """While the block runs, MODEL is this `model`, and the others of `names` say nothing."""
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ["MODEL"] = model
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def model() -> str:
    """The model that MODEL, or its card, names; "" where it names none. Raises UserError."""
    its = card()
    return its.model if its.name else _value("MODEL")


def served_model() -> str:
    """The name that MODEL gives to the model on a server; "" where it gives none."""
    return "" if _is_weights() and not base_url() else model()


def _is_weights() -> bool:
    return bool(model()) and Path(model()).exists()


# The weights, and how they are served


def weights_folder() -> Path | None:
    """The folder of downloaded weights that WEIGHTS_DIR names; None where it names none."""
    named = _value("WEIGHTS_DIR")
    return Path(os.path.expanduser(named)) if named else None


def weights_revision() -> str:
    """The commit or branch of QED-Nano that QED_NANO_REVISION names, by default the newest."""
    return _value("QED_NANO_REVISION") or "main"


def kv_cache() -> str:
    """The type of KV cache that KV asks for; "" where it asks for none. Raises UserError."""
    kv = _value("KV").lower()
    if kv and kv not in KV_BYTES:
        raise UserError(f"KV={kv} is not a type of KV cache. There are: {', '.join(KV_BYTES)}")
    return kv


def is_deterministic() -> bool:
    """Whether DETERMINISTIC asks for an engine that honours seeds. Raises UserError."""
    wanted = _value("DETERMINISTIC")
    if wanted not in ("", "0", "1"):
        raise UserError(f"DETERMINISTIC={wanted} is neither 1 (SGLang honours seeds) nor 0")
    return wanted == "1"


def python(engine: str) -> str | None:
    """The interpreter that SGLANG_PYTHON (or VLLM_PYTHON) names; None where it is unset."""
    return os.environ.get(f"{engine.upper()}_PYTHON")


# The environment of this process and of those that it starts


def with_changes(changes: Mapping[str, str]) -> dict[str, str]:
    """For a process that runs a module of this project."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))  # ours first
    return {**os.environ, **changes, "PYTHONPATH": path}


def behind_gateway(root: str, folder: Path) -> dict[str, str]:
    """For a command behind the gateway at `root`, whose servers are registered in `folder`: it asks those what they
    are, through no proxy. A path in MODEL is of what they serve; they call it by another name."""
    hosts = {str(urllib.parse.urlsplit(url).hostname) for url in registered(folder)}
    direct = ",".join(filter(None, [os.environ.get("no_proxy"), *sorted(hosts)]))
    kept = {name: value for name, value in os.environ.items() if name != "MODEL" or not _is_weights()}
    return kept | {"BASE_URL": f"{root}/v1", "FLEET": str(folder), "no_proxy": direct, "NO_PROXY": direct}


def fleet(address: str) -> set[str]:
    """The URLs of the servers behind the gateway at `address`, if core/engines/fleet.py has put this process behind
    it. A run sends its key to no others."""
    return registered(Path(os.environ["FLEET"])) if address == _value("BASE_URL") and _value("FLEET") else set()


def registered(folder: Path) -> set[str]:
    """The URLs of the servers that have registered themselves in `folder`."""
    urls = set()
    for file in folder.glob("[0-9]*"):
        with suppress(FileNotFoundError):  # gone between the listing and the reading
            urls.add(file.read_text())
    return urls


def forget_proxies() -> None:
    """A proxy is for the world outside, not for our servers; the gateway knows no NO_PROXY=*."""
    for name in [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]:
        del os.environ[name]


def let_openmp_sleep() -> None:
    """To be called before llama.cpp is imported: OpenMP threads that spin on busy cores bring it down from 1,400 to
    3-13 tokens/s."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")


def main(argv: Sequence[str]) -> None:
    if len(argv) != 1 or not argv[0]:
        raise UserError("name the card of the grader: GRADER=card")
    with choosing(argv[0]):
        key()
        if not base_url():
            check_is_served(card(), engine())
        print(base_url() or engine())


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
