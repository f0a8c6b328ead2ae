"""GPUs, as far as planning needs them: a table of known ones, the one in this machine, or one described in a file."""

import re
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from core.base.errors import UserError
from core.base.files import read_json

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class Gpu:
    """One GPU: memory in bytes, as its driver reports it; bandwidth in bytes/s; dense bf16 FLOP/s with float32 sums;
    whether its tensor cores know fp8 (compute capability 8.9 and later), for which SGLang then keeps the KV cache."""

    name: str
    memory: float
    bandwidth: float
    flops: float
    fp8: bool


# Bandwidth and FLOP/s are the vendor's: the white papers "GA102", "Ada GPU Architecture" and "RTX Blackwell" for
# GeForce, the data sheets of L40S, A100, H100 and H200 for the others. Sparse figures are halved. Memory is the total
# that nvidia-smi reports, where the data sheet rounds.
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
DEFAULT = GPUS["RTX 4090"]  # the project's

# Other names: what drivers report, and what people say.
_ALSO = {
    "A100": "A100 80GB",
    "A100-SXM4-40GB": "A100 40GB",
    "A100-PCIE-40GB": "A100 40GB",
    "A100-SXM4-80GB": "A100 80GB",
    "H100 80GB HBM3": "H100",
    "H100 80GB": "H100",
    "H100 SXM": "H100",
}

# The fields of a --gpu-file: units, and the least and greatest value that is not a slip of the pen.
_FIELDS = {
    "memory_gib": (GIB, 1, 10_000),
    "bandwidth_gb_s": (1e9, 1, 1_000_000),
    "bf16_tflops": (1e12, 1, 1_000_000),
}
_EXAMPLE = '{"name": "RTX 4090", "memory_gib": 24, "bandwidth_gb_s": 1008, "bf16_tflops": 165.2, "fp8": true}'


def _key(name: str) -> str:
    """Names that differ in case, spaces, hyphens or the maker's words are one."""
    text = name.lower()
    for word in ("nvidia", "geforce", "rtx", " ", "-", "_"):
        text = text.replace(word, "")
    return text


_KNOWN = {_key(name): gpu for name, gpu in GPUS.items()} | {_key(also): GPUS[name] for also, name in _ALSO.items()}


def named(name: str) -> Gpu:
    """The GPU of the table with this name ("4090", "rtx 4090", a driver's name). Raises UserError for others."""
    if gpu := _KNOWN.get(_key(name)):
        return gpu
    known = ", ".join(GPUS)
    raise UserError(
        f"GPU {name!r:.60} is not in the table ({known}). Describe it in a file, for --gpu-file: {_EXAMPLE}"
    )


def from_file(path: Path) -> Gpu:
    """The GPU that a JSON file describes, with dense bf16 figures; "fp8" is optional and means false. Raises
    UserError."""
    data = read_json(path, "GPU file", f"An example: {_EXAMPLE}")

    def wrong(what: str) -> UserError:
        return UserError(f"GPU file {path}: {what}. An example: {_EXAMPLE}")

    if not isinstance(data, dict):
        raise wrong("it must hold one object")
    if unknown := data.keys() - _FIELDS.keys() - {"name", "fp8"}:
        raise wrong(f"unknown field {min(unknown)!r:.40}")
    name, fp8 = data.get("name"), data.get("fp8", False)
    if not isinstance(name, str) or not name.strip() or len(name) > 60 or not name.isprintable():
        raise wrong('"name" must be a text of up to 60 characters')
    if not isinstance(fp8, bool):
        raise wrong('"fp8" must be true or false')
    sizes = []
    for field, (unit, low, high) in _FIELDS.items():
        value = data.get(field)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise wrong(f'"{field}" must be a number from {low:,} to {high:,}')
        sizes.append(float(value) * unit)
    memory, bandwidth, flops = sizes
    return Gpu(name.strip(), memory, bandwidth, flops, fp8)


def detect() -> Gpu | None:
    """The first GPU of this machine, with the memory its driver reports; None without one. Raises UserError for one
    that the table does not hold."""
    name, size = _first()
    if not name:
        return None
    gpu = named(name)
    return replace(gpu, memory=size) if size else gpu


def here() -> Gpu:
    """The first GPU of this machine; the project's own where its driver does not name it. Raises UserError."""
    return detect() or DEFAULT


def memory() -> float | None:
    """Bytes of the first GPU's memory, whichever it is; None where its driver does not say."""
    return _first()[1]


def _first() -> tuple[str, float | None]:
    """The name of the first GPU of this machine, and the memory its driver reports, in bytes; "" without one."""
    said = _nvidia_smi("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
    name, _, size = (said or "").partition("\n")[0].rpartition(",")
    return name.strip(), float(size) * MIB if size.strip().isdigit() else None


@cache  # a driver may take seconds to answer
def has_gpu() -> bool:
    """Whether an NVIDIA GPU with a working driver is here."""
    return bool(indices())


def indices() -> list[str]:
    """The GPUs of this machine as nvidia-smi numbers them, by their place on the bus; none without a working driver."""
    return re.findall(r"^GPU (\d+):", _nvidia_smi("-L") or "", re.MULTILINE)


def _nvidia_smi(*args: str) -> str | None:
    """What it prints; None where it fails."""
    try:
        done = subprocess.run(["nvidia-smi", *args], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
