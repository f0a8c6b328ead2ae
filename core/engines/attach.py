"""Attaching to a server that runs: which engine it is, and what it says of itself.

Every engine lists its models at /v1/models and names itself there (`owned_by`); the rest is asked where that engine
keeps it. What a server does not say is left unknown.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.base.errors import UserError, one_line
from core.engines import cards, chat_template, client, gateway, llamacpp, weights
from core.engines.cards import Card
from core.engines.embedded_model import embedded_card, embedded_name, embedded_sha256
from core.engines.identity import LONGEST, fingerprint
from core.engines.need import FEWEST_HELD, MOST_RUNNING
from core.engines.server import UNKNOWN_LIMIT, Server, digest_in, is_local

WAITING = 2  # requests that wait at a server's door, so that nothing in it stands empty

_LABEL = re.compile(r'(\w+)="(\d*)')  # of a metric; of its value, the digits that it begins with
_CACHE_TYPE = re.compile(r'cache_config_info\{[^}]*cache_dtype="([^"]+)"')
_OLLAMA_DIGEST = re.compile(r"[0-9a-f]{64}")


def probe(base_url: str, why: str, model: str = "", key: str = "", card: Card = cards.NONE) -> Server | None:
    """The server at `base_url` with what it says of itself, and what its card says: `card`, else that of the model, if
    there is one. None where nothing answers. Of several models it serves, `model` is meant; the only one where that
    is "". Requests carry the `key`. Raises UserError where the server is not usable."""
    address, query = _checked(base_url, card)
    return _at(address, query, why, model, key, card)


def look_again(server: Server) -> Server | None:
    """The server at the address of `server` as it is now; None where nothing answers. Raises UserError, as probe."""
    return _at(server.base_url, server.query, server.why, server.model, server.api_key, server.card)


def _at(address: str, query: dict[str, str], why: str, model: str, key: str, card: Card) -> Server | None:
    root = address.removesuffix("/v1")
    listed = client.find(cards.with_query(f"{address}/models", query), key)
    if listed is None:
        return None
    models = {about["id"]: about for about in client.objects(listed, "data") if _is_name(about.get("id"))}
    if any(about.get("owned_by") == "local" for about in models.values()):  # an SGLang Model Gateway says so
        workers = gateway.listed(client.page(f"{root}/workers", key))
        if workers and workers.keys() <= gateway.ours():
            return carded(_gateway(address, why, workers, model, key, card), card)
        if workers:
            why += "; its servers are not in RESULTS_DIR/fleet, and are asked nothing"
    found = Server("other", address, "", why, card=card, query=query, api_key=key, look=look_again)
    found = replace(found, model=_chosen(model, models, found))
    about = models.get(found.model, {})
    if found.model == weights.REPO and (note := weights.fetched()):
        found = replace(found, revision=note["revision"])
    return carded(_known(found, about, models), card)


def _known(found: Server, about: Mapping[str, Any], models: Mapping[str, Any]) -> Server:
    """`found` with what its engine tells. `about`: what its list says of the model, `models`: of all, by name."""
    root, owner = found.base_url.removesuffix("/v1"), str(about.get("owned_by", "")).lower()
    if owner == "sglang":
        return _sglang(found, about)
    if owner == "vllm":
        return _vllm(found, about, models)
    is_provider = found.card.name and not found.card.engine
    if owner == "llamacpp" or not is_provider:
        props = client.page(f"{root}/props", found.api_key)
        if props or owner == "llamacpp":
            return _llamacpp(found, props, about)
    digest = "" if found.card.key_env else _ollama_digest(found)  # no provider with a key is an Ollama
    return replace(found, context=_count(about.get("max_model_len")), weights={"weights": digest} if digest else {})


def carded(server: Server, card: Card = cards.NONE) -> Server:
    """`server` with its `card`, else with that of its model, if there is one."""
    card = card if card.name else cards.of_model(server.model, server.kind)
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
        if "printed" in str(error):
            raise UserError(f"BASE_URL can't be used: {error}. Put the secret into API_KEY") from None
        shown = f"={base_url}" if "@" not in base_url else ""  # before that, there may be a password
        raise UserError(f"BASE_URL{shown} is not an address. Give one like http://127.0.0.1:30000/v1") from None
    for path in ("/chat/completions", "/completions", "/responses", "/models"):  # of requests, as manuals show them
        address = address.removesuffix(path)
    query = {**card.query, **query}
    is_whole = address == card.base_url or cards.has_version(address) or bool(query)
    return address if is_whole else f"{address}/v1", query


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST


def _count(value: Any) -> int | None:
    """Return what a server gives for a number of tokens or requests; None if it is no whole number from 1 up."""
    try:
        number = int(value) if isinstance(value, int | float | str) and value is not True else 0
    except (ValueError, OverflowError):
        return None
    return number if 0 < number <= cards.MOST else None


def _line(value: Any) -> str | None:
    """Return what a server gives for a text; None if it is none."""
    return one_line(value, LONGEST) or None if isinstance(value, str) else None


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
    raise UserError(
        f"set {how} to one of the models served at {found.base_url}: {shown}.{cards.meant(wanted) if wanted else ''}"
    )


# The engines


def _llamacpp(found: Server, props: Mapping[str, Any], about: Mapping[str, Any]) -> Server:
    """`props`: its page of properties, `about`: what its list says of the model."""
    path, settings = str(props.get("model_path") or ""), props.get("default_generation_settings")
    is_embedded = digest_in(found.model) and found.model.partition("@")[0] == embedded_card().model
    return replace(
        found,
        kind="llama.cpp",
        limit=(_count(props.get("total_slots")) or 1) + WAITING,
        context=_count(settings.get("n_ctx")) if isinstance(settings, dict) else None,
        version=_line(llamacpp.release_in(about) or props.get("build_info")),
        sha256=embedded_sha256() if is_embedded and found.model == embedded_name() else None,
        seeds=True,
        weights=fingerprint(found.model, path, {}, is_local(found.base_url)),
        template=chat_template.tail_on_llamacpp,
    )


def _sglang(found: Server, about: Mapping[str, Any]) -> Server:
    """`about`: what its list says of the model."""
    root, key = found.base_url.removesuffix("/v1"), found.api_key
    info = client.page(f"{root}/server_info", key) or client.page(f"{root}/get_server_info", key)  # before 0.5.23
    # The weights may be changed while it serves.
    now = client.page(f"{root}/model_info", key) or client.page(f"{root}/get_model_info", key)
    path = str((info | now).get("model_path") or "")
    return replace(
        found,
        kind="sglang",
        limit=_sglang_limit(info),
        context=_count(about.get("max_model_len")),
        version=_line(info.get("version")),
        closes=chat_template.closes_on_sglang(found),
        seeds=info.get("enable_deterministic_inference") is True,  # without it, SGLang draws as it likes
        weights=fingerprint(found.model, path, info | now, is_local(root)),
        template=lambda server: chat_template.tail_on_gpu_engine(server, path),
    )


def _sglang_limit(info: Mapping[str, Any]) -> int:
    """Requests in flight that keep SGLang full: as many as it decodes together, or as its KV cache holds of short ones.
    What does not fit waits in its own queue, so that a guess too high costs nothing."""
    tokens = _count(info.get("max_total_num_tokens")) or 8192 * UNKNOWN_LIMIT
    running = _count(info.get("max_running_requests")) or MOST_RUNNING
    return WAITING + max(1, min(running, tokens // FEWEST_HELD))


def _vllm(found: Server, about: Mapping[str, Any], models: Mapping[str, Any]) -> Server:
    """`about`: what its list says of the model, `models`: of all, by name."""
    root, key = found.base_url.removesuffix("/v1"), found.api_key
    metrics = client.text(f"{root}/metrics", key)
    cache = _CACHE_TYPE.search(metrics)
    base = models.get(str(about.get("parent")), {})  # of an adapter
    settings = {"kv_cache_dtype": cache and cache[1], "base": base.get("root")}
    path = str(about.get("root") or "")
    return replace(
        found,
        kind="vllm",
        limit=_vllm_limit(client.page(f"{root}/server_info?config_format=json", key), metrics),
        context=_count(about.get("max_model_len")),
        version=_line(client.page(f"{root}/version", key).get("version")),
        seeds=True,
        weights=fingerprint(found.model, path, settings, is_local(root)),
        template=lambda server: chat_template.tail_on_gpu_engine(server, path),
    )


def _vllm_limit(info: Mapping[str, Any], metrics: str) -> int:
    """The same for vLLM, which queues by itself, too. It gives the requests that it decodes together (max_num_seqs)
    in its development mode only; else its KV cache stands among its `metrics`, a line for each of its engines."""
    settings = info.get("vllm_config")
    scheduler = settings.get("scheduler_config") if isinstance(settings, dict) else None
    if running := _count(scheduler.get("max_num_seqs")) if isinstance(scheduler, dict) else None:
        return WAITING + running
    engines = [
        dict(_LABEL.findall(line)) for line in metrics.splitlines() if line.startswith("vllm:cache_config_info{")
    ]
    tokens = sum(_cache_tokens(engine) for engine in engines) or MOST_RUNNING * FEWEST_HELD
    return WAITING + max(1, min(MOST_RUNNING * max(1, len(engines)), tokens // FEWEST_HELD))


def _cache_tokens(labels: Mapping[str, str]) -> int:
    """Tokens of KV cache; 0 where they are not given. Older releases give its blocks only."""
    blocks, size = (_count(labels.get(name)) or 0 for name in ("num_gpu_blocks", "block_size"))
    return _count(labels.get("kv_cache_size_tokens")) or blocks * size


def _ollama_digest(found: Server) -> str:
    """Return the beginning of the digest by which Ollama knows a model: weights, template and settings. "" if this is
    no Ollama."""
    for about in client.objects(client.page(f"{found.base_url.removesuffix('/v1')}/api/tags", found.api_key), "models"):
        digest = str(about.get("digest")).removeprefix("sha256:")
        if about.get("name") in (found.model, f"{found.model}:latest") and _OLLAMA_DIGEST.fullmatch(digest):
            return digest[:16]
    return ""


# SGLang Model Gateway


def _gateway(
    base_url: str, why: str, workers: Mapping[str, Mapping[str, Any]], model: str, key: str, card: Card
) -> Server:
    """A gateway says neither engine nor context: what the servers behind it say, with their limits added up. Answers
    are kept under the name of the model, as theirs are."""
    healthy = [url for url, worker in workers.items() if worker.get("is_healthy")]
    servers = [server for url in healthy if (server := probe(url, why, model, key, card))]
    if not servers:
        raise UserError(f"the gateway at {base_url} has no server that answers from here. Look into its servers' logs")
    if len(served := {(server.kind, server.model, *server.weights.values()) for server in servers}) > 1:
        raise UserError(
            f"the gateway at {base_url} mixes {sorted(served)}. A run needs servers of one model and engine"
        )
    first = servers[0]
    return replace(
        first,
        base_url=base_url,
        why=f"{why}, a gateway in front of {len(servers)} servers",
        limit=sum(server.limit for server in servers),
        context=min((server.context for server in servers if server.context), default=None),
        seeds=all(server.seeds for server in servers),
        version=" and ".join(sorted({server.version for server in servers if server.version})) or None,
        look=lambda _: probe(base_url, why, model, key, card),
        template=lambda _: first.tail,
    )
