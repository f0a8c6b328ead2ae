"""The command lines of SGLang and vLLM: the only place with their flags.

What can be is derived (core/engines/need.py). Flags were parsed by SGLang 0.5.23's own parser
(tests/engines/test_sglang_flags.py) and looked up in vLLM 0.33.0; see docs/LOG.md.
"""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from core.engines.need import Settings
from core.engines.weights import Model

# SGLang reserves 0.7 times this share of what a running request may still write (of at most 4,096 tokens, its clip)
# before it admits another. Half of the default: most traces end far below MAX_TOKENS, and one that is put back for lack
# of room only has its prompt and tokens read again.
CONSERVATIVENESS = 0.5
STREAM_INTERVAL = 32  # tokens between messages from scheduler to front end: nobody reads along
ENGINES = {"sglang": "SGLang", "vllm": "vLLM"}
POOLING = {"sglang": "last", "vllm": "mean"}  # which tokens' vectors an embedding is made of; SGLang leaves no choice
VLLM_SHARE = 0.9  # of the memory that is left to it: its own default is 0.92


def arguments(engine: str, model: Model, chosen: Settings, host: str, port: int) -> list[str]:
    """The arguments of a Python interpreter that serve `model` on this machine's GPU. An API key is not among them (see
    `secrets`)."""
    return {"sglang": sglang, "vllm": vllm}[engine](model, chosen, host, port)


def embedding(engine: str, model: Model, chosen: Settings, host: str, port: int) -> list[str]:
    """The same to embed with `model`, under another name."""
    its = replace(model, name=embedding_name(engine, model.name))
    return {"sglang": sglang_embedding, "vllm": vllm_embedding}[engine](its, chosen, host, port)


def embedding_name(engine: str, name: str) -> str:
    """What a server that embeds calls a model `name`: vectors that are pooled otherwise are of another one."""
    model, at, digest = name.partition("@")
    return f"{model}-{POOLING[engine]}{at}{digest}"


def sglang(model: Model, chosen: Settings, host: str, port: int) -> list[str]:
    """Arguments of SGLang."""
    return [
        *("-m", "sglang.launch_server"),
        *("--model-path", str(model.folder), "--served-model-name", model.name),
        *("--host", host, "--port", str(port)),
        *("--context-length", str(chosen.context)),
        # e5m2 needs no scales, which the checkpoint does not bring; half the bytes, twice the traces in flight.
        *("--kv-cache-dtype", "fp8_e5m2" if chosen.kv == "fp8" else "auto"),
        *("--mem-fraction-static", str(chosen.fraction)),
        *("--max-running-requests", str(chosen.running)),
        *("--cuda-graph-max-bs-decode", str(chosen.running)),  # larger batches would decode without graphs
        *("--schedule-conservativeness", str(CONSERVATIVENESS)),
        *("--stream-interval", str(STREAM_INTERVAL)),
        *_parser(model),
        "--enable-cache-report",
        "--enable-metrics",
        # Of the backends that may be deterministic, the one that keeps the prefix cache and takes fp8_e5m2.
        *(("--enable-deterministic-inference", "--attention-backend", "triton") if chosen.deterministic else ()),
    ]


def sglang_embedding(model: Model, chosen: Settings, host: str, port: int) -> list[str]:
    """Arguments of SGLang that make it embed, and nothing else."""
    return [
        *("-m", "sglang.launch_server", "--is-embedding"),
        *("--model-path", str(model.folder), "--served-model-name", model.name),
        *("--host", host, "--port", str(port)),
        *("--context-length", str(chosen.context)),
        *("--mem-fraction-static", str(chosen.fraction)),
        # What is left of the memory is for who generates.
        *("--max-total-tokens", str(chosen.tokens), "--max-prefill-tokens", str(chosen.tokens)),
        "--disable-cuda-graph",  # they are of decoding, and take memory
    ]


def vllm(model: Model, chosen: Settings, host: str, port: int) -> list[str]:
    """Arguments of vLLM. Alone, its share of memory stays its own: it measures what activations take and counts them
    in."""
    return [
        *("-m", "vllm.entrypoints.cli.main", "serve", str(model.folder), "--served-model-name", model.name),
        *("--host", host, "--port", str(port)),
        *("--max-model-len", str(chosen.context)),
        *("--kv-cache-dtype", "fp8" if chosen.kv == "fp8" else "auto"),
        *("--max-num-seqs", str(chosen.running)),
        *(("--gpu-memory-utilization", f"{VLLM_SHARE * chosen.share:.3f}") if chosen.share < 1 else ()),
        *("--stream-interval", str(STREAM_INTERVAL)),
        *_parser(model),
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
    ]


def vllm_embedding(model: Model, chosen: Settings, host: str, port: int) -> list[str]:
    """Arguments of vLLM that make it embed, and nothing else."""
    return [
        *("-m", "vllm.entrypoints.cli.main", "serve", str(model.folder), "--served-model-name", model.name),
        *("--host", host, "--port", str(port)),
        *("--runner", "pooling", "--convert", "embed"),
        *("--pooler-config", f'{{"pooling_type": "{POOLING["vllm"].upper()}"}}'),
        *("--max-model-len", str(chosen.context)),
        *("--max-num-batched-tokens", str(chosen.tokens), "--max-num-seqs", str(chosen.running)),
        *("--gpu-memory-utilization", f"{chosen.share:.3f}"),
        "--enforce-eager",  # graphs are of decoding
        "--disable-uvicorn-access-log",
    ]


def _parser(model: Model) -> tuple[str, ...]:
    """What has thinking kept apart from the answer. Of a model that does not think, it takes all that is said for
    thinking (SGLang 0.5.23)."""
    return ("--reasoning-parser", "qwen3") if model.thinks else ()


def decoded_together(args: Sequence[str]) -> int | None:
    """The requests that vLLM, started with `args`, decodes together, which it does not say itself. Of several flags the
    last wins. None where there is none."""
    given = re.findall(r"(?<=--max-num-seqs[= ])\d+", " ".join(args))
    return int(given[-1]) if given else None


def secrets(engine: str, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Flags and environment that give the server its API key without showing it in any list of processes. SGLang reads
    it from a file in `folder` that only we may read."""
    if not key:
        return [], {}
    if engine == "vllm":
        return [], {"VLLM_API_KEY": key}
    file = folder / "key.yaml"
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(f'api-key: "{key.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"\n')
    return ["--config", str(file)], {}


def shown(args: Sequence[str]) -> str:
    """A command line to copy."""
    return shlex.join(args)
