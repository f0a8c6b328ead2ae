"""Who answers: what a server says of the weights behind the name that it serves.

A name is not an identity: a server may call anything "default", and come back with other weights. What it says of those
enters the journal's keys, so that no completion of other weights is taken for its own. The release of its software
stands beside each completion (Server.origin): a run survives an upgrade, and its results say that it did.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.engines import weights
from core.engines.client import LONGEST
from core.engines.server import digest_in

FILES = (*weights.PATTERNS, "*.bin", "*.pt", "*.gguf")  # of a model's folder: weights, tokenizer, template, shape
# What SGLang says beside the path; others say less. Defaults are left out, however they are called.
SETTINGS = (
    *("base", "lora_paths", "revision", "weight_version", "chat_template"),
    *("quantization", "dtype", "kv_cache_dtype"),
)
DEFAULTS = ("", "auto", "default", "none")

HEAD, BLOCK, BLOCKS = 2**20, 4096, 256  # bytes: of each file its beginning, and blocks spread evenly over it


def fingerprint(name: str, path: str, settings: Mapping[str, Any], is_here: bool) -> dict[str, str]:
    """What decides the answers of a server beside the `name` of its model, as far as its `settings` and the `path` of
    its weights say. Weights on this machine (`is_here`) are known by their content, so that moving them changes nothing
    and overwriting them does; others by their path. A name of ours says it all, unless the weights here belie it."""
    found = {}
    for setting in SETTINGS:
        value = settings.get(setting)
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value, sort_keys=True)
        if text.lower() not in DEFAULTS:
            found[setting] = text[:LONGEST]
    here, named, which = weights_at(path) if is_here else None, digest_in(name), path[:LONGEST]
    with suppress(OSError):
        if named and (here is None or _whole(here).startswith(named)):
            return found
        which = _sampled(weights.files_of(_files(here)), here.is_dir()) if here else which
    return ({"weights": which} if which else {}) | found


def _whole(here: Path) -> str:
    """The digest that names of ours are made with."""
    return weights.digest(here) if here.is_dir() else weights.sha256(here)


def weights_at(path: str) -> Path | None:
    """The model's file or folder on this machine, where there is one."""
    try:
        if not Path(path).is_absolute():
            return None
        if (Path(path) / "config.json").is_file():
            return Path(path)
        if Path(path).is_file():
            with open(path, "rb") as file:
                return Path(path) if file.read(4) == b"GGUF" else None
    except (OSError, ValueError):  # not ours to read, or not a path at all
        pass
    return None


def _files(path: Path) -> list[Path]:
    return sorted({file for pattern in FILES for file in path.glob(pattern)}) if path.is_dir() else [path]


@lru_cache
def _sampled(files: weights.Files, is_folder: bool) -> str:
    """Of a sample of the bytes, so that attaching to 140 GB takes no minutes: other weights differ nearly everywhere.
    Raises OSError."""
    found = hashlib.sha256()
    for file, _, size, _ in files:
        found.update(f"{file.name if is_folder else ''} {size}\n".encode())
        with open(file, "rb") as content:
            found.update(content.read(HEAD))
            for i in range(1, BLOCKS + 1) if size > HEAD else ():
                content.seek(max(HEAD, HEAD + (size - HEAD) * i // BLOCKS - BLOCK))
                found.update(content.read(BLOCK))
    return found.hexdigest()[:16]
