"""A server of a model as far as a run has to know it, and the dialect of its engine: how it is recognised and asked.

core/engines/attach.py makes records of servers that run, core/engines/start.py of those that it starts. Each engine is
one file in core/engines/dialects, which holds its DIALECT. The folder is listed: to attach to a new engine takes no
other file. One that runs start by themselves is an OnGpu (core/engines/dialect.py), and has a case in setup.sh.
"""

import importlib
import ipaddress
import pkgutil
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from core.base.errors import one_line
from core.constants import Sampled
from core.engines.cards import NONE, Card
from core.types import Message

WAITING = 2  # requests that wait in a server's queue, so that no slot in it is idle
UNKNOWN_LIMIT = 16  # requests in flight where a server says nothing about itself
CANNOT = "the model's card says that its server can't go on with a message that was begun"
MARK = "What is 6 times 7?"  # a message that shows what a chat template makes of messages, and how a model answers

TAG = re.compile(r"</?think>")
_BY_CONTENT = re.compile(r"@([0-9a-f]{12})$")
_DIGEST = re.compile(r"[0-9a-f]{16}")  # of weights: of those on this machine (identity.py), or Ollama's


class Key(str):
    """A server's key, "" for none. It knows the `variable` that holds it ("": its card names none), which messages name
    in its place, and the `header` that it is sent in ("": Authorization)."""

    variable: str
    header: str

    def __new__(cls, text: str = "", variable: str = "API_KEY", header: str = "") -> "Key":
        made = super().__new__(cls, text)
        made.variable, made.header = variable, header
        return made

    @property
    def remedy(self) -> str:
        """Return the advice for a server that refuses it."""
        return f"Set {self.variable} to a valid one" if self.variable else "Name its variable in the card (key_env)"

    @classmethod
    def of(cls, key: str) -> "Key":
        return key if isinstance(key, Key) else cls(key)

    def __repr__(self) -> str:
        return f"({self.variable})"

    @property
    def sent(self) -> tuple[str, str]:
        """The header that carries it: name and value."""
        return (self.header, str(self)) if self.header else ("Authorization", f"Bearer {self}")


class Dialect:
    """An engine, or a service that answers like OpenAI's. The defaults fit one that nothing else is known of."""

    kind = "other"  # its name in journal keys, results and printed lines
    owner = ""  # `owned_by` in its list of models, if that gives it away
    engines: tuple[str, ...] = ()  # the values of ENGINE that start it; the first one is its own
    is_known = True  # False: it may call any model "default", so its address is part of the model's identity
    is_in_keys = True  # whether journal keys hold its name also if it tells nothing of its weights
    is_in_process = False  # whether it may run in this process
    has_version = True  # whether its version is the same however it is reached
    has_top_k = True  # whether requests may hold top_k and min_p
    continues: bool | None = True  # whether it continues a message; None: only a trial shows it
    ends_at_context = False  # whether it ends a completion at its context, and refuses no cap for that

    # Recognise it

    def is_owner(self, about: Mapping[str, Any]) -> bool:
        """Return whether the entry `about` a model names this engine as its owner."""
        return bool(self.owner) and str(about.get("owned_by", "")).lower() == self.owner

    def recognised(self, found: "Server", about: Mapping[str, Any], models: Mapping[str, Any]) -> "Server | None":
        """Return the server `found` with what this engine tells; None if another engine answers there.

        `about`: the entry of its list of models for ours. `models`: all entries, by name. By default the owner decides.
        """
        return self.described(found, about, models) if self.is_owner(about) else None

    def described(self, found: "Server", about: Mapping[str, Any], models: Mapping[str, Any]) -> "Server":
        """Return the server `found` of this engine with what it tells of itself."""
        raise NotImplementedError

    # Ask it

    def refusal(self, server: "Server", config: Sampled) -> str:
        """Return why it would refuse every request of a run, in one line; "" if it would not."""
        return ""

    def closed(self, server: "Server", messages: Sequence[Message], thinking: str, opening: str) -> dict[str, Any]:
        """Return the fields of a request that continues behind closed `thinking` and `opening`.

        Templates cut at tags and strip thinking, so it is sent stripped and without tags of its own.
        """
        return ending(messages, f"<think>\n{closing(thinking, opening)}")

    def left_open(self, server: "Server", messages: Sequence[Message], thinking: str) -> dict[str, Any]:
        """Return the fields of a request that continues inside `thinking`, which stays open."""
        return ending(messages, f"<think>\n{thinking}")

    def continuation(self, content: str, reasoning: str, opening: str) -> str | None:
        """Return the text of a reply behind `opening` (see `closed`); None if the server began a new turn instead.

        A parser takes everything before the next closing tag for reasoning.
        """
        return content.removeprefix(opening) if content.startswith(opening) else reasoning + content


@dataclass(frozen=True)
class Server:
    """A server that answers. `identity` names the model in journal keys, and `told` is what else decides its answers:
    where both are equal, answers are interchangeable."""

    kind: str  # the name of its dialect
    base_url: str  # what requests put /chat/completions behind; of our engines it ends in /v1
    model: str  # the name that requests use
    why: str  # how it came to be chosen, for the first line a run prints
    limit: int = UNKNOWN_LIMIT  # requests in flight that keep it full
    context: int | None = None  # tokens of prompt and completion together, for one request
    version: str | None = None
    sha256: str | None = None  # of the model's file, where that is here
    revision: str | None = None  # the commit of the model's weights, where they were fetched here
    closes: bool = False  # whether the chat template knows enable_thinking, which closes thinking in its own tokens
    seeds: bool | None = None  # whether a request's seed decides what is drawn; None where that is not known
    weights: dict[str, str] = field(default_factory=dict, hash=False)  # what it says of them (identity.fingerprint)
    replicas: tuple[str, ...] = ()  # other addresses of the very same model, in this process
    card: Card = field(default=NONE, repr=False, hash=False)  # what is known of the model beside what the server says
    query: dict[str, str] = field(default_factory=dict, hash=False)  # behind every address ("api-version")
    api_key: str = field(default="", repr=False)
    # The server at this address as it is now; None where none answers. Raises UserError where it is not usable.
    look: "Callable[[Server], Server | None]" = field(default=lambda server: server, repr=False, compare=False)
    # What `tail` says.
    template: "Callable[[Server], str | None]" = field(default=lambda server: None, repr=False, compare=False)
    # Of a server that was started here: why it ended; None while it runs, and for servers of others.
    failure: Callable[[], str | None] = field(default=lambda: None, repr=False, compare=False)

    @property
    def dialect(self) -> Dialect:
        """How this engine is asked."""
        return named(self.kind)

    @property
    def root(self) -> str:
        """The address of its pages that are not OpenAI's."""
        return self.base_url.removesuffix("/v1")

    @property
    def identity(self) -> str:
        """A server of an unknown kind may call anything "default": there, the address belongs to it."""
        is_unknown = not (self.dialect.is_known or self.weights)
        return f"{self.model} at {self.base_url}" if is_unknown else self.model

    @property
    def rests_on(self) -> str:
        """Name what alone identifies the model to the journal: a name, or a path that can't be read here. "" if its
        weights are known by their content."""
        weights = self.weights.get("weights", "")
        if _DIGEST.fullmatch(weights) or (not weights and digest_in(self.model)):
            return ""
        is_path = weights.startswith("/")
        what = f"path {weights} (not readable here)" if is_path else f"name {weights or self.identity}"
        return one_line(f"the {what}", 300)

    @property
    def key(self) -> Key:
        return Key.of(self.api_key)

    @property
    def is_listed(self) -> bool:
        """Whether its list of models has to name ours. One of a provider may list models/NAME for NAME, or the models
        that deployments are of."""
        return self.dialect.is_known or not self.card.name

    @property
    def told(self) -> dict[str, str]:
        """What enters journal keys beside `identity`. Nothing for llama.cpp under a name of ours, which says what its
        weights are; nor for a server of an unknown kind without a digest, known by its address. What a card changes
        is told."""
        is_told = self.dialect.is_in_keys or bool(self.weights)
        return ({"kind": self.kind} | self.weights if is_told else {}) | self.card.told

    @property
    def origin(self) -> str:
        """Who answers, in a line: it stands beside each completion in the journal. A server that says nothing of its
        weights is known by its address."""
        if not (self.dialect.has_version or self.weights) and digest_in(self.model):
            return one_line(f"{self.kind}, {self.model}", 500)
        which = [f"{name} {value}" for name, value in self.weights.items()]
        if not which and not digest_in(self.model):
            which = [f"at {self.base_url}"]
        return one_line(", ".join([f"{self.kind} {self.version or ''}".strip(), self.model, *which]), 500)

    @cached_property
    def tail(self) -> str | None:
        """What its chat template puts behind a question: the end of the user's turn, the beginning of the model's. None
        where the server does not say. It is asked when this is read for the first time."""
        return self.template(self)

    @property
    def thinking(self) -> bool | None:
        """Whether that opens thinking: the model's text then begins inside it, without a tag of its own, and text
        without any tag that the cap cut off is thinking. None as above."""
        return None if self.tail is None else self.tail.rfind("<think>") > self.tail.rfind("</think>")

    @property
    def cannot_continue(self) -> str:
        """Why it can't continue a message, "" if it can, or if only a trial shows that."""
        if self.card.continues is False:
            return CANNOT
        can = self.card.continues or self.dialect.continues is not False
        return "" if can else f"{self.kind} can't continue a message that was begun"

    @property
    def streams(self) -> bool:
        """Whether replies are asked for as streams: only a stream shows that a request is at work, and not lost."""
        return self.card.streams

    @property
    def problem_set(self) -> str:
        """The set this model is measured on when none is named."""
        return self.card.problem_set

    def model_info(self) -> dict[str, Any]:
        """What the results say of the model."""
        return {
            "name": self.model,
            "revision": self.revision,
            "sha256": self.sha256,
            "told": self.told,
            "embedded": self.card.engine == "embedded",
            "card": self.card.shown(),
        }


def digest_in(name: str) -> str | None:
    """The first 12 digits of the weights' sha256, where `name` is one that this project gives: it ends in them."""
    found = _BY_CONTENT.search(name)
    return found[1] if found else None


def is_local(url: str) -> bool:
    """Whether `url` is on this machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, and be it 127.example.org
        return False


def untagged(thinking: str) -> str:
    return TAG.sub(" ", thinking).strip()


def closing(thinking: str, opening: str) -> str:
    """Return `thinking` without tags, closed, and `opening` behind it."""
    return f"{untagged(thinking)}\n</think>\n\n{opening}"


def ending(messages: Sequence[Message], content: str) -> dict[str, Any]:
    """Return the field of a request whose last message is the beginning of the model's own."""
    return {"messages": [*messages, {"role": "assistant", "content": content}]}


# The engines that there are


@cache
def dialects() -> tuple[Dialect, ...]:
    """Return the dialects of all engines by their files' names; the unknown ones come last."""
    package = importlib.import_module("core.engines.dialects")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    found = [importlib.import_module(f"{package.__name__}.{name}").DIALECT for name in names]
    return tuple(sorted(found, key=lambda each: not each.is_known))


@cache
def named(kind: str) -> Dialect:
    """Return the dialect of this `kind`."""
    return {each.kind: each for each in dialects()}[kind]


def engines() -> tuple[str, ...]:
    """Return the values that ENGINE may have."""
    return tuple(name for each in dialects() for name in each.engines)
