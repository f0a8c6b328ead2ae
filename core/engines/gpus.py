"""Describe GPUs for planning and serving, from a table, this machine's driver or a file."""

import math
import re
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from core.base.errors import UserError
from core.base.fields import fitted
from core.base.files import read_json

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    """A GPU with its memory and speed."""

    name: str
    memory: float  # bytes, as its driver or a --gpu-file reports them
    bandwidth: float  # bytes/s
    flops: float  # dense bf16 FLOP/s with float32 accumulation
    fp8: bool  # whether SGLang can use an fp8 KV cache (compute capability 8.9 or higher)


# Bandwidth and FLOP/s come from the vendor: for GeForce, from the white papers "GA102", "Ada GPU
# Architecture" and "RTX Blackwell", else from the GPU's data sheet. Sparse figures are halved.
# Memory is the total that nvidia-smi reports, because data sheets round.
_TABLE = (
    Gpu("RTX 3090", 24576 * MIB, 936e9, 71e12, False),
    Gpu("RTX 4090", 24564 * MIB, 1008e9, 165.2e12, True),
    Gpu("RTX 5090", 32607 * MIB, 1792e9, 209.5e12, True),
    Gpu("L40S", 46068 * MIB, 864e9, 362.05e12, True),
    Gpu("A100 40GB", 40960 * MIB, 1555e9, 312e12, False),
    Gpu("A100 80GB PCIe", 81920 * MIB, 1935e9, 312e12, False),
    Gpu("A100 80GB", 81920 * MIB, 2039e9, 312e12, False),  # SXM
    Gpu("H100 PCIe", 81559 * MIB, 2000e9, 756e12, True),
    Gpu("H100", 81559 * MIB, 3350e9, 989.4e12, True),  # SXM
    Gpu("H200", 143771 * MIB, 4800e9, 989.4e12, True),
)
GPUS = {gpu.name: gpu for gpu in _TABLE}
MOST_TOGETHER = 16  # GPUs that a server uses together
DEFAULT = GPUS["RTX 4090"]  # the GPU that is assumed on a machine without one

# Other names that drivers or people use.
_ALIASES = {"A100": "A100 80GB", "A100-PCIE-40GB": "A100 40GB", "H100 80GB": "H100"}

_EXAMPLE = (
    '{"name": "RTX 4090", "memory_gib": 24, "bandwidth_gb_s": 1008, "bf16_tflops": 165.2, "fp8": '
    "true}"
)


def _key(name: str) -> str:
    """Return a name in lower case without separators, the maker's words and usual parts, to compare
    names."""
    return re.sub(r"nvidia|geforce|rtx|sxm\d?|hbm\d|[ _-]", "", name.lower())


_BY_KEY = {_key(name): gpu for name, gpu in GPUS.items()}
for _alias, _name in _ALIASES.items():
    _BY_KEY[_key(_alias)] = GPUS[_name]


def named(name: str) -> Gpu:
    """Return the table's GPU with this name ("4090", "rtx 4090", a driver's name). Raises UserError
    for other names."""
    if gpu := _BY_KEY.get(_key(name)):
        return gpu
    raise UserError(
        f"the GPU {name!r:.60} is not in the table of GPUs ({', '.join(GPUS)}). For a plan, "
        f"describe it in a --gpu-file: {_EXAMPLE}. For a run, set BASE_URL to a server"
    )


def several(name: str) -> tuple[int, Gpu]:
    """Return the number of GPUs and the table's GPU that `name` describes ("8xH100", "H100").
    Raises UserError for other names."""
    match = re.fullmatch(r"(\d+) ?x ?(.+)", name.strip(), re.IGNORECASE)
    if match and 1 <= int(match[1][:9]) <= MOST_TOGETHER:
        return int(match[1]), named(match[2])
    return 1, named(name)


class Described(Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU in a --gpu-file, with dense bf16 figures. Values outside the ranges are refused as
    mistyped."""

    name: Annotated[str, Meta(pattern=r"\A.*\S.*\Z", max_length=60)]
    memory_gib: Annotated[float, Meta(ge=1, le=10_000)]
    bandwidth_gb_s: Annotated[float, Meta(ge=1, le=1e6)]
    bf16_tflops: Annotated[float, Meta(ge=1, le=1e6)]
    fp8: bool = False


def from_file(path: Path) -> Gpu:
    """Return the GPU that a JSON file describes. Raises UserError if the file is missing or
    invalid."""
    fix = f"Give a file like {_EXAMPLE}"
    fields = read_json(path, "the GPU file", fix)
    gpu = fitted(fields, Described, f"the GPU file {path} is invalid", fix)
    return Gpu(
        name=gpu.name.strip(),
        memory=gpu.memory_gib * GIB,
        bandwidth=gpu.bandwidth_gb_s * 1e9,
        flops=gpu.bf16_tflops * 1e12,
        fp8=gpu.fp8,
    )


def detect() -> Gpu | None:
    """Return the first GPU, or None. Its memory is the driver's figure. Raises UserError if the
    table lacks the GPU."""
    gpus = _listed()
    if not gpus:
        return None
    name, memory = gpus[0]
    if memory:
        return replace(named(name), memory=memory)
    return named(name)


def here() -> Gpu:
    """Return the GPU to serve on: the first of this machine, or DEFAULT. If the table lacks the
    GPU, only its memory is known, and fp8 is off. Raises UserError if its memory is unknown too."""
    gpus = _listed()
    if not gpus:
        return DEFAULT
    name, memory = gpus[0]
    if memory and _key(name) not in _BY_KEY:
        return Gpu(name, memory, math.nan, math.nan, False)
    return detect() or DEFAULT


def in_place(memory: float) -> Gpu:
    """Return a description of the machine itself in place of a GPU, with its `memory` in bytes."""
    return Gpu("this machine", memory, math.nan, math.nan, False)


@cache  # a driver may take seconds to answer
def count() -> int:
    """Return the number of this machine's NVIDIA GPUs, or 0 without a working driver."""
    return len(_listed())


def _listed() -> list[tuple[str, float | None]]:
    """Return the name and memory (in bytes, or None if unknown) of each NVIDIA GPU, as the driver
    reports them."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    gpus = []
    for row in done.stdout.splitlines():
        name, _, mebibytes = row.rpartition(",")
        if not name:
            continue
        memory = float(mebibytes) * MIB if mebibytes.strip().isdigit() else None
        gpus.append((name.strip(), memory))
    return gpus
