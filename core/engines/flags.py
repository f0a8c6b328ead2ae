"""The command lines of SGLang and vLLM: the only place with their flags.

What can be is derived: from the model's config.json, the card's memory, and what the experiment will ask. Flags were
parsed by SGLang 0.5.23's own parser (tests/engines/test_sglang_flags.py) and looked up in vLLM 0.33.0; see docs/LOG.md.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.constants import Constants, Rule, rules
from core.engines import gpus, weights
from core.engines.gpus import Gpu
from core.engines.shape import KV_BYTES, Shape, kv_tokens, mem_fraction
from core.errors import UserError
from core.files import ROOT

PROMPT_TOKENS = 2048  # room for a problem's statement and the instructions around it
TRACE_SHARE = 1 / 3  # of MAX_TOKENS that a request holds on average over its life: half of a length of two thirds
MOST_RUNNING = 256  # requests; more gain nothing on one card
FEWEST_HELD = 2048  # tokens that a request holds at the least: more of them in flight than that cannot all run
# SGLang reserves 0.7 times this share of what a running request may still write (of at most 4,096 tokens, its clip)
# before it admits another. Half of the default: most traces end far below MAX_TOKENS, and one that is put back for lack
# of room only has its prompt and tokens read again.
CONSERVATIVENESS = 0.5
# What --enable-deterministic-inference costs, as a share of the time: its makers' figure for most of their workloads
# (lmsys.org, 22 September 2025; 34% on average), not measured here.
DETERMINISTIC_COST = (0.25, 0.45)
STREAM_INTERVAL = 32  # tokens between messages from scheduler to front end: nobody reads along
ENGINES = {"sglang": "SGLang", "vllm": "vLLM"}

Shown = Callable[[Any], int]  # of a Config: the most texts that one prompt shows


@dataclass(frozen=True)
class Need:
    """What the longest request of an experiment holds: `k` texts (candidates, reports, summaries) and the new one, each
    `max_tokens` at most (thinking included), and the forced answer behind it."""

    k: int = 3
    max_tokens: int = 16384
    answer_tokens: int = 512

    @classmethod
    def of(cls, config: Mapping[str, Any], shown: Shown | None = None) -> "Need":
        """From an experiment's constants. `shown`: of a scaffold that shows more than K candidates at a time. Without
        K, one that carries or verifies shows one."""
        k = shown(config) if shown else config.get("K", int("CARRY" in config or "VERIFY_TOKENS" in config))
        return cls(k, config["MAX_TOKENS"], config["ANSWER_TOKENS"])

    @classmethod
    def read(cls, argv: Sequence[str]) -> "tuple[Need, list[str]]":
        """From NAME=value arguments, and the others that are left. Raises UserError."""
        rest = [arg for arg in argv if not re.fullmatch(r"[A-Z_]+=.*", arg)]
        names = {"K": "k", "MAX_TOKENS": "max_tokens", "ANSWER_TOKENS": "answer_tokens"}
        known = rules(Constants) | {"K": Rule("texts that one prompt shows", int, 1, 1024)}
        given: dict[str, int] = {}
        for name, _, value in (arg.partition("=") for arg in argv if arg not in rest):
            if name not in names:
                raise UserError(f"unknown constant {name}. What a server has to hold is told by {', '.join(names)}")
            given[names[name]] = known[name].read(name, value)
        return cls(**given), rest

    @property
    def context(self) -> int:
        """Tokens of the longest prompt and its completion."""
        return PROMPT_TOKENS + (self.k + 1) * self.max_tokens + self.answer_tokens


@dataclass(frozen=True)
class Settings:
    """How a model is served on a card. `context`: tokens of one request; `running`: requests decoded together;
    `fraction`: of the card's free memory, for weights and KV cache."""

    context: int
    kv: str  # "bf16" or "fp8"
    fraction: float
    running: int
    tokens: int  # of KV cache, as computed; the server tells its own count
    deterministic: bool = False  # SGLang: equal requests with equal seeds get equal answers, whatever else is in flight


def settings(shape: Shape, longest: int, gpu: Gpu, need: Need, kv: str = "") -> Settings:
    """The settings for `need` on `gpu`. `longest`: the context the model was made for. `kv`: a type, or "" for fp8
    where the card has it. Raises UserError where the model, or one request, does not fit."""
    kv = kv or ("fp8" if gpu.fp8 else "bf16")
    if kv == "fp8" and not gpu.fp8:
        raise UserError(f"{gpu.name} has no fp8. Unset KV, or set KV=bf16")
    tokens = kv_tokens(shape, gpu.memory, kv)
    least = PROMPT_TOKENS + need.max_tokens + need.answer_tokens
    if tokens < least:
        raise UserError(
            f"the model leaves room for {tokens:,} tokens of KV cache ({kv}) on {gpu.name} and one request may need "
            f"{least:,}. Lower MAX_TOKENS, {'set KV=fp8, ' if kv == 'bf16' and gpu.fp8 else ''}or take a larger GPU"
        )
    return Settings(
        context=min(need.context, longest, tokens),
        kv=kv,
        fraction=mem_fraction(gpu.memory),
        running=running(tokens, need.max_tokens),
        tokens=tokens,
    )


def running(tokens: int, max_tokens: int) -> int:
    """Requests that a KV cache of so many tokens holds together, capped at `max_tokens` each."""
    return max(1, min(int(tokens // (max_tokens * TRACE_SHARE)), MOST_RUNNING))


@dataclass(frozen=True)
class Model:
    """The weights to serve: a folder in Hugging Face's layout, and the name that requests use."""

    folder: Path
    name: str
    shape: Shape
    longest: int  # tokens of context the model was made for

    @classmethod
    def chosen(cls) -> "Model":
        """QED-Nano (fetched where it is missing), or the folder that MODEL names."""
        named = os.environ.get("MODEL", "").strip()
        if named in ("", weights.REPO):
            folder, name = weights.fetch(), weights.REPO
        else:
            folder = Path(named).resolve()
            if not (folder / "config.json").is_file():
                raise UserError(f"MODEL={named} is no folder with a config.json. Unset MODEL for {weights.REPO}")
            name = f"{folder.name}@{weights.digest(folder)[:12]}"  # journals must tell one fine-tuning from another
        config = folder / "config.json"
        return cls(folder, name, Shape.from_config(config), _longest(config))


def _longest(config: Path) -> int:
    found = re.search(r'"max_position_embeddings":\s*(\d+)', config.read_text(encoding="utf-8"))
    return int(found[1]) if found else 32768


def named_model() -> str:
    """The model that MODEL names on a server; "" where it is unset, or the path of weights to serve. With BASE_URL
    nothing is served here, and a path is a name: vLLM and SGLang call a model so where they are given no other."""
    named = os.environ.get("MODEL", "").strip()
    return "" if Path(named).exists() and not os.environ.get("BASE_URL", "").strip() else named


def kv_wanted() -> str:
    """The KV cache type that KV asks for, or ""."""
    kv = os.environ.get("KV", "").strip().lower()
    if kv and kv not in KV_BYTES:
        raise UserError(f"KV={kv} is no type of KV cache. There are: {', '.join(KV_BYTES)}")
    return kv


def deterministic_wanted() -> bool:
    """Whether DETERMINISTIC asks for an engine that honours seeds."""
    wanted = os.environ.get("DETERMINISTIC", "").strip()
    if wanted not in ("", "0", "1"):
        raise UserError(f"DETERMINISTIC={wanted} is neither 1 (SGLang honours seeds) nor 0")
    return wanted == "1"


def command(engine: str, model: Model, need: Need, host: str, port: int, extra: Sequence[str] = ()) -> list[str]:
    """The command that serves `model` on this machine's GPU, with `extra` flags at its end, where they win. An API key
    is no part of it (see `secrets`)."""
    gpu = gpus.detect() or gpus.DEFAULT
    chosen = replace(settings(model.shape, model.longest, gpu, need, kv_wanted()), deterministic=deterministic_wanted())
    build = {"sglang": sglang, "vllm": vllm}[engine]
    return [python_of(engine), *build(model, chosen, host, port), *extra]


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
        *("--reasoning-parser", "qwen3"),
        "--enable-cache-report",
        "--enable-metrics",
        # Of the backends that may be deterministic, the one that keeps the prefix cache and takes fp8_e5m2.
        *(("--enable-deterministic-inference", "--attention-backend", "triton") if chosen.deterministic else ()),
    ]


def vllm(model: Model, chosen: Settings, host: str, port: int) -> list[str]:
    """Arguments of vLLM. Its share of memory stays its own: it measures what activations take, and counts them in."""
    return [
        *("-m", "vllm.entrypoints.cli.main", "serve", str(model.folder), "--served-model-name", model.name),
        *("--host", host, "--port", str(port)),
        *("--max-model-len", str(chosen.context)),
        *("--kv-cache-dtype", "fp8" if chosen.kv == "fp8" else "auto"),
        *("--max-num-seqs", str(chosen.running)),
        *("--stream-interval", str(STREAM_INTERVAL)),
        *("--reasoning-parser", "qwen3"),
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
    ]


def decoded_together(args: Sequence[str]) -> int | None:
    """The requests that vLLM, started with `args`, decodes together: it tells nobody. Of several flags the last wins.
    None where there is none."""
    told = re.findall(r"(?<=--max-num-seqs[= ])\d+", " ".join(args))
    return int(told[-1]) if told else None


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


def python_of(engine: str) -> str:
    """The interpreter that imports the engine: SGLANG_PYTHON (or VLLM_PYTHON), the venv that setup.sh makes, or the
    image's own python3."""
    variable = f"{engine.upper()}_PYTHON"
    named = os.environ.get(variable)
    candidates = [named] if named else [str(ROOT / f".venv-{engine}" / "bin" / "python"), shutil.which("python3")]
    for python in candidates:
        if python and _imports(python, engine):
            return python
    if named:
        raise UserError(f"{variable}={named} does not import {engine}. Name an interpreter that does, or unset it")
    setup = "bash setup.sh" if engine == "sglang" else f"bash setup.sh {engine}"
    raise UserError(f"no python here imports {engine}. Run '{setup}', which makes an environment for it")


def _imports(python: str, module: str) -> bool:
    try:
        return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def shown(args: Sequence[str]) -> str:
    """A command line to copy."""
    return shlex.join(args)
