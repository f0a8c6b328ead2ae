"""Recognise, start and ask SGLang. Versions 0.5.17 (on an H100) and 0.5.23 (on a CPU) accepted the
flags."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.engines.identity import fingerprint
from core.engines.need import MOST_RUNNING, ServerSize, in_flight
from core.engines.on_gpu import STREAM_INTERVAL, OnGpu
from core.engines.protocol import (
    NO_PENALTIES,
    UNKNOWN_LIMIT,
    WAITING,
    Rewards,
    Server,
    closing,
    ending,
    is_local,
    untagged,
)
from core.engines.queries import count, line, objects, page_of, tail_by_tokens
from core.engines.wanted import Hosting
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

    kind = "sglang"
    label = "SGLang"
    names = ("sglang",)
    channel_parser = "gpt-oss"
    neutral = NO_PENALTIES
    embeds = True
    renders = ("tokenize", "tokens")
    # /v1/classify would turn a single logit into the probability 1
    rewards = Rewards("/classify", takes_tokens=True, gives_logits=True)
    # The range that SGLang's authors report (lmsys.org, 22 September 2025, 34% on average). It was
    # not measured here.
    deterministic_cost = (0.25, 0.45)

    def described(
        self, server: Server, entry: Mapping[str, Any], models: Mapping[str, Any]
    ) -> Server:
        info = _page(server, "server_info")
        # the weights may change while SGLang serves, so the page of the model has precedence
        settings = info | _page(server, "model_info")
        path = str(settings.get("model_path") or "")
        tokens, running = _capacity(info)
        return replace(
            server,
            limit=WAITING + in_flight(tokens or 8192 * UNKNOWN_LIMIT, running),
            kv_tokens=tokens,
            most_running=running,
            version=line(info.get("version")),
            closes=_closes(server),
            # otherwise SGLang ignores seeds
            seeds=info.get("enable_deterministic_inference") is True,
            weights=fingerprint(server.model, path, settings, is_local(server.base_url)),
            tail=tail_by_tokens(server, "text"),
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

    def arguments(self, model: Model, size: ServerSize, ours: Hosting) -> list[str]:
        """Return the arguments of SGLang's interpreter. SGLang decides numbers that are 0 in
        `size`."""
        flags = [
            *("-m", "sglang.launch_server"),
            *("--model-path", str(model.folder), "--served-model-name", model.name),
            *("--host", ours.BIND, "--port", str(ours.PORT)),
        ]
        if size.context:
            flags += ["--context-length", str(size.context)]
        flags += [
            # e5m2 needs no scales (the checkpoint has no scales). Half the bytes allow twice the
            # traces in flight.
            *("--kv-cache-dtype", "fp8_e5m2" if size.kv == "fp8" else "auto"),
        ]
        if size.fraction:
            flags += ["--mem-fraction-static", str(size.fraction)]
        if size.gpus > 1:
            flags += ["--tp-size", str(size.gpus)]
        if size.tokens > MOST_TOKENS:
            flags += ["--max-total-tokens", str(MOST_TOKENS)]
        if size.running:
            # larger batches would decode without graphs
            flags += ["--max-running-requests", str(size.running)]
            flags += ["--cuda-graph-max-bs-decode", str(size.running)]
        flags += [
            *("--schedule-conservativeness", str(CONSERVATIVENESS)),
            *("--stream-interval", str(STREAM_INTERVAL)),
            # otherwise the model's generation_config.json sets defaults
            *("--sampling-defaults", "openai"),
            *self.parser(model),
        ]
        if size.embeds:
            flags += ["--return-hidden-states-mode", "last"]
        flags += ["--enable-cache-report", "--enable-metrics"]
        if ours.DETERMINISTIC:
            # only this deterministic backend has a prefix cache and supports fp8_e5m2
            flags += ["--enable-deterministic-inference", "--attention-backend", "triton"]
        return flags

    def secrets(self, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Write the key, if there is one, to a file that only this user may read, and return the
        flag with its path."""
        if not key:
            return [], {}
        file = folder / "key.yaml"
        file.touch(0o600)
        file.write_text(f"api-key: {json.dumps(key)}\n")  # a string of JSON is a string of YAML
        return ["--config", str(file)], {}


def _page(server: Server, name: str) -> dict[str, Any]:
    """Return an endpoint's description of the server. Before 0.5.23, the endpoint's name began with
    get_."""
    return page_of(server, name) or page_of(server, f"get_{name}")


def _capacity(info: Mapping[str, Any]) -> tuple[int, int]:
    """Return the tokens of the KV caches (0: unknown), and the most requests that SGLang decodes
    together, of all copies (--dp-size). SGLang has a queue, so a high guess costs nothing."""
    copies = count(info.get("dp_size")) or 1
    tokens = count(info.get("max_total_num_tokens")) or 0
    running = count(info.get("max_running_requests")) or MOST_RUNNING
    for state in objects(info, "internal_states"):  # lower than the flag if the memory is short
        running = count(state.get("effective_max_running_requests_per_dp")) or running
    return copies * tokens, copies * running


def _closes(server: Server) -> bool:
    """Return whether the chat template is known to render a different prompt if thinking is
    switched off."""
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": "1"}],
        "add_generation_prompt": True,
    }
    without_thinking = body | {"chat_template_kwargs": {"enable_thinking": False}}
    tokens = page_of(server, "tokenize", body).get("tokens")
    closed_tokens = page_of(server, "tokenize", without_thinking).get("tokens")
    return isinstance(closed_tokens, list) and tokens != closed_tokens


DIALECT = SGLang()
