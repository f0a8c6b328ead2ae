"""Attaching to a server that runs: which engine it is, and what it says of itself.

Every engine lists its models at /v1/models. What else it tells, and where, its file in core/engines/dialects knows.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.base.errors import UserError
from core.engines import cards, client, environment, weights
from core.engines.cards import Card
from core.engines.client import LONGEST
from core.engines.server import Dialect, Server, dialects, digest_in


def probe(base_url: str, why: str, model: str = "", key: str = "", card: Card = cards.NONE) -> Server | None:
    """The server at `base_url` with what it says of itself, and what its card says: `card`, else that of the model, if
    there is one. None where nothing answers. Of several models it serves, `model` is meant; the only one where that
    is "". Requests carry the `key`. Raises UserError where the server is not usable."""
    address, query = _checked(base_url, card)
    if urls := environment.fleet(address):
        return _behind_gateway(address, urls, why, model, key, card)
    listed = client.find(cards.with_query(f"{address}/models", query), key)
    if listed is None:
        return None
    models = {about["id"]: about for about in client.objects(listed, "data") if _is_name(about.get("id"))}
    found = Server(Dialect.kind, address, "", why, card=card, query=query, api_key=key, look=look_again)
    found = replace(found, model=_chosen(model, models, found))
    about = models.get(found.model, {})
    if found.model == weights.REPO and (note := weights.fetched()):
        found = replace(found, revision=note["revision"])
    return carded(_known(found, about, models), card)


def look_again(server: Server) -> Server | None:
    """The server at the address of `server` as it is now; None where nothing answers. Raises UserError, as probe."""
    address = cards.with_query(server.base_url, server.query)
    return probe(address, server.why, server.model, server.api_key, server.card)


def _known(found: Server, about: Mapping[str, Any], models: Mapping[str, Any]) -> Server:
    """Return `found` with what its engine tells. `about`: the entry of its list for our model. `models`: all entries.

    The engine that the entry names as its owner is asked alone, if there is one.
    """
    owners = [each for each in dialects() if each.is_owner(about)]
    return next(filter(None, (each.recognised(found, about, models) for each in owners or dialects())))


def carded(server: Server, card: Card = cards.NONE) -> Server:
    """`server` with its `card`, else with that of its model, if there is one."""
    card = card if card.name else cards.of_model(server.model, next(iter(server.dialect.engines), ""))
    return replace(
        server,
        card=card,
        limit=card.concurrency or server.limit,
        context=server.context or card.context,
        seeds=False if "seed" in card.never else server.seeds,
    )


def _checked(base_url: str, card: Card) -> tuple[str, dict[str, str]]:
    """The address and what stands behind it as a query. That of a card is taken as it is written; others end in /v1,
    unless their path names a version already, or a query does. Raises UserError where it is not an address."""
    try:
        address, query = cards.address(base_url)
    except ValueError as error:
        raise UserError(
            f"BASE_URL can't be used: {error}. Give one like http://127.0.0.1:30000/v1, and the key as API_KEY"
        ) from None
    for path in ("/chat/completions", "/completions", "/responses", "/models"):  # of requests, as manuals show them
        address = address.removesuffix(path)
    query = {**card.query, **query}
    is_whole = address == card.base_url or cards.has_version(address) or bool(query)
    return address if is_whole else f"{address}/v1", query


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST


def _chosen(wanted: str, models: Mapping[str, Any], found: Server) -> str:
    """The name of the model that is meant. Raises UserError."""
    how = f"MODEL={found.card.name}:NAME" if found.card.name else "MODEL"
    if not models and not wanted:
        raise UserError(f"the server at {found.base_url} lists no models. Name one with {how}")
    if wanted in models or (wanted and not (models and found.is_listed)):
        return wanted
    ours = [name for name in models if not wanted or (digest_in(name) and name.partition("@")[0] == wanted)]
    if len(ours) == 1:
        return ours[0]
    shown = ", ".join(list(models)[:8])
    raise UserError(f"set {how} to one of the models served at {found.base_url}: {shown}")


def _behind_gateway(address: str, urls: set[str], why: str, model: str, key: str, card: Card) -> Server | None:
    """A gateway tells neither engine nor context. Return what the servers behind it say, with their limits added up.
    Answers are kept under the name of the model, as theirs are. Raises UserError if their models differ."""
    servers = [server for url in sorted(urls) if (server := probe(url, why, model, key, card))]
    if not servers:
        return None
    if len(served := {(server.kind, server.model, *server.weights.values()) for server in servers}) > 1:
        raise UserError(f"the gateway at {address} mixes {sorted(served)}. A run needs servers of one model and engine")
    first = servers[0]
    found = replace(
        first,
        base_url=address,
        why=f"{why}, a gateway in front of {len(servers)} servers",
        limit=sum(server.limit for server in servers),
        context=min((server.context for server in servers if server.context), default=None),
        seeds=all(server.seeds for server in servers),
        version=" and ".join(sorted({server.version for server in servers if server.version})) or None,
        look=lambda _: probe(address, why, model, key, card),
        template=lambda _: first.tail,
    )
    return carded(found, card)
