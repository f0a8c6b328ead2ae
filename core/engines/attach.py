"""Recognise the engine of a running server and read the server's properties from its endpoints.

A server lists its models at BASE_URL/models. The engine's file in core/engines/dialects names other
endpoints."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from core.base.errors import UserError
from core.engines import cards, environment, weights
from core.engines import queries as client
from core.engines.cards import Card
from core.engines.protocol import NO_KEY, Key, Server, dialect_of, digest_in
from core.engines.queries import LONGEST, Loading

NO_MODELS = "it lists no models yet"


def probe(
    base_url: str, why: str, model: str = "", key: Key = NO_KEY, card: Card = cards.NONE
) -> Server | None:
    """Return the server at `base_url` as its endpoints and its card describe it, or None if nothing
    listens there. `model` is a model's name, or "" for the only model. Requests carry the `key`.
    Without a `card`, the card of the server's model is used (see `carded`). Raises Loading if the
    server is not ready (client.find) or lists no model yet. Raises UserError for a bad address, a
    refused key or an unknown model."""
    address, query = _checked(base_url, card)
    if urls := environment.fleet(address):
        return _gateway(address, urls, why, model, key, card)
    url = cards.with_query(f"{address}/models", query)
    listed = client.find(url, key)
    if listed is None:
        return None
    entries = [
        about for about in client.objects(listed, "data") if isinstance(about.get("id"), str)
    ]
    models = {about["id"]: about for about in entries if 0 < len(about["id"]) <= LONGEST}
    if not (models or model) and is_empty(listed):
        raise Loading(address, NO_MODELS)
    if not (models or model):
        how = _how_to_choose(card)
        raise UserError(
            f"the server at {address} lists no models ({client.why_unlisted(url, key)}). Check the "
            f"address. {how}"
        )
    name = _chosen(model, models, address, card)
    about = models.get(name, {})
    dialect = dialect_of(about)
    revision = weights.fetched(name) if environment.hub_model(name) else None
    found = Server(
        dialect.kind, address, name, why, card=card, query=query, key=key, look=look_again
    )
    found = replace(found, context=client.count(about.get("max_model_len")), revision=revision)
    return carded(dialect.described(found, about, models), card)


def is_empty(listed: Mapping[str, Any]) -> bool:
    """Return whether a server's list of models is empty, as it is while a gateway waits for its
    first server."""
    return "data" in listed and not listed["data"]


def look_again(server: Server) -> Server | None:
    """Probe the address of `server` once more. Return None if it is absent or loading."""
    address = cards.with_query(server.base_url, server.query)
    try:
        return probe(address, server.why, server.model, server.key, server.card)
    except Loading:
        return None


def carded(server: Server, card: Card = cards.NONE) -> Server:
    """Return `server` with the `card` and its limits. If `card` has no name, use the card that
    cards.of_model returns, with the effort of `card`. Raises UserError if the model takes no
    effort."""
    if not card.name:
        known = cards.of_model(server.model, next(iter(server.dialect.names), ""))
        card = known.with_effort(card.effort) if card.effort else known
    return replace(
        server,
        card=card,
        limit=card.concurrency or server.limit,
        context=server.context or card.context,
        seeds=False if "seed" in card.never else server.seeds,
    )


def _checked(base_url: str, card: Card) -> tuple[str, dict[str, str]]:
    """Return the address and its query. Append /v1 unless the address is the card's or has a
    version or a query."""
    try:
        address, query = cards.address(base_url)
    except ValueError as error:
        raise UserError(
            f"BASE_URL or GRADER_URL: {error}. Give one like http://HOST:30000/v1, and a key in "
            "API_KEY or GRADER_KEY"
        ) from None
    # users copy these paths from manuals
    for path in ("/chat/completions", "/completions", "/responses", "/models"):
        address = address.removesuffix(path)
    is_whole = (
        address == card.base_url
        or bool(query)
        or re.search(r"/v\d+[^/]*(/|$)", address.partition("//")[2])
    )
    return address if is_whole else f"{address}/v1", query


def _how_to_choose(card: Card) -> str:
    how = f"MODEL={card.name}:NAME" if card.name else "MODEL=NAME"
    return f"Choose a model with {how} (for a grader: GRADER_{how})"


def _chosen(wanted: str, models: Mapping[str, Any], address: str, card: Card) -> str:
    """Return the name of the model to use: `wanted`, or the one that fits. Raises UserError if none
    or several fit."""
    # a provider's list may lack the model
    if wanted in models or (wanted and (not models or card.name)):
        return wanted
    ours = [
        name
        for name in models
        if not wanted or (digest_in(name) and name.partition("@")[0] == wanted)
    ]
    if len(ours) == 1:
        return ours[0]
    wrong = f"has no model {wanted!r:.200}" if wanted else "has several models"
    raise UserError(
        f"the server at {address} {wrong}. {_how_to_choose(card)}. It lists: "
        f"{', '.join(list(models)[:8])}"
    )


def _gateway(
    address: str, urls: set[str], why: str, model: str, key: Key, card: Card
) -> Server | None:
    """Return a gateway's record, made from its first server's record, because gateways report
    neither engine nor context. Return None if no server answers. Raises UserError if the servers'
    engines, models or weights differ."""
    servers = []
    for url in sorted(urls):
        with suppress(Loading):  # the gateway uses the others until this one is ready
            server = probe(url, why, model, key, card)
            if server:
                servers.append(server)
    if not servers:
        return None
    if (
        len(
            served := {
                " ".join((each.kind, each.model, *each.weights.values())) for each in servers
            }
        )
        > 1
    ):
        raise UserError(
            f"the gateway at {address} mixes {', '.join(sorted(served))}. Give it equal servers"
        )
    first = servers[0]
    found = replace(
        first,
        base_url=address,
        why=f"{why} (a gateway in front of {len(servers)} servers)",
        limit=sum(server.limit for server in servers),
    )
    return carded(found, card)
