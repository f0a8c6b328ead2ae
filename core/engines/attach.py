"""Recognise the engine of a running server and read the server's properties from its endpoints.

A server lists its models at BASE_URL/models. The engine's file in core/engines/dialects names other
endpoints."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from core.base.errors import UserError
from core.engines import cards, environment, queries, weights
from core.engines.cards import Card
from core.engines.need import Need, in_flight
from core.engines.protocol import NO_KEY, WAITING, Key, Server, dialect_of, digest_in
from core.engines.queries import LONGEST, Loading
from core.engines.wanted import hub_model

NO_MODELS = "it lists no models yet"


def probe(
    base_url: str, why: str, model: str = "", key: Key = NO_KEY, card: Card = cards.NONE
) -> Server | None:
    """Return the server at `base_url` as its endpoints and its card describe it, or None if nothing
    listens there. `model` is a model's name, or "" for the only model. Requests carry the `key`.
    Without a `card`, the card of the server's model is used (see `carded`). Raises Loading if the
    server is not ready (queries.find) or lists no model yet. Raises UserError for a bad address, a
    refused key or an unknown model."""
    address, query = _checked(base_url, card)
    if urls := environment.fleet(address):
        return _gateway(address, urls, why, model, key, card)
    url = cards.with_query(f"{address}/models", query)
    page = queries.find(url, key)
    if page is None:
        return None
    models = _models_in(page)
    if not (models or model):
        if is_empty(page):
            raise Loading(address, NO_MODELS)
        raise UserError(
            f"the server at {address} lists no models ({queries.why_unlisted(url, key)}). Check "
            f"the address. {_how_to_choose(card)}"
        )
    name = _chosen(model, models, address, card)
    entry = models.get(name, {})
    dialect = dialect_of(entry)
    server = Server(
        kind=dialect.kind,
        base_url=address,
        model=name,
        why=why,
        context=queries.count(entry.get("max_model_len")),
        revision=weights.fetched(name) if hub_model(name) else None,
        card=card,
        query=query,
        key=key,
        probe_again=probe_again,
    )
    return carded(dialect.described(server, entry, models), card)


def _models_in(page: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entries of a server's list of models by their names, without unusable names."""
    models = {}
    for entry in queries.objects(page, "data"):
        name = entry.get("id")
        if isinstance(name, str) and 0 < len(name) <= LONGEST:
            models[name] = entry
    return models


def is_empty(page: Mapping[str, Any]) -> bool:
    """Return whether a server's list of models is empty, as it is while a gateway waits for its
    first server."""
    return "data" in page and not page["data"]


def probe_again(server: Server) -> Server | None:
    """Probe the address of `server` once more. Return None if it is absent or loading."""
    address = cards.with_query(server.base_url, server.query)
    try:
        return probe(address, server.why, server.model, server.key, server.card)
    except Loading:
        return None


def carded(server: Server, card: Card = cards.NONE) -> Server:
    """Return `server` with the `card` and its limits. If `card` has no name, use the card that
    cards.of_model returns, with the effort and the template of `card`. Raises UserError if the
    model takes no effort."""
    if not card.name:
        given = card
        names = server.dialect.names
        card = cards.of_model(server.model, names[0] if names else "")
        if given.effort:
            card = card.with_effort(given.effort)
        if given.template:
            card = replace(card, template=given.template)
    return replace(
        server,
        card=card,
        limit=card.concurrency or server.limit,
        context=server.context or card.context,
        seeds=False if "seed" in card.never else server.seeds,
    )


def sized(server: Server, need: Need) -> Server:
    """Return `server` with the limit for the completions of `need`, if it reports its KV cache and
    its card has no limit."""
    if server.card.concurrency or not server.kv_tokens:
        return server
    fitting = in_flight(server.kv_tokens, server.most_running, need.max_tokens)
    return replace(server, limit=WAITING + fitting)


def _checked(base_url: str, card: Card) -> tuple[str, dict[str, str]]:
    """Return the address and its query. Append /v1 unless the address is the card's or has a
    version or a query."""
    try:
        address, query = cards.address(base_url)
    except ValueError as error:
        raise UserError(
            f"BASE_URL, OPENAI_BASE_URL, GRADER_URL or SCORER_URL: {error}. Give one like "
            "http://HOST:30000/v1, and a key in API_KEY, GRADER_KEY or SCORER_KEY"
        ) from None
    # users copy these paths from manuals
    for path in ("/chat/completions", "/completions", "/responses", "/models"):
        address = address.removesuffix(path)
    has_version = re.search(r"/v\d+[^/]*(/|$)", address.partition("//")[2])
    if query or has_version or address == card.base_url:
        return address, query
    return f"{address}/v1", query


def _how_to_choose(card: Card) -> str:
    how = f"MODEL={card.name}:NAME" if card.name else "MODEL=NAME"
    return f"Choose a model with {how} (for a second model: GRADER_{how} or SCORER_{how})"


def _chosen(wanted: str, models: Mapping[str, Any], address: str, card: Card) -> str:
    """Return the name of the model to use: `wanted`, or the one that fits. Raises UserError if none
    or several fit."""
    # a provider's list may lack the model
    if wanted in models or (wanted and (not models or card.name)):
        return wanted
    fitting = list(models)
    if wanted:  # it may lack the digest that our names end in
        fitting = [name for name in models if digest_in(name) and name.split("@")[0] == wanted]
    if len(fitting) == 1:
        return fitting[0]
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
    served = {" ".join((server.kind, server.model, *server.weights.values())) for server in servers}
    if len(served) > 1:
        raise UserError(
            f"the gateway at {address} mixes {', '.join(sorted(served))}. Give it equal servers"
        )
    gateway = replace(
        servers[0],
        base_url=address,
        why=f"{why} (a gateway in front of {len(servers)} servers)",
        limit=sum(server.limit for server in servers),
        kv_tokens=sum(server.kv_tokens for server in servers),
        most_running=sum(server.most_running for server in servers),
    )
    return carded(gateway, card)
