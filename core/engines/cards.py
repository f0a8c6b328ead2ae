"""Read model cards, the TOML files that describe a model and its server.

Cards are data/models/NAME.toml and a user's own files. data/models/template.toml explains each
field. Instead of an API key, a card contains the name of the variable with the key
(core/engines/environment.py reads the key)."""

import json
import re
import tomllib
import urllib.parse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from core.base.errors import UserError
from core.base.fields import Positive, Sha256, fitted
from core.base.files import DATA, read_text
from core.base.prices import Prices
from core.constants import BOXED, PENALTIES, WAYS, A, Answered, OnProblems, Part, Sampled, rules

FOLDER = DATA / "models"
TEMPLATE = "template"  # a file to copy, no card itself
CAPS = ("max_tokens", "max_completion_tokens")
SAMPLING = ("temperature", "top_p", "top_k", "min_p")
_NOT_IN_SEND = (*SAMPLING, "seed", "logprobs")
NEVER = (*_NOT_IN_SEND, *PENALTIES)
OURS = (
    *_NOT_IN_SEND,
    *CAPS,
    "model",
    "messages",
    "n",
    "stream",
    "stream_options",
    "top_logprobs",
    "reasoning_effort",
)
FIX = (
    f"{FOLDER / TEMPLATE}.toml explains each field. Put tables like [price] last. Put the API key "
    "into the environment or .env, and the name of its variable into key_env"
)
REFUSED = (
    "If it names a field of the request, set MODEL to a card that omits this field (never, "
    f"streams = false) or renames it (cap), like openai:NAME or a copy of {FOLDER / TEMPLATE}.toml"
)

# names in a query
_SECRET = re.compile(r"key|token|secret|password|signature|^code$|^sig$", re.IGNORECASE)


def _one_of(*names: str) -> Meta:
    return Meta(pattern=rf"\A({'|'.join(names)})\Z")


Text = Annotated[str, Meta(pattern=r"\A.*\S.*\Z")]  # not blank, on one line
Variable = Annotated[str, Meta(pattern=r"\A[A-Z_][A-Z0-9_]*\Z")]
Dollars = Annotated[float, Meta(ge=0, le=1e6)]


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """A card's prices in dollars per million tokens, and the day on which they were looked up."""

    read: Dollars
    written: Dollars
    on: date
    cached: Dollars | None = None

    @property
    def prices(self) -> Prices:
        return Prices(
            self.read,
            self.read if self.cached is None else self.cached,
            self.written,
            self.on.isoformat(),
        )


@dataclass(frozen=True)
class Wheel:
    """A GGUF file in a Python wheel: pip's `requirement`, the `file` in the wheel, their hashes,
    size and licence."""

    requirement: Annotated[str, Meta(pattern=r"\A[\w.-]+==[\w.]+\Z")]
    sha256: Sha256
    file: Text
    file_sha256: Sha256
    megabytes: Positive
    licence: Text


@dataclass(frozen=True)
class Card:
    """A model card with the fields of its file. NONE is an empty card. Raises ValueError for a bad
    address or table."""

    name: str = ""
    about: Text = ""
    note: Text = ""
    base_url: Text = ""
    key_env: Variable | Annotated[tuple[Variable, ...], Meta(min_length=1)] = ""
    key_header: Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9-]*\Z")] = ""
    engine: Text = ""
    model: Text = ""
    context: Positive | None = None
    cap: Annotated[str, _one_of(*CAPS)] = CAPS[0]
    never: tuple[Annotated[str, _one_of(*NEVER)], ...] = ()
    effort: Text = ""
    thinking: Annotated[str, _one_of("tags", "field", "hidden", "none")] = ""
    continues: bool | None = None
    streams: bool = True
    concurrency: Positive | None = None
    answer: Annotated[str, _one_of(*WAYS)] = BOXED
    problem_set: Text = "aime_2025"
    proof_set: Text = "imo_proofbench"
    graded_set: Text = "proofbench_graded"
    star_set: Text = ""
    star_eval_set: Text = ""
    shots: Annotated[int, Meta(ge=0)] | Text = 0
    system: str = ""
    prompt: Text = ""
    sampling: Mapping[Annotated[str, _one_of(*SAMPLING)], int | float] = field(default_factory=dict)
    send: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, int | float | str] = field(default_factory=dict)
    wheel: Wheel | None = None
    price: Prices | None = None

    def __post_init__(self) -> None:
        if self.base_url:
            object.__setattr__(self, "base_url", with_query(*address(self.base_url)))
        ours = {*OURS, *(each.name for each in fields(Card))}
        for name, value in self.send.items():
            # a field of some servers
            if name in ours and not (name == "thinking" and isinstance(value, dict)):
                raise ValueError(
                    f"[send] contains {name}, which the experiment or another field of the card "
                    "sets"
                )
        json.dumps(self.send, allow_nan=False)  # raises an error for a date or nan

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variables that may contain the key. The first that is set counts."""
        return (
            (self.key_env,)
            if isinstance(self.key_env, str) and self.key_env
            else tuple(self.key_env)
        )

    @property
    def own_sets(self) -> dict[str, str]:
        """The model's own problem sets, by the value of PROBLEMS that selects them."""
        return {"auto": self.problem_set, "proofs": self.proof_set}

    @property
    def key_fields(self) -> dict[str, str]:
        """The card's fields in journal keys. They change the replies, or the part of a reply that
        is stored."""
        send = json.dumps(self.send, sort_keys=True) if self.send else ""
        continues = "no" if self.continues is False else ""
        found = {
            "effort": self.effort,
            "never": " ".join(sorted({*self.never})),
            "send": send,
            "continues": continues,
        }
        return {name: value for name, value in found.items() if value}

    def shown(self) -> dict[str, Any] | None:
        """Return the fields that differ from their defaults, for results, or None if all are
        defaults."""
        whole, plain = asdict(self), asdict(NONE)
        return {name: value for name, value in whole.items() if value != plain[name]} or None

    def body(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body `asked`, which has the token cap as max_tokens, with the card's changes
        for its server."""
        dropped = {
            *self.never,
            *(["top_logprobs"] if "logprobs" in self.never else []),
            "max_tokens",
        }
        kept = {name: value for name, value in asked.items() if name not in dropped}
        effort = {"reasoning_effort": self.effort} if self.effort else {}
        return kept | {self.cap: asked["max_tokens"]} | effort | dict(self.send)

    def with_effort(self, effort: str) -> "Card":
        """Return the card with another effort. Raises UserError if it describes a model that takes
        none."""
        if self.engine and not self.effort:
            raise UserError(
                f"EFFORT={effort:.40} has no effect on the model of the card {self.name}. Unset "
                "EFFORT, or choose a model that reasons, like MODEL=openai or a model of the hub"
            )
        return replace(self, effort=effort)

    def way(self, config: Sampled) -> str:
        """Return the way to read the answers of a run: the constant ANSWER, or else the card's
        field `answer`."""
        asked = config.ANSWER if isinstance(config, Answered) else BOXED
        return self.answer if asked == "card" else asked

    def sampled(self, config: A) -> A:
        """Return `config` with the sampling that SAMPLING selects. Raises UserError if the card
        lacks it."""
        if config.SAMPLING == "file":
            return config
        if not self.sampling:
            which = (
                f"the card {self.name} has no [sampling] table"
                if self.name
                else "no card is in use"
            )
            raise UserError(
                f"SAMPLING=card, but {which}. Set SAMPLING=file, or use a card with a [sampling] "
                "table"
            )
        changes: dict[str, Any] = {name.upper(): value for name, value in self.sampling.items()}
        return replace(config, **changes)

    def framed(self, config: A, is_proof: bool = False) -> A:
        """Return `config` with the card's shots, system message and prompt for each constant that
        is "card". Shots have answers, so problems that ask for a proof get none from the card."""
        own = {
            "SHOTS": "0" if is_proof else str(self.shots),
            "SYSTEM": self.system,
            "PROMPT": self.prompt,
        }
        changes: dict[str, Any] = {
            name: each for name, each in own.items() if getattr(config, name, "") == "card"
        }
        return replace(config, **changes)

    def constants_of(self, kind: type[Part]) -> dict[str, Any]:
        """Return the card's constants that `kind` has. LIMIT is only for runs on a problem set: it
        would shorten a training, too. Raises UserError for a bad value."""
        known = rules(kind)
        if not issubclass(kind, OnProblems):
            known.pop("LIMIT", None)
        try:
            return {
                name: known[name].read(name, value)
                for name, value in self.constants.items()
                if name in known
            }
        except UserError as error:
            raise UserError(
                f"the card {self.name} is invalid ({error}). Correct its table [constants]"
            ) from None

    def constants_in(self, config: Part) -> str:
        """Return the constants of `config` that the card sets, as text, or ""."""
        values = self.constants_of(type(config)).items()
        shown = " ".join(
            f"{name}={value}" for name, value in values if getattr(config, name) == value
        )
        return shown and f"{shown}, from the card {self.name}"


NONE = Card()


# Finding a card


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != TEMPLATE)


def named(name: str) -> Card:
    """Return the card `name` of data/models. Raises UserError if the card is missing or invalid."""
    return read(FOLDER / f"{name}.toml")


def find(text: str) -> Card:
    """Return the card that `text`, a value of MODEL, names, or NONE if it names no card. Raises
    UserError if the card is invalid, or if a .toml file is missing. `text` is NAME, the path of a
    .toml file, or NAME:MODEL. NAME:MODEL is another model of the same server, whose prices and
    context are unknown."""
    if text.endswith(".toml"):
        return read(Path(text).expanduser())
    name, _, model = text.partition(":")
    if name not in names():
        return NONE
    card = named(name)
    return (
        replace(card, model=model, price=None, context=None)
        if model not in ("", card.model)
        else card
    )


def of_model(served: str, engine: str) -> Card:
    """Return the card in data/models of the model `served`, preferably for this `engine`, or NONE
    if there is none. Only cards that name an engine count. Other cards change requests, so the user
    has to choose them with MODEL."""
    found = [
        card
        for card in map(named, names())
        if card.engine and card.model == served.partition("@")[0]
    ]
    return next((card for card in found if card.engine == engine), found[0] if found else NONE)


def listing() -> str:
    return (
        f"Cards: {', '.join(names())}. For your own card, give the path of a copy of "
        f"{FOLDER / TEMPLATE}.toml"
    )


def read(path: Path) -> Card:
    """Read the card in a file. Raises UserError, with a remedy, if the file is missing or
    invalid."""
    wrong = f"the card {path} is invalid"
    try:
        found = tomllib.loads(read_text(path, "the card", listing()))
        if unknown := found.keys() - {each.name for each in fields(Card)} | found.keys() & {"name"}:
            raise ValueError(f"{min(unknown)!r:.60} is no field of a card")
        price = found.pop("price", None)
        card = fitted(found | {"name": path.stem}, Card, wrong, FIX)
        return (
            card
            if price is None
            else replace(card, price=fitted(price, Price, wrong, FIX, "[price] ").prices)
        )
    except (ValueError, RecursionError) as error:
        raise UserError(f"{wrong} ({error}). {FIX}") from None


# Addresses


def address(text: Any) -> tuple[str, dict[str, str]]:
    """Split a URL into address (no trailing slash) and query. Raises ValueError if it is invalid or
    has a secret."""
    try:
        parts = urllib.parse.urlsplit(text if isinstance(text, str) else "")
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or re.search(r"\s", text):
        raise ValueError(
            "an address is http:// or https:// and a host, without spaces. A port is 1 to 65535"
        ) from None
    if parts.username or parts.password:
        raise ValueError("the address contains a user name or a password, which would be printed")
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    if any(map(_SECRET.search, query)):
        raise ValueError("the address contains a key in its query, which would be printed")
    return urllib.parse.urlunsplit(
        (parts.scheme, parts.netloc, parts.path.rstrip("/"), "", "")
    ), query


def with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urllib.parse.urlencode(query)}" if query else url


def origin(url: str) -> str:
    """Return the scheme, host and port of an address, without a default port, or "" if it can't be
    parsed."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return ""
    host = parts.netloc.lower().rpartition("@")[2]
    return f"{parts.scheme}://{host.removesuffix({'http': ':80', 'https': ':443'}.get(parts.scheme, ':'))}"
