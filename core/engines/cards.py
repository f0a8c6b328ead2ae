"""Model cards: what a run has to know of a model and of who serves it, a file each.

Cards lie in data/models/NAME.toml, or wherever one's own do; data/models/template.toml says what each field does. A
card holds no key, only the name of the variable that holds it (core/engines/environment.py reads that).
"""

import difflib
import json
import re
import sys
import tomllib
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import DATA, read_text
from core.base.prices import Prices
from core.constants import A, Sampled, rules
from core.engines import dialect

FOLDER = DATA / "models"
TEMPLATE = "template"  # what one's own are copied from: no card itself
EXPLICIT = "card:"  # before a card's name, where a folder has the same
CAPS = ("max_tokens", "max_completion_tokens")
SAMPLING = ("temperature", "top_p", "top_k", "min_p")
NEVER = (*SAMPLING, "seed", "logprobs")
OURS = (*NEVER, *CAPS, "model", "messages", "n", "stream", "stream_options", "top_logprobs", "reasoning_effort")
THINKING = ("tags", "field", "hidden", "none")
MOST = 10**12  # of anything that is counted

_VERSION = re.compile(r"/v\d+[^/]*(?:/|$)")  # in the path of an address: /v1, /v1beta
_SECRET = re.compile(r"key|token|secret|password|signature|^code$|^sig$", re.IGNORECASE)  # in a query: for keys


class _Wrong(ValueError):
    """A field is not what it should be: in which `place` of a table ("" for the field itself), and what is wanted."""

    def __init__(self, wanted: str, value: Any = None, place: str = "") -> None:
        super().__init__(wanted)
        self.wanted, self.value, self.place = wanted, value, place


# What a field may be: each takes what stands in the file, and gives what the card holds. Raises _Wrong.


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise _Wrong("a text, on one line", value)
    return value.strip()


def _one_of(choices: Sequence[str], value: Any) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _Wrong(f"one of {', '.join(choices)}", value)
    return value


def _engine(value: Any) -> str:
    return _one_of(dialect.engines(), value)


def _some_of(choices: Sequence[str], value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or any(each not in choices for each in value):
        raise _Wrong(f"a list of some of {', '.join(choices)}", value)
    return tuple(dict.fromkeys(value))


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _Wrong("a list of texts", value)
    return tuple(map(_text, value))


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("true or false", value)
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST:
        raise _Wrong("a whole number from 1 up", value)
    return value


def _variable(value: Any) -> str:
    """Never shown: someone may have written the key itself."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
        raise _Wrong("the name of a variable in capitals, like OPENAI_API_KEY, never the key itself")
    return value


def _header(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", value):
        raise _Wrong('the name of a header, like "api-key"')
    return value


def _address(value: Any) -> str:
    try:
        return with_query(*address(value))
    except ValueError as error:
        raise _Wrong(f"an address like https://api.example.com/v1 ({error})") from None


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong("a table of its own: a line [name], and below it the fields", value)
    return value


def _query(value: Any) -> dict[str, str]:
    for name, each in _table(value).items():
        if _SECRET.search(name):
            raise _Wrong("for settings only: keys stand in the environment (key_env)", place=name)
        if not isinstance(each, str):
            raise _Wrong("a text", each, name)
    return dict(value)


def _send(value: Any) -> dict[str, Any]:
    known = {each.name for each in fields(Card)}
    for name, each in _table(value).items():
        if name in OURS:
            raise _Wrong("for the card to send: the experiment sets it, or another field of the card", each, name)
        if name in known and not (name == "thinking" and isinstance(each, dict)):  # some servers' own has this name
            raise _Wrong("for servers", each, name)
        try:
            json.dumps(each, allow_nan=False)
        except (TypeError, ValueError):
            raise _Wrong("a value that JSON has", each, name) from None
    return dict(value)


def _sampling(value: Any) -> dict[str, float]:
    known = rules(Sampled)
    found = {}
    for name, each in _table(value).items():
        if name not in SAMPLING:
            raise _Wrong(f"a table of {', '.join(SAMPLING)}", each, name)
        rule = known[name.upper()]
        is_number = isinstance(each, int | float) and not isinstance(each, bool)
        try:
            found[name] = rule.read(name, each if is_number else None)
        except UserError:
            raise _Wrong(rule.wanted(), each, name) from None
    return found


def _price(value: Any) -> Prices:
    names = ("read", "cached", "written", "on")
    for name, each in _table(value).items():
        is_amount = isinstance(each, int | float) and not isinstance(each, bool) and 0 <= each <= 1e6
        if name not in names:
            raise _Wrong(f"a table of {', '.join(names)}", each, name)
        if name != "on" and not is_amount:
            raise _Wrong("a number of dollars for a million tokens", each, name)
    if missing := [name for name in ("read", "written", "on") if name not in value]:
        raise _Wrong(f"whole without {' and '.join(missing)}", value)
    try:
        day = value["on"] if type(value["on"]) is date else date.fromisoformat(value["on"])
    except (TypeError, ValueError):
        raise _Wrong("the day on which the prices were looked up, like 2026-11-23", value["on"], "on") from None
    return Prices(value["read"], value.get("cached", value["read"]), value["written"], day.isoformat())


def _field(read: Callable[[Any], Any], default: Any = "") -> Any:
    return field(default_factory=lambda: default, metadata={"read": read})


@dataclass(frozen=True)
class Card:
    """A card as its file has it; data/models/template.toml says what the fields mean. Without a name it is NONE, which
    says nothing."""

    name: str = ""
    about: str = _field(_text)
    note: str = _field(_text)
    base_url: str = _field(_address)
    query: Mapping[str, str] = _field(_query, {})
    key_env: str = _field(_variable)
    key_header: str = _field(_header)
    engine: str = _field(_engine)
    model: str = _field(_text)
    context: int | None = _field(_whole, None)
    cap: str = _field(partial(_one_of, CAPS), CAPS[0])
    never: tuple[str, ...] = _field(partial(_some_of, NEVER), ())
    effort: str = _field(_text)
    thinking: str = _field(partial(_one_of, THINKING))
    continues: bool | None = _field(_yes_or_no, None)
    streams: bool = _field(_yes_or_no, True)
    concurrency: int | None = _field(_whole, None)
    problem_set: str = _field(_text, "aime_2025")
    proof_set: str = _field(_text, "imo_proofbench")
    graded_set: str = _field(_text, "proofbench_graded")
    star_set: str = _field(_text)
    star_eval_set: str = _field(_text)
    not_learnt: tuple[str, ...] = _field(_texts, ())
    sampling: Mapping[str, float] = _field(_sampling, {})
    send: Mapping[str, Any] = _field(_send, {})
    price: Prices | None = field(default=None, metadata={"read": _price})

    @property
    def own_sets(self) -> dict[str, str]:
        """The model's own problem sets, by what PROBLEMS says for them."""
        return {"auto": self.problem_set, "proofs": self.proof_set}

    @property
    def told(self) -> dict[str, str]:
        """What enters journal keys: all that changes what the model answers, or what is kept of it."""
        told = {"effort": self.effort, "never": " ".join(sorted(self.never))}
        told["send"] = json.dumps(self.send, sort_keys=True) if self.send else ""
        told["continues"] = "no" if self.continues is False else ""
        return {name: value for name, value in told.items() if value}

    def shown(self) -> dict[str, Any] | None:
        """What results say of it: the fields that its file sets. None for NONE."""
        whole, plain = asdict(self), asdict(NONE)
        return {name: value for name, value in whole.items() if value != plain[name]} or None

    def body(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a request as this server takes it. A cap is asked for as max_tokens."""
        dropped = {*self.never, *(["top_logprobs"] if "logprobs" in self.never else []), "max_tokens"}
        kept = {name: value for name, value in asked.items() if name not in dropped}
        effort = {"reasoning_effort": self.effort} if self.effort else {}
        return kept | {self.cap: asked["max_tokens"]} | effort | dict(self.send)

    def remedy(self, is_named: Callable[[str], bool]) -> str:
        """How a card takes account of a refusal that names fields of our requests; "" where it names none."""
        fields = [f'never = ["{name}"]' for name in NEVER if is_named(name)]
        if self.streams and (is_named("stream") or is_named("stream_options")):
            fields.append("streams = false")
        if is_named(CAPS[1]) and self.cap != CAPS[1]:
            fields.insert(0, f'cap = "{CAPS[1]}"')
        said = f"the card {self.name} has to say" if self.name else "a card of the model has to say"
        return f". For that, {said} {' and '.join(fields)}; MODEL=openai:NAME has OpenAI's" if fields else ""

    def sampled(self, config: A) -> A:
        """`config` with the sampling that SAMPLING asks for. Raises UserError where the card recommends none."""
        if config.SAMPLING == "file":
            return config
        if not self.sampling:
            which = f"the card {self.name} recommends none" if self.name else "this model has no card"
            raise UserError(f"SAMPLING=card, but {which}. Give SAMPLING=file, or write the card a table [sampling]")
        changes: dict[str, Any] = {name.upper(): value for name, value in self.sampling.items()}
        return replace(config, **changes)

    def advice(self, config: Sampled) -> str:
        """A note on a sampling that the card recommends and `config` does not take; "" where there is none."""
        wanted = {name.upper(): value for name, value in self.sampling.items() if name not in self.never}
        others = {name: value for name, value in wanted.items() if getattr(config, name) != value}
        if config.SAMPLING == "card" or not others:
            return ""
        theirs = " ".join(f"{name}={value:g}" for name, value in others.items())
        ours = " ".join(f"{name}={getattr(config, name):g}" for name in others)
        return f"note: the card {self.name} recommends {theirs}; this run sends {ours} (SAMPLING=card takes the card's)"


NONE = Card()


# Where they are


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != TEMPLATE)


def named(name: str) -> Card:
    """The card of data/models. Raises UserError."""
    if name not in names():
        raise UserError(f"there is no card {name!r:.60}.{meant(name)} {listing()}")
    return read(FOLDER / f"{name}.toml")


def find(text: str) -> Card:
    """The card that MODEL=`text` names: NAME, card:NAME, the path of a .toml file; and NAME:MODEL, another model of the
    same server, of which prices and context are not known. NONE where it names none. Raises UserError for a card that
    is not there, or not right."""
    which = text.removeprefix(EXPLICIT)
    if which.endswith(".toml"):
        return read(Path(which).expanduser())
    name, _, model = which.partition(":")
    if name not in names():
        return named(name) if text != which else NONE
    card = named(name)
    return replace(card, model=model, price=None, context=None) if model not in ("", card.model) else card


def of_model(served: str, kind: str) -> Card:
    """The card of the model that an engine of ours, of this `kind`, serves under this name; NONE where there is none.
    (Of a provider's model it is not guessed: a card changes what is sent, and is chosen by MODEL.)"""
    found = [card for card in _readable() if card.engine and card.model == served.partition("@")[0]]
    return next((card for card in found if card.engine in dialect.named(kind).engines[:1]), found[0] if found else NONE)


def _readable() -> list[Card]:
    """All cards; one that is not right is said, and left out: nobody has asked for it."""
    found = []
    for name in names():
        try:
            found.append(named(name))
        except UserError as error:
            print(f"note: {error}", file=sys.stderr)
    return found


def meant(name: str) -> str:
    """ " Did you mean the card openai?" for what looks like a card's name, "" for others."""
    close = difflib.get_close_matches(name.lower().partition(":")[0], names(), 1, 0.75)
    return f" Did you mean the card {close[0]}?" if close and close[0] != name else ""


def listing() -> str:
    return f"Cards: {', '.join(names())}; or the path of a .toml file made from {FOLDER / TEMPLATE}.toml"


# Reading


def read(path: Path) -> Card:
    """The card in a file. Raises UserError, which names the file, the field and what is wanted."""
    try:
        found = tomllib.loads(read_text(path, "the card", f"{listing()}"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"the card {path} is not valid TOML: {error}. A text stands in quotes, a list in []") from None
    except RecursionError:
        raise UserError(f"the card {path} is not valid TOML: tables within tables, too deep") from None
    known = {each.name: each.metadata["read"] for each in fields(Card) if "read" in each.metadata}
    values: dict[str, Any] = {}
    for name, value in found.items():
        if name not in known:
            raise UserError(f"the card {path} has an unknown field {name!r:.60}.{_hint(name, known)}")
        try:
            values[name] = known[name](value)
        except _Wrong as wrong:
            if wrong.place in known:  # it stands below the head of a table, which ends at the next one
                raise UserError(
                    f"the card {path} has {wrong.place} inside [{name}]. Move it up, above the first line in []"
                ) from None
            place = f"[{name}] {wrong.place}" if wrong.place else name
            shown = "" if wrong.value is None else f" = {wrong.value!r:.60}"
            raise UserError(f"the card {path}: {place}{shown} is not {wrong.wanted}") from None
    if "base_url" in values:
        values["base_url"], own = address(values["base_url"])
        values["query"] = own | values.get("query", {})
    return Card(path.stem, **values)


def _hint(name: str, known: Mapping[str, Any]) -> str:
    if "key" in name.lower():
        return " A card holds no key: key_env names the variable that does"
    if close := difflib.get_close_matches(name.lower(), known, 1, 0.6):
        return f" Did you mean {close[0]}?"
    return f" Fields: {', '.join(known)}"


# Addresses


def address(text: Any) -> tuple[str, dict[str, str]]:
    """An address without its last slash, and the query behind it. Raises ValueError, in words that show no secret."""
    try:
        parts = urllib.parse.urlsplit(text if isinstance(text, str) else "")
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or re.search(r"\s", text):
        raise ValueError("it begins with http:// or https://, and a host") from None
    if parts.username or parts.password:
        raise ValueError("it holds a user name or a password, which would be printed")
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    if any(map(_SECRET.search, query)):
        raise ValueError("its query holds a key, which would be printed")
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", "")), query


def with_query(url: str, query: Mapping[str, str]) -> str:
    """`url` with `query` behind it."""
    return f"{url}{'&' if '?' in url else '?'}{urllib.parse.urlencode(query)}" if query else url


def has_version(url: str) -> bool:
    """Whether the path of `url` names a version: then nothing is to be put behind it."""
    return bool(_VERSION.search(urllib.parse.urlsplit(url).path))


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address: whom a key is for. Of what is no address, nobody."""
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", "", None
