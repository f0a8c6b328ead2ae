"""Derive the server that a run uses, or starts, from the values of environment variables.

core/engines/environment.py reads the variables. Each value is stripped, because a key from a file
often ends in a newline. MODEL may name a card (core/engines/cards.py), which may supply the model,
address, key and engine."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from core.base import files
from core.base.errors import UserError
from core.constants import ConstantGroup, constant, rules
from core.engines import cards
from core.engines.card_template import template_in
from core.engines.cards import Card
from core.engines.protocol import Key, engines, is_local
from core.engines.shape import KV_BYTES

LLAMACPP = "llamacpp"  # the ENGINE for a .gguf file
EMBEDDED = "embedded"  # the ENGINE for the embedded model
# The roles of a second model, and what its server here adds to PORT. The variables of a role begin
# with its name: GRADER_URL, GRADER_MODEL, GRADER_KEY.
GRADER = "GRADER"
SCORER = "SCORER"
PORTS = {GRADER: 1, SCORER: 2}
# the variables of a run's server that a second model's server here shares
SHARED = ("API_KEY", "BIND", "ENGINE", "EXACT", "KV", "TP", "WEIGHTS_DIR")
_ON_HUB = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:/((?:\w[\w.-]*/)?\w[\w.-]*\.gguf))?")


class Hosting(ConstantGroup):
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
    CHAT_TEMPLATE: str = constant(
        "", "the chat template of a GGUF file (a name that llama.cpp knows, or a Jinja file)"
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


class Remote(NamedTuple):
    """A server to attach to: its address, model, key and card. Unset values are "" (card:
    cards.NONE)."""

    url: str
    model: str
    key: Key
    card: Card


# MODEL is a card's name or .toml file, the path of weights to serve, or the name of a model on a
# server. If BASE_URL is set, a path is a name too, because vLLM and SGLang by default name a model
# by its path.


@dataclass(frozen=True)
class Wanted:
    """The server that the environment's `values` select. A property raises UserError if the
    variables that it depends on are invalid."""

    values: Mapping[str, str] = field(repr=False)  # by name. Some are secret

    def value(self, name: str) -> str:
        """Return a variable's value, or "" if it is unset."""
        return self.values.get(name, "").strip()

    @cached_property
    def hosting(self) -> Hosting:
        """The settings of our servers."""
        given: dict[str, Any] = {}
        for name in rules(Hosting):
            if value := self.value(name):
                given[name] = value
        return Hosting(**given)

    @cached_property
    def api_key(self) -> Key:
        """The key API_KEY, or "". Our servers require it in requests."""
        return Key(self.value("API_KEY"))

    @cached_property
    def card(self) -> Card:
        """The card that MODEL names, or cards.NONE. EFFORT replaces its effort, and TEMPLATE its
        template. EFFORT is an error if the model does not reason or no model is chosen."""
        named = self.value("MODEL")
        effort = self.value("EFFORT")
        card = cards.find(named)
        if template := self.value("TEMPLATE"):
            card = replace(card, template=template_in(template))
        if not effort:
            return card
        if not (named or self.value("BASE_URL")):
            raise UserError(
                f"EFFORT={effort:.40} needs a model that reasons. Set MODEL to a card like openai "
                "or to a model of the hub (owner/name), or BASE_URL to a server. Or unset EFFORT"
            )
        if named and not card.name:
            cards.of_model(named, "").with_effort(effort)  # a known model may take no effort
        return card.with_effort(effort)

    @property
    def model(self) -> str:
        """The model that MODEL or its card names, or "" if neither does."""
        return self.card.model if self.card.name else self.value("MODEL")

    @property
    def served_model(self) -> str:
        """The name that MODEL gives to a server's model. It is "" if MODEL is unset, or names
        weights to serve (a path, or a GGUF file of the hub)."""
        if self.base_url:
            return self.model
        is_file_on_hub = self.is_gguf() and hub_model(self.model) is not None
        return "" if is_file_on_hub or self.is_weights() else self.model

    def is_weights(self) -> bool:
        """Return whether MODEL is the path of weights."""
        return bool(self.model) and Path(self.model).exists()

    @property
    def is_on_hub(self) -> bool:
        """True if MODEL or the file of its card is a model of the hub."""
        if self.card.file:
            return self.card.file.wheel is None
        return hub_model(self.model) is not None

    @property
    def revision(self) -> str:
        """The commit, branch or tag in REVISION, or "" if it is unset."""
        return self.hosting.REVISION if self.value("REVISION") else ""

    @property
    def base_url(self) -> str:
        """The address of the server to use, from BASE_URL or else the card, or ""."""
        return self.value("BASE_URL") or self.card.base_url

    @property
    def remote(self) -> Remote:
        """The server to use at `base_url`. A card's missing key is an error."""
        url = self.value("BASE_URL")
        is_openai_key = not self.api_key and bool(url) and url == self.value("OPENAI_BASE_URL")
        key = self.key_for(self.card, url, "OPENAI_API_KEY" if is_openai_key else "API_KEY")
        return Remote(self.base_url, self.served_model, key, self.card)

    @cached_property
    def engine(self) -> str:
        """The engine that ENGINE, MODEL's card or a .gguf file in MODEL selects, or "" if none of
        them selects one. With an address (BASE_URL or the card's), .gguf selects nothing. It is an
        error if ENGINE and the card differ, if a card names no server, or if the embedded engine
        should serve another model."""
        named = self.value("ENGINE").lower()
        unknown = {named, self.card.engine} - {"", *engines()}
        if unknown:
            raise UserError(
                f"there is no engine {min(unknown)}. ENGINE or a card can name "
                f"{', '.join(engines())}. For another server, unset ENGINE and set BASE_URL to its "
                "address"
            )
        chosen = named or self.card.engine
        if self.base_url:
            return chosen
        self._check_engine(named, chosen)
        if chosen:
            return chosen
        is_file = Path(self.model).is_file() or hub_model(self.model)
        return LLAMACPP if self.is_gguf() and is_file else ""

    def is_gguf(self) -> bool:
        """Return whether MODEL has the name of a GGUF file, which may not exist."""
        return self.model.endswith(".gguf")

    def _check_engine(self, named: str, chosen: str) -> None:
        """Raise UserError if the engine `chosen` can't serve MODEL. `named` is the value of
        ENGINE."""
        card = self.card
        if card.name and not chosen:
            raise UserError(
                f"the card {card.name} names no server. Set base_url in a copy of it, or BASE_URL "
                "for a run"
            )
        if card.engine not in ("", chosen):
            raise UserError(
                f"ENGINE={named}, but MODEL={self.value('MODEL')} is a card for {card.engine}. "
                "Unset one of them"
            )
        if chosen == EMBEDDED and (self.is_gguf() or (self.model and not card.name)):
            raise UserError(
                f"the embedded engine serves only its own model, not {self.model}. Unset ENGINE, "
                f"and set MODEL={self.model} alone, or unset MODEL"
            )

    def check(self) -> None:
        """Raise UserError if a setting of our servers or MODEL's card is invalid, or if BIND
        requires API_KEY."""
        _ = self.engine  # its derivation checks ENGINE, MODEL and the card
        if not self.api_key and not is_local(self.hosting.address):
            raise UserError(
                f"BIND={self.hosting.BIND} opens the server to the network. Set API_KEY, which "
                "clients must send"
            )

    @property
    def asked_by(self) -> str:
        """The setting that selects the engine, as NAME=value."""
        if self.value("ENGINE"):
            return f"ENGINE={self.value('ENGINE').lower()}"
        return f"MODEL={self.value('MODEL')}"

    def named_second(self, role: str) -> str:
        """Return the model that GRADER_MODEL or SCORER_MODEL names, by the `role`, or "". Without
        SCORER_MODEL, the field scorer of MODEL's card names the scorer."""
        named = self.value(f"{role}_MODEL")
        if named or role != SCORER:
            return named
        return self.card.scorer

    def second(self, role: str) -> Remote:
        """Return the server of the second model with this `role`, at its variable's or its card's
        address, if it has one. It never receives our API_KEY. It is an error if the model has no
        address, or the key is missing."""
        named = self.named_second(role)
        given_url = self.value(f"{role}_URL")
        card = cards.find(named) if named else cards.NONE
        url = given_url or card.base_url
        if url:
            model = card.model if card.name else named
            return Remote(url, model, self.key_for(card, given_url, f"{role}_KEY"), card)
        if not named or self.served_second(role):
            return Remote("", "", Key(), card)
        wrong = (
            "is a card without an address" if card.name else f"is no card, and {role}_URL is unset"
        )
        raise UserError(
            f"{role}_MODEL={named} {wrong}. Set {role}_URL to its server's address, or give a "
            f"model of the hub (owner/name) or a path. {cards.listing(named)}"
        )

    def served_second(self, role: str) -> "Wanted | None":
        """Return the server on this machine of the second model with this `role`. It has a port of
        its own. Return None if the model has an address or can't be served. ENGINE counts unless a
        card or a GGUF file selects an engine."""
        named = self.named_second(role)
        card = cards.find(named) if named else cards.NONE
        if self.value(f"{role}_URL") or card.base_url:
            return None
        is_servable = bool(card.engine or hub_model(named) or (named and Path(named).exists()))
        if not is_servable:
            return None
        values = {name: self.value(name) for name in SHARED if self.value(name)}
        has_engine = card.engine or named.endswith(".gguf") or self.value("ENGINE") == EMBEDDED
        if has_engine:
            values.pop("ENGINE", None)
        port = str(self.hosting.PORT + PORTS[role])
        return Wanted(values | {"MODEL": named, "PORT": port})

    def key_for(self, card: Card, url: str, variable: str) -> Key:
        """Return the key for the server at `url`, or for the card's server if `url` is "". If a
        card has an address, its key is sent only there. Other servers get the key in the
        `variable`. Raises UserError if a key is missing."""
        has_both = bool(url and card.base_url)
        if has_both and cards.origin(url) != cards.origin(card.base_url):
            return Key(self.value(variable), variable, card.key_header)
        names = card.key_variables
        for name in names:
            if key := Key(self.value(name) or _in_file(name), name, card.key_header):
                return key
        if names:
            raise UserError(
                f"{' or '.join(names)} is not set, but the card {card.name} reads the server's key "
                f"from it. Set it in the environment, or write {names[0]}=… into {files.HOME}/.env"
            )
        if card.base_url:
            return Key(variable="")
        return Key(self.value(variable), variable, card.key_header)


def _in_file(name: str) -> str:
    """Return the value of `name` in files.HOME/.env, or "" if it is missing. A venv named .env is
    ignored."""
    path = files.HOME / ".env"
    if not path.is_file():
        return ""
    from dotenv import dotenv_values  # slow to load, and rarely needed

    text = files.read_text(path, "the file", "Set the key in the environment")
    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return (values.get(name) or "").strip()


def hub_model(named: str) -> tuple[str, str] | None:
    """Return the repository and the GGUF file ("": any) of a hub model (owner/name,
    owner/name/FILE.gguf, owner/name/FOLDER/FILE.gguf), or None."""
    match = _ON_HUB.fullmatch(named)
    if match is None or Path(named).exists():
        return None
    return match[1], match[2] or ""


def with_openai_names(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables `values`, with OPENAI_BASE_URL as BASE_URL if no variable selects a
    server: neither BASE_URL nor ENGINE, nor a card or a file in MODEL. `Wanted.remote` then takes
    its key from OPENAI_API_KEY, unless there is an API_KEY. OPENAI_API_KEY alone has no effect, so
    that it sends no run to OpenAI. It is never the key of our own servers."""
    named = dict(values)
    model = named.get("MODEL", "").strip()
    is_card_or_file = bool(model) and (bool(cards.find(model).name) or Path(model).exists())
    url = named.get("OPENAI_BASE_URL", "").strip()
    if not url or "BASE_URL" in named or named.get("ENGINE", "").strip() or is_card_or_file:
        return named
    named["BASE_URL"] = url
    return named
