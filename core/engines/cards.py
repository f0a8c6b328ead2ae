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
from core.base.fields import Positive, fitted
from core.base.files import DATA, read_text
from core.base.prices import Prices
from core.base.settings import similar
from core.constants import (
    BOXED,
    PENALTIES,
    WAYS,
    A,
    Answered,
    ConstantGroup,
    OnProblems,
    Sampled,
    rules,
)
from core.engines.pinned import PinnedFile

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
    "chat_template_kwargs",
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
    template: Mapping[str, str | int | float | bool] = field(default_factory=dict)
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
    scorer: Text = ""
    step_mark: str = ""
    step_verdicts: Annotated[tuple[Text, ...], Meta(min_length=2, max_length=2)] = ()
    sampling: Mapping[Annotated[str, _one_of(*SAMPLING)], int | float] = field(default_factory=dict)
    send: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, int | float | str] = field(default_factory=dict)
    file: PinnedFile | None = None
    price: Prices | None = None

    def __post_init__(self) -> None:
        if self.base_url:
            object.__setattr__(self, "base_url", with_query(*address(self.base_url)))
        ours = {*OURS, *(field.name for field in fields(Card))}
        for name, value in self.send.items():
            if name == "thinking" and isinstance(value, dict):  # a field of some servers
                continue
            if name in ours:
                raise ValueError(
                    f"[send] contains {name}, which the experiment or another field of the card "
                    "sets"
                )
        json.dumps(self.send, allow_nan=False)  # raises an error for a date or nan

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variables that may contain the key. The first that is set counts."""
        if not self.key_env:
            return ()
        return (self.key_env,) if isinstance(self.key_env, str) else self.key_env

    @property
    def own_sets(self) -> dict[str, str]:
        """The model's own problem sets, by the value of PROBLEMS that selects them."""
        return {"auto": self.problem_set, "proofs": self.proof_set}

    @property
    def key_fields(self) -> dict[str, str]:
        """The card's fields in journal keys. They change the replies, or the part of a reply that
        is stored."""
        keys = {}
        if self.effort:
            keys["effort"] = self.effort
        if self.template:
            keys["template"] = json.dumps(self.template, sort_keys=True)
        if self.never:
            keys["never"] = " ".join(sorted({*self.never}))
        if self.send:
            keys["send"] = json.dumps(self.send, sort_keys=True)
        if self.continues is False:
            keys["continues"] = "no"
        if self.step_mark:
            keys["step_mark"] = self.step_mark
        if self.step_verdicts:
            keys["step_verdicts"] = json.dumps(self.step_verdicts)
        return keys

    def to_json(self) -> dict[str, Any] | None:
        """Return the fields that differ from their defaults, for results, or None if all are
        defaults."""
        values = asdict(self)
        defaults = asdict(NONE)
        set_here = {name: value for name, value in values.items() if value != defaults[name]}
        return set_here or None

    def body(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body `asked`, which has the token cap as max_tokens, with the card's changes
        for its server."""
        dropped = {*self.never, "max_tokens"}
        if "logprobs" in self.never:
            dropped.add("top_logprobs")
        body = {name: value for name, value in asked.items() if name not in dropped}
        body[self.cap] = asked["max_tokens"]
        return body | dict(self.send)

    def with_effort(self, effort: str) -> "Card":
        """Return the card with another effort. Raises UserError if it describes a model that takes
        none."""
        if effort and self.engine and not self.effort:
            raise UserError(
                f"EFFORT={effort:.40} has no effect on the model of the card {self.name}. Unset "
                "EFFORT, or choose a model that reasons, like MODEL=openai or a model of the hub"
            )
        return replace(self, effort=effort)

    def answer_form(self, config: Sampled) -> str:
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
            reason = "no card is in use"
            if self.name:
                reason = f"the card {self.name} has no [sampling] table"
            raise UserError(
                f"SAMPLING=card, but {reason}. Set SAMPLING=file, or use a card with a [sampling] "
                "table"
            )
        changes: dict[str, Any] = {name.upper(): value for name, value in self.sampling.items()}
        return replace(config, **changes)

    def framed(self, config: A, is_proof: bool = False) -> A:
        """Return `config` with the card's shots, system message and prompt for each constant that
        is "card". Shots have answers, so problems that ask for a proof get none from the card."""
        values = {
            "SHOTS": "0" if is_proof else str(self.shots),
            "SYSTEM": self.system,
            "PROMPT": self.prompt,
        }
        asked = [name for name in values if getattr(config, name, "") == "card"]
        changes: dict[str, Any] = {name: values[name] for name in asked}
        return replace(config, **changes)

    def constants_of(self, kind: type[ConstantGroup]) -> dict[str, Any]:
        """Return the card's constants that `kind` has. LIMIT is only for runs on a problem set: it
        would shorten a training, too. Raises UserError for a bad value."""
        rule_of = rules(kind)
        if not issubclass(kind, OnProblems):
            rule_of.pop("LIMIT", None)
        values = {}
        try:
            for name, value in self.constants.items():
                if name in rule_of:
                    values[name] = rule_of[name].read(name, value)
            return values
        except UserError as error:
            raise UserError(
                f"the card {self.name} is invalid ({error}). Correct its table [constants]"
            ) from None

    def constants_in(self, config: ConstantGroup) -> str:
        """Return the constants of `config` that the card sets, as text, or ""."""
        words = []
        for name, value in self.constants_of(type(config)).items():
            if getattr(config, name) == value:
                words.append(f"{name}={value}")
        if not words:
            return ""
        return f"{' '.join(words)}, from the card {self.name}"


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
    if model in ("", card.model):
        return card
    return replace(card, model=model, price=None, context=None)


def of_model(served: str, engine: str) -> Card:
    """Return the card in data/models of the model `served`, preferably for this `engine`, or NONE
    if there is none. Only cards that name an engine count. Other cards change requests, so the user
    has to choose them with MODEL."""
    model = served.partition("@")[0]
    fitting = []
    for name in names():
        card = named(name)
        is_its_file = card.file is not None and card.file.served_name == served
        if card.engine and (card.model == model or is_its_file):
            fitting.append(card)
    for card in fitting:
        if card.engine == engine:
            return card
    return fitting[0] if fitting else NONE


def meant(unknown: str) -> str:
    """Return "Did you mean NAME? " for an `unknown` name that resembles a card's, or ""."""
    card = similar(unknown.lower(), names())
    return f"Did you mean {card}? " if card and card != unknown else ""


def listing(unknown: str = "") -> str:
    """Return advice on cards for an error. It begins with the card that resembles an `unknown`
    name."""
    remedy = f"give the path of a copy of {FOLDER / TEMPLATE}.toml"
    return f"{meant(unknown)}Cards: {', '.join(names())}. For your own card, {remedy}"


def read(path: Path) -> Card:
    """Read the card in a file. Raises UserError, with a remedy, if the file is missing or
    invalid."""
    wrong = f"the card {path} is invalid"
    try:
        table = tomllib.loads(read_text(path, "the card", listing()))
        names_of_fields = {field.name for field in fields(Card)} - {"name"}
        unknown = table.keys() - names_of_fields
        if unknown:
            raise ValueError(f"{min(unknown)!r:.60} is no field of a card")
        price = table.pop("price", None)
        card = fitted(table | {"name": path.stem}, Card, wrong, FIX)
        if price is None:
            return card
        return replace(card, price=fitted(price, Price, wrong, FIX, "[price] ").prices)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{wrong} ({error}). {FIX}") from None


# Addresses


def address(text: Any) -> tuple[str, dict[str, str]]:
    """Split a URL into address (no trailing slash) and query. Raises ValueError if it is invalid or
    has a secret."""
    parts = _parts(text)
    if parts is None:
        raise ValueError(
            "an address is http:// or https:// and a host, without spaces. A port is 1 to 65535"
        )
    if parts.username or parts.password:
        raise ValueError("the address contains a user name or a password, which would be printed")
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    if any(map(_SECRET.search, query)):
        raise ValueError("the address contains a key in its query, which would be printed")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", query


def _parts(text: Any) -> urllib.parse.SplitResult | None:
    """Return the parts of a URL of a server, or None if it is none."""
    if not isinstance(text, str) or re.search(r"\s", text):
        return None
    try:
        parts = urllib.parse.urlsplit(text)
        is_port = parts.port != 0  # raises ValueError for another invalid port
    except ValueError:
        return None
    is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and is_port
    return parts if is_address else None


def with_query(url: str, query: Mapping[str, str]) -> str:
    if not query:
        return url
    separator = "&" if "?" in url else "?"
    return f"{url}{separator}{urllib.parse.urlencode(query)}"


def origin(url: str) -> str:
    """Return the scheme, host and port of an address, without a default port, or "" if it can't be
    parsed."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return ""
    host = parts.netloc.lower().rpartition("@")[2]
    default_port = {"http": ":80", "https": ":443"}.get(parts.scheme, ":")
    return f"{parts.scheme}://{host.removesuffix(default_port)}"
