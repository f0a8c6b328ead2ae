"""Recognise, start and ask vLLM. The flags come from vLLM 0.33.0 (docs/LOG.md)."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import RedirectRefused, UserError
from core.engines import queries
from core.engines.identity import fingerprint
from core.engines.need import FEWEST_HELD, MOST_RUNNING, ServerSize, in_flight
from core.engines.on_gpu import STREAM_INTERVAL, OnGpu
from core.engines.protocol import NO_PENALTIES, WAITING, Rewards, Server, is_local
from core.engines.queries import count, line, page_of, tail_by_tokens
from core.engines.wanted import Hosting
from core.engines.weights import Model
from core.types import Message

CONTINUES: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}

_CACHE = "vllm:cache_config_info{"
_LABEL = re.compile(r'(\w+)="([^"]*)"')  # a label of a metric with its value


class VLLM(OnGpu):
    """The engine vLLM. It honours seeds, and applies the chat template to a message that it
    continues."""

    kind = "vllm"
    label = "vLLM"
    names = ("vllm",)
    # In bf16 also if the weights are float32. 0.32 crashes on a CPU if it splits a seeded prompt.
    cpu_flags = ("--dtype", "bfloat16", "--no-enable-chunked-prefill")
    channel_parser = "openai_gptoss"
    neutral = NO_PENALTIES
    renders = ("tokenize", "tokens")
    rewards = Rewards("/pooling")

    def described(
        self, server: Server, entry: Mapping[str, Any], models: Mapping[str, Any]
    ) -> Server:
        caches = _caches(server)
        most = MOST_RUNNING * max(1, len(caches))
        tokens = sum(count(labels.get("kv_cache_size_tokens")) or 0 for labels in caches)
        adapted = models.get(str(entry.get("parent")), {})  # the base model of an adapter
        settings = {
            "kv_cache_dtype": caches[0].get("cache_dtype") if caches else None,
            "base": adapted.get("root"),
        }
        path = str(entry.get("root") or "")
        return replace(
            server,
            limit=WAITING + in_flight(tokens or most * FEWEST_HELD, most),
            kv_tokens=tokens,
            most_running=most,
            version=line(page_of(server, "version").get("version")),
            seeds=True,
            weights=fingerprint(server.model, path, settings, is_local(server.base_url)),
            tail=tail_by_tokens(server, "prompt"),
        )

    def closed(
        self, server: Server, messages: Sequence[Message], thinking: str, opening: str
    ) -> dict[str, Any]:
        """Return the fields of a request. The chat template must not change a message that vLLM
        continues."""
        return super().closed(server, messages, thinking, opening) | CONTINUES

    def left_open(
        self, server: Server, messages: Sequence[Message], thinking: str
    ) -> dict[str, Any]:
        """Return the fields of a request. Templates like Qwen3's put closed thinking before any
        text of an assistant. So the request appends the template's tail and the thinking to the
        question. The prompt then equals SGLang's prompt. Without a known template, or if the user's
        message is not last, an assistant's message opens <think>."""
        *before, last = messages
        if server.tail is None or last["role"] != "user":
            return super().left_open(server, messages, thinking) | CONTINUES
        prompt = last["content"] + server.tail
        if not server.thinking:
            prompt += "<think>\n"
        return {"messages": [*before, last | {"content": prompt + thinking}]} | CONTINUES

    def check_model(self, folder: Path) -> None:
        """Raise UserError if vLLM would drop the spaces from texts. Some byte-level tokenizers,
        such as DeepSeek's, declare a wrong tokenizer_class. The transformers 5.19 of vLLM trusts
        it. SGLang and transformers 5.23 correct it."""
        try:
            config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
            named = config.get("tokenizer_class")
            is_byte_level = '"ByteLevel"' in (folder / "tokenizer.json").read_text(encoding="utf-8")
        except (OSError, ValueError, AttributeError):
            return  # reported by the code that needs these files
        if is_byte_level and named in ("LlamaTokenizer", "LlamaTokenizerFast"):
            raise UserError(
                f"vLLM would drop all spaces, because {folder}/tokenizer_config.json calls a "
                f'byte-level tokenizer {named}. Write "tokenizer_class": "PreTrainedTokenizerFast" '
                "into it, or set ENGINE=sglang"
            )

    def arguments(self, model: Model, size: ServerSize, ours: Hosting) -> list[str]:
        """Return the arguments of vLLM's interpreter. vLLM takes its default share of memory. It
        also decides numbers that are 0 in `size`: the longest context that fits the memory, the
        requests decoded together, and the prefix cache, which not every architecture has."""
        flags = [
            *("-m", "vllm.entrypoints.cli.main", "serve", str(model.folder)),
            *("--served-model-name", model.name),
            *("--host", ours.BIND, "--port", str(ours.PORT)),
            *("--max-model-len", str(size.context or "auto")),
            *("--kv-cache-dtype", "fp8" if size.kv == "fp8" else "auto"),
        ]
        if size.running:
            flags += ["--max-num-seqs", str(size.running)]
        flags += [
            # otherwise the model's generation_config.json sets defaults
            *("--generation-config", "vllm"),
        ]
        if size.gpus > 1:
            flags += ["--tensor-parallel-size", str(size.gpus)]
        flags += [
            *("--stream-interval", str(STREAM_INTERVAL)),
            *self.parser(model),
        ]
        if size.tokens:
            flags.append("--enable-prefix-caching")
        flags += [
            "--enable-prompt-tokens-details",
            "--disable-uvicorn-access-log",
        ]
        return flags

    def flags_on_cpu(self, model: Model) -> tuple[str, ...]:
        """Return the flags for a CPU. vLLM caches the prefixes of recurrent layers only if it
        splits prompts."""
        if model.attends:
            return self.cpu_flags
        return *self.cpu_flags, "--no-enable-prefix-caching"

    def secrets(self, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
        return [], {"VLLM_API_KEY": key} if key else {}


def _caches(server: Server) -> list[dict[str, str]]:
    """Return the labels of each engine's KV cache (--data-parallel-size), from a server's
    metrics."""
    metrics = b""
    with suppress(OSError, RedirectRefused):  # a proxy may serve no metrics
        metrics = queries.send(f"{server.root}/metrics", server.key)
    lines = metrics.decode("utf-8", "replace").splitlines()
    return [dict(_LABEL.findall(metric)) for metric in lines if metric.startswith(_CACHE)]


DIALECT = VLLM()
