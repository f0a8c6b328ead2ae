"""Recognise, start and ask SGLang. Versions 0.5.17 (on an H100) and 0.5.23 (on a CPU) accepted the
flags."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.engines import environment
from core.engines import queries as client
from core.engines.dialect import STREAM_INTERVAL, OnGpu
from core.engines.identity import fingerprint
from core.engines.need import FEWEST_HELD, MOST_RUNNING, Settings
from core.engines.protocol import (
    NO_PENALTIES,
    UNKNOWN_LIMIT,
    WAITING,
    Server,
    closing,
    ending,
    is_local,
    untagged,
)
from core.engines.queries import count, line, page_of
from core.engines.weights import Model
from core.types import Message

# Before SGLang admits a request, it reserves 0.7 times this share of the tokens that each running
# request may still write (at most 4,096). The default is twice as high, but most traces end far
# below MAX_TOKENS. If a request is put back for lack of room, SGLang only has to read its tokens
# again.
CONSERVATIVENESS = 0.5
# Of KV cache. SGLang copies a list with 8 bytes for each free token, outside the memory that it
# sets aside. On an H100 the embedded model got 102 million tokens, and the first request ran out of
# memory. This number suffices for 256 requests of 32,768 tokens. A larger model's cache has fewer
# tokens.
MOST_TOKENS = 2**23


class SGLang(OnGpu):
    """The default engine on a GPU. It honours seeds only if started with DETERMINISTIC=1."""

    kind, label = "sglang", "SGLang"
    engines = ("sglang",)
    neutral = NO_PENALTIES
    embeds = True
    # The range that SGLang's authors report (lmsys.org, 22 September 2025, 34% on average). It was
    # not measured here.
    deterministic_cost = (0.25, 0.45)

    def described(
        self, found: Server, about: Mapping[str, Any], models: Mapping[str, Any]
    ) -> Server:
        info = _page(found, "server_info")
        now = _page(found, "model_info")  # the weights may change while SGLang serves
        path = str((info | now).get("model_path") or "")
        return replace(
            found,
            limit=_limit(info),
            version=line(info.get("version")),
            closes=_closes(found),
            # otherwise SGLang ignores seeds
            seeds=info.get("enable_deterministic_inference") is True,
            weights=fingerprint(found.model, path, info | now, is_local(found.base_url)),
            tail=client.tail_by_tokens(found, "text"),
        )

    def closed(
        self, server: Server, messages: Sequence[Message], thinking: str, opening: str
    ) -> dict[str, Any]:
        """Return the fields of a request. SGLang tokenizes text and prompt separately. The prompt
        opens the tag. Without thinking, the template closes the tag if it can, so that two line
        breaks stay a single token."""
        if server.closes and not untagged(thinking):
            fields = ending(messages, opening)
            return fields | {
                "continue_final_message": True,
                "chat_template_kwargs": {"enable_thinking": False},
            }
        return ending(messages, closing(thinking, opening)) | {"continue_final_message": True}

    def left_open(
        self, server: Server, messages: Sequence[Message], thinking: str
    ) -> dict[str, Any]:
        """Return the fields of a request. SGLang appends the assistant's text to the generation
        prompt."""
        content = f"<think>\n{thinking}" if server.thinking is False else thinking
        return ending(messages, content) | {"continue_final_message": True}

    def arguments(self, model: Model, chosen: Settings, host: str, port: int) -> list[str]:
        is_deterministic = environment.hosting().DETERMINISTIC
        return [
            *("-m", "sglang.launch_server"),
            *("--model-path", str(model.folder), "--served-model-name", model.name),
            *("--host", host, "--port", str(port)),
            *("--context-length", str(chosen.context)),
            # e5m2 needs no scales (the checkpoint has no scales). Half the bytes allow twice the
            # traces in flight.
            *("--kv-cache-dtype", "fp8_e5m2" if chosen.kv == "fp8" else "auto"),
            *("--mem-fraction-static", str(chosen.fraction)),
            *(("--tp-size", str(chosen.gpus)) if chosen.gpus > 1 else ()),
            *(("--max-total-tokens", str(MOST_TOKENS)) if chosen.tokens > MOST_TOKENS else ()),
            *("--max-running-requests", str(chosen.running)),
            # larger batches would decode without graphs
            *("--cuda-graph-max-bs-decode", str(chosen.running)),
            *("--schedule-conservativeness", str(CONSERVATIVENESS)),
            *("--stream-interval", str(STREAM_INTERVAL)),
            # otherwise the model's generation_config.json sets defaults
            *("--sampling-defaults", "openai"),
            *self.parser(model),
            *(("--return-hidden-states-mode", "last") if chosen.embeds else ()),
            "--enable-cache-report",
            "--enable-metrics",
            # Only this deterministic backend has a prefix cache and supports fp8_e5m2.
            *(
                ("--enable-deterministic-inference", "--attention-backend", "triton")
                if is_deterministic
                else ()
            ),
        ]

    def secrets(self, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Write the key, if there is one, to a file that only this user may read, and return the
        flag with its path."""
        if not key:
            return [], {}
        file = folder / "key.yaml"
        file.touch(0o600)
        file.write_text(f"api-key: {json.dumps(key)}\n")  # a string of JSON is a string of YAML
        return ["--config", str(file)], {}


def _page(found: Server, name: str) -> dict[str, Any]:
    """Return an endpoint's description of the server. Before 0.5.23, the endpoint's name began with
    get_."""
    return page_of(found, name) or page_of(found, f"get_{name}")


def _limit(info: Mapping[str, Any]) -> int:
    """Return the number of requests in flight that keep SGLang busy. SGLang has a queue, so a high
    guess costs nothing. Each copy (--dp-size) runs up to max_running_requests, but no more short
    requests than its KV cache holds."""
    tokens = count(info.get("max_total_num_tokens")) or 8192 * UNKNOWN_LIMIT
    running = count(info.get("max_running_requests")) or MOST_RUNNING
    return WAITING + (count(info.get("dp_size")) or 1) * max(1, min(running, tokens // FEWEST_HELD))


def _closes(server: Server) -> bool:
    """Return whether the chat template is known to render a different prompt if thinking is
    switched off."""
    asked = {
        "model": server.model,
        "messages": [{"role": "user", "content": "1"}],
        "add_generation_prompt": True,
    }
    closed = asked | {"chat_template_kwargs": {"enable_thinking": False}}
    tokens = [page_of(server, "tokenize", body).get("tokens") for body in (asked, closed)]
    return isinstance(tokens[1], list) and tokens[0] != tokens[1]


DIALECT = SGLang()
