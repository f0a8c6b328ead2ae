"""Apply the constants EFFORT and TEMPLATE to a server's record, and see whether its prompts and
replies show them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from core.engines.card_template import template_in
from core.engines.cards import Card
from core.engines.protocol import Server
from core.engines.queries import rendered
from core.types import Completion

OF_CARD = "card"  # the value of a constant if the card decides
NAMES = ("EFFORT", "TEMPLATE")
# arguments of chat templates that switch thinking off if they are false
SWITCHES = ("enable_thinking", "thinking")


def is_of_card(config: Any, name: str) -> bool:
    """Return whether the card decides the constant `name`, or `config` lacks it."""
    return getattr(config, name, OF_CARD) == OF_CARD


def check(config: Any) -> None:
    """Raise UserError if TEMPLATE has an invalid value."""
    if not is_of_card(config, "TEMPLATE"):
        template_in(config.TEMPLATE)


def configured(server: Server, config: Any, earlier: Iterable[Server] = ()) -> Server:
    """Return `server` with the effort and the template of `config`, if it sets them. The server
    renders a prompt again, because the template may close thinking, unless an `earlier` result has
    the same values. Raises UserError for an invalid value, or if the model takes no effort."""
    card = _changed(server.card, config)
    if card == server.card:
        return server
    changed = replace(server, card=card)
    for result in earlier:
        if replace(result, tail=server.tail) == changed:
            return result
    again = changed.probe_again(changed)
    return replace(changed, tail=again.tail) if again else changed


def _changed(card: Card, config: Any) -> Card:
    if not is_of_card(config, "EFFORT"):
        card = card.with_effort(config.EFFORT)
    if not is_of_card(config, "TEMPLATE"):
        card = replace(card, template=template_in(config.TEMPLATE))
    return card


def description(server: Server) -> str:
    """Describe the effort and the arguments of the chat template, or return "" without any. Say so
    if the server renders the same prompt without them."""
    card = server.card
    words = [f"effort {card.effort}"] if card.effort else []
    for name, value in card.template.items():
        words.append(f"{name}={str(value).lower() if isinstance(value, bool) else value}")
    if not words:
        return ""
    text = ", ".join(words)
    plain = replace(server, card=replace(card, effort="", template={}))
    prompt = rendered(server)
    if prompt is not None and prompt == rendered(plain):
        text += ". The server's prompt is the same without: its chat template ignores this"
    return text


def ignored(server: Server, completion: Completion) -> str:
    """Return the argument of the chat template that a `completion` ignores, because it has thinking
    before its answer, or "". A text without an answer may be no thinking, but a parser's error."""
    if not (completion.thinking and completion.answer):
        return ""
    for name in SWITCHES:
        if server.card.template.get(name) is False:
            return f"{name}=false"
    return ""
