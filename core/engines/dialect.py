"""The dialect of an engine: how it is recognised, started and asked.

Each engine is one file in core/engines/dialects, which holds its DIALECT. The folder is listed: to attach to a new
engine takes no other file. One that runs start by themselves also has a case in setup.sh, which installs it.
"""

import importlib
import pkgutil
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.types import Message

if TYPE_CHECKING:
    from core.constants import Sampled
    from core.engines.need import Settings
    from core.engines.server import Server
    from core.engines.weights import Model

STREAM_INTERVAL = 32  # tokens between messages from scheduler to front end: nobody reads along
TAG = re.compile(r"</?think>")


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

    def refusal(self, server: "Server", config: "Sampled") -> str:
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


class OnGpu(Dialect):
    """An engine for an NVIDIA GPU, which runs in a process of its own."""

    label = ""  # its name for people
    is_default = False  # whether a machine with a GPU starts it if ENGINE names none
    pooling = ""  # the tokens whose vectors an embedding is made of
    # The cost of honouring seeds (DETERMINISTIC=1), as shares of the time; None if it always honours them.
    deterministic_cost: tuple[float, float] | None = None

    def check_model(self, folder: Path) -> None:
        """Raise UserError if it would misread the model in `folder`."""

    def arguments(self, model: "Model", chosen: "Settings", host: str, port: int) -> list[str]:
        """Return the arguments of a Python interpreter that serve `model`. An API key is not among them."""
        raise NotImplementedError

    def embedding(self, model: "Model", chosen: "Settings", host: str, port: int) -> list[str]:
        """Return the arguments that serve `model` for embeddings alone. The model has the name of `embedding_name`."""
        raise NotImplementedError

    def embedding_name(self, name: str) -> str:
        """Return the name of a model for embeddings: vectors that are pooled otherwise belong to another one."""
        model, at, digest = name.partition("@")
        return f"{model}-{self.pooling}{at}{digest}"

    def secrets(self, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return flags and environment that pass the API `key` without showing it in any list of processes. A file for
        that may be written into `folder`."""
        raise NotImplementedError

    def parser(self, model: "Model") -> tuple[str, ...]:
        """Return the flags that keep thinking apart from the answer. Of a model that does not think, the parser takes
        the whole answer for thinking (SGLang 0.5.23)."""
        return ("--reasoning-parser", "qwen3") if model.thinks else ()


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
    """Return the values that ENGINE may have; engines for a GPU come first."""
    order = sorted(dialects(), key=lambda each: not isinstance(each, OnGpu))
    return tuple(name for each in order for name in each.engines)


def on_gpu(engine: str) -> OnGpu | None:
    """Return the engine for a GPU that ENGINE names, the default one if it is ""; None if it names another one."""
    if not engine:
        return default()
    return next((each for each in dialects() if isinstance(each, OnGpu) and engine in each.engines), None)


def default() -> OnGpu:
    """Return the engine that a machine with a GPU starts if ENGINE names none."""
    return next(each for each in dialects() if isinstance(each, OnGpu) and each.is_default)
