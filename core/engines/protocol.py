"""Define the record of a model server and the dialect of its engine. A dialect recognises and asks
servers.

core/engines/attach.py creates records of running servers, and core/server.py starts servers
and creates their records. Each file in core/engines/dialects defines one engine as DIALECT. A new
engine needs a file in this folder. If it runs on GPUs, it derives from OnGpu
(core/engines/on_gpu.py) and also needs a case in setup.sh."""

import importlib
import ipaddress
import pkgutil
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from core.base.errors import UserError, one_line
from core.base.thinking import TAG, is_open
from core.constants import PENALTIES
from core.engines.cards import NONE, Card
from core.types import Message

WAITING = 2  # requests in a server's queue, so that none of its slots is idle
UNKNOWN_LIMIT = 16  # requests in flight if a server does not report a limit
CANNOT = "the model's card says that its server can't continue a message"
NO_TEMPLATE = (
    "The model's file has no chat template, so llama.cpp uses ChatML. If the model was trained "
    "with another format, its replies get worse. Use a file with a template, or set CHAT_TEMPLATE"
)
KWARGS = "chat_template_kwargs"  # the field of a request with arguments of the chat template
# a message that shows how a chat template renders messages, and how a model answers
MARK = "What is 6 times 7?"

# The values in the names of vLLM and SGLang. Both take defaults from the model's
# generation_config.json.
NO_PENALTIES = dict(zip(PENALTIES, (1.0, 0.0, 0.0), strict=True))
_BY_CONTENT = re.compile(r"@([0-9a-f]{12})$")
# a digest of weights on this machine (identity.py) or from Ollama
_DIGEST = re.compile(r"[0-9a-f]{16}")


class Key(str):
    """A server's API key, or "" without one, with the variable that sets it and the header that
    carries it. Raises UserError for an invalid key, without showing it."""

    # the variable's name, shown in place of the key ("" if the card names no variable)
    variable: str
    header: str  # the header that carries the key ("" for Authorization)

    def __new__(cls, text: str = "", variable: str = "API_KEY", header: str = "") -> "Key":
        if not text.isascii() or not text.isprintable() or " " in text:
            raise UserError(
                f"{variable} has a space or another character that no key has. Set {variable} to a "
                "key alone"
            )
        key = super().__new__(cls, text)
        key.variable = variable
        key.header = header
        return key

    @property
    def remedy(self) -> str:
        """The advice if a server refuses the key."""
        if self.variable:
            return f"Set {self.variable} to a valid key"
        return "Name the key's variable in a card's key_env"

    def __repr__(self) -> str:
        return f"({self.variable})"

    @property
    def sent(self) -> tuple[str, str]:
        """The name and value of the header that carries the key."""
        if self.header:
            return self.header, str(self)
        return "Authorization", f"Bearer {self}"


NO_KEY = Key()


class Rewards(NamedTuple):
    """An engine's endpoint for reward models, outside OpenAI's API."""

    path: str
    takes_tokens: bool = False  # whether it takes the tokens of a prompt instead of messages
    gives_logits: bool = False  # whether two numbers are logits instead of probabilities


class Dialect:
    """An engine or a service with OpenAI's API. The default values describe a known engine that
    continues messages."""

    kind = "other"  # its name in journal keys, results and printed lines
    # The values of ENGINE that select it. The first is also `owned_by` in its list of models, by
    # which it is recognised. A run starts llama.cpp and each OnGpu, and only attaches to others.
    # Unknown engines have no name. They may call any model "default", so their address (or their
    # weights) identifies the model.
    names: tuple[str, ...] = ()
    # whether journal keys contain its name even if it does not report its weights
    is_in_keys = True
    # whether it may run in this process (its release has another form outside)
    is_in_process = False
    has_top_k = True  # whether requests may contain top_k and min_p
    # Values that switch its other sampling parameters off. Otherwise the model's generation config
    # or the server's command line decides them. Requests to unknown servers lack these fields,
    # because many servers refuse them.
    neutral: Mapping[str, Any] = {}
    # True if it continues a message, None if only a trial shows whether it does
    continues: bool | None = True
    # For the time left of a run (assumed unless measured, docs/benchmarks.md): the time of reading
    # a token over the time of writing one, and the power of the requests in flight with which a
    # request's time grows.
    reading = 0.1
    sharing = 0.0
    hangs_up = False  # whether it closes a connection after a streamed reply without announcing it
    # whether it ends a completion at its context instead of refusing a larger cap
    ends_at_context = False
    # whether a server that generates also embeds: it returns the hidden state of a prompt's last
    # token
    embeds = False
    # the endpoint that renders a prompt, and the field of its answer with the prompt
    renders = ("", "")
    rewards: Rewards | None = None

    def described(
        self, server: "Server", entry: Mapping[str, Any], models: Mapping[str, Any]
    ) -> "Server":
        """Return the `server`, which runs this engine, with the properties that it reports besides
        its context. `entry` is our model's entry in the server's list of models, and `models` has
        all entries by name."""
        raise NotImplementedError

    def reasoning(self, effort: str, template: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request that set how a model reasons: its `effort` ("": not sent),
        and the arguments of the chat `template`."""
        fields: dict[str, Any] = {}
        if effort:
            fields["reasoning_effort"] = effort
        if template:
            fields[KWARGS] = dict(template)
        return fields

    def closed(
        self, server: "Server", messages: Sequence[Message], thinking: str, opening: str
    ) -> dict[str, Any]:
        """Return the fields of a request that continues after closed `thinking` and `opening`.
        Templates split at tags and strip thinking, so the thinking is sent stripped and without
        tags inside."""
        return ending(messages, f"<think>\n{closing(thinking, opening)}")

    def left_open(
        self, server: "Server", messages: Sequence[Message], thinking: str
    ) -> dict[str, Any]:
        """Return the fields of a request that continues inside `thinking`, which stays open."""
        return ending(messages, f"<think>\n{thinking}")

    def continuation(self, content: str, reasoning: str, opening: str) -> str | None:
        """Return the text of a reply after `opening` (see `closed`). An engine may return None for
        a new turn. A server's parser takes all text before the next closing tag as reasoning."""
        if content.startswith(opening):
            return content.removeprefix(opening)
        return reasoning + content

    def cannot_continue(self, server: "Server") -> str:
        """Return why a `server` with this engine can't continue a message, or "" if it can or only
        a trial shows it."""
        return ""


@dataclass(frozen=True)
class Server:
    """A running server. Completions of two servers are interchangeable if `identity` and
    `key_fields` are equal."""

    kind: str  # the name of its dialect
    base_url: str  # without /chat/completions (for our engines it ends in /v1)
    model: str  # the name that requests use
    why: str  # why a run uses it, in a short clause for the run's first lines and for results
    limit: int = UNKNOWN_LIMIT  # requests in flight that keep it full
    kv_tokens: int = 0  # of its KV caches together, if it reports them
    most_running: int = 0  # requests that it decodes together at most, if it reports kv_tokens
    context: int | None = None  # tokens of prompt and completion together, for one request
    version: str | None = None
    sha256: str | None = None  # of the model's GGUF file, if this file is here
    revision: str | None = None  # the commit of the model's weights, if they were fetched here
    # the text that the chat template appends to a question (None if unknown)
    tail: str | None = None
    # whether the chat template knows enable_thinking, which closes thinking in its own tokens
    closes: bool = False
    seeds: bool | None = None  # whether a request's seed determines the sample (None if unknown)
    # whether a trial has shown that it continues a message (None: not tried)
    trial: bool | None = None
    # whether equal seeds give equal replies in any batch, as our llama.cpp reports
    exact: bool | None = None
    # whether the model's GGUF file has a chat template (None if the file is not here)
    templated: bool | None = None
    # as reported (identity.fingerprint)
    weights: dict[str, str] = field(default_factory=dict, hash=False)
    replicas: tuple[str, ...] = ()  # other addresses of the same model, in this process
    # facts that the server does not report, and settings
    card: Card = field(default=NONE, repr=False, hash=False)
    # the query of every address ("api-version")
    query: dict[str, str] = field(default_factory=dict, hash=False)
    key: Key = field(default=NO_KEY, repr=False)
    # Probes this address again. Returns None if nothing answers. Raises UserError if the server is
    # not usable.
    probe_again: "Callable[[Server], Server | None]" = field(
        default=lambda server: server, repr=False, compare=False
    )
    # Returns why a server that was started here ended. Returns None while it runs, and for other
    # servers.
    failure: Callable[[], str | None] = field(default=lambda: None, repr=False, compare=False)

    @property
    def dialect(self) -> Dialect:
        """The dialect of the server's engine."""
        return named(self.kind)

    @property
    def root(self) -> str:
        """The address of the server's endpoints outside OpenAI's API."""
        return self.base_url.removesuffix("/v1")

    @property
    def choice(self) -> str:
        """The server's kind and address, and the reason for its choice, for people."""
        text = f"{self.kind} at {self.base_url}, because {self.why}"
        if self.exact is False:
            text += ". Fast: replies may depend on the batch (EXACT=1 for exact)"
        if self.templated is False:
            text += f". {NO_TEMPLATE}"
        return text

    @property
    def identity(self) -> str:
        """The model's name in journal keys. The address is added if an unknown engine reports no
        weights."""
        is_unknown = not (self.dialect.names or self.weights)
        return f"{self.model} at {self.base_url}" if is_unknown else self.model

    @property
    def rests_on(self) -> str:
        """The name or unreadable path that identifies the model in the journal, or "" if the
        weights' digest does."""
        weights = self.weights.get("weights", "")
        if _DIGEST.fullmatch(weights) or (not weights and digest_in(self.model)):
            return ""
        if weights.startswith("/"):
            return one_line(f"the path {weights} (not readable here)", 300)
        return one_line(f"the name {weights or self.identity}", 300)

    @property
    def key_fields(self) -> dict[str, str]:
        """The fields of journal keys besides `identity`, including the card's fields. Unknown
        engines and llama.cpp are named only if they report weights, because otherwise `identity`
        suffices."""
        fields: dict[str, str] = {}
        if self.dialect.is_in_keys or self.weights:
            fields = {"kind": self.kind} | self.weights
        return fields | self.card.key_fields

    @property
    def origin(self) -> str:
        """The description of the server in one line. The journal stores it with each completion."""
        has_digest = digest_in(self.model) is not None
        if self.dialect.is_in_process and not self.weights and has_digest:
            return one_line(f"{self.kind}, {self.model}", 500)
        parts = [f"{self.kind} {self.version or ''}".strip(), self.model]
        for name, value in self.weights.items():
            parts.append(f"{name} {value}")
        if not self.weights and not has_digest:
            parts.append(f"at {self.base_url}")
        return one_line(", ".join(parts), 500)

    @property
    def thinking(self) -> bool | None:
        """The state after `tail`: True inside thinking, False outside, None if unknown."""
        return None if self.tail is None else is_open(self.tail)

    @property
    def continues(self) -> bool | None:
        """True if it continues a message, by its card, its engine or a trial (None: unknown)."""
        if self.card.continues is not None:
            return self.card.continues
        return self.trial if self.dialect.continues is None else self.dialect.continues

    @property
    def cannot_continue(self) -> str:
        """The reason why the server can't continue a message, or "" if it can or only a trial shows
        it."""
        if self.card.continues is False:
            return CANNOT
        return self.dialect.cannot_continue(self)

    def model_info(self) -> dict[str, Any]:
        """Return the fields of results that describe the model."""
        return {
            "name": self.model,
            "revision": self.revision,
            "sha256": self.sha256,
            "reported": self.key_fields,
            "embedded": self.card.engine == "embedded",
            "card": self.card.to_json(),
        }


def digest_in(name: str) -> str | None:
    """Return the 12 digits of the weights' sha256 at the end of a name of this project, or None for
    other names."""
    match = _BY_CONTENT.search(name)
    return match[1] if match else None


def is_local(url: str) -> bool:
    """Return whether `url` has a loopback address or the host localhost, which are on this
    machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, for example 127.example.org
        return False


def is_unspecified(url: str) -> bool:
    """Return whether `url` has the address 0.0.0.0 or [::], at which a server listens on all of its
    addresses."""
    try:
        return ipaddress.ip_address(urllib.parse.urlsplit(url).hostname or "").is_unspecified
    except ValueError:
        return False


def template_arguments(effort: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a chat template, with the `effort` ("": none) as one of them."""
    return ({"reasoning_effort": effort} if effort else {}) | dict(template)


def untagged(thinking: str) -> str:
    return TAG.sub(" ", thinking).strip()


def closing(thinking: str, opening: str) -> str:
    """Return `thinking` without its tags, followed by a closing tag and `opening`."""
    return f"{untagged(thinking)}\n</think>\n\n{opening}"


def ending(messages: Sequence[Message], content: str) -> dict[str, Any]:
    """Return the field of a request whose last message is the beginning of the assistant's
    reply."""
    return {"messages": [*messages, {"role": "assistant", "content": content}]}


# All engines


@cache
def dialects() -> tuple[Dialect, ...]:
    """Return the dialects of all engines, sorted by their files' names."""
    package = importlib.import_module("core.engines.dialects")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return tuple(module.DIALECT for module in modules)


@cache
def named(kind: str) -> Dialect:
    by_kind = {dialect.kind: dialect for dialect in dialects()}
    return by_kind[kind]


def engines() -> tuple[str, ...]:
    """Return the possible values of ENGINE. A run may attach to each of them, and starts some."""
    names: list[str] = []
    for dialect in dialects():
        names += dialect.names
    return tuple(names)


def dialect_of(entry: Mapping[str, Any]) -> Dialect:
    """Return the dialect of the engine that owns a model, or else the dialect of unknown engines.
    `entry` is the model's entry in the server's list."""
    owner = str(entry.get("owned_by", "")).lower()
    for dialect in dialects():
        if dialect.names and dialect.names[0] == owner:
            return dialect
    return named(Dialect.kind)
