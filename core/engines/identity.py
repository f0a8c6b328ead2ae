"""Identify the weights that a server serves under a model's name, from the server's report.

A name is not an identity, because a server may call any model "default" and restart with other
weights. So the report enters the journal's keys, and completions of other weights are not reused.
The server's software version is only recorded with each completion (Server.origin), so that a run
survives an upgrade."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.engines import gguf_parts, weights
from core.engines.protocol import digest_in
from core.engines.queries import LONGEST

# the weights, tokenizer, template and shape in a model's folder
FILES = (*weights.PATTERNS, "*.bin", "*.pt", "*.gguf")
# The reported settings besides the path. SGLang reports all except base, and vLLM only base and
# kv_cache_dtype.
REPORTED = (
    *("base", "lora_paths", "revision", "weight_version", "chat_template"),
    *("quantization", "dtype", "kv_cache_dtype"),
)
DEFAULTS = ("", "auto", "default", "none")

HEAD = 2**20  # bytes of each file's beginning
BLOCK = 4096  # bytes of a block
BLOCKS = 256  # of a file


def fingerprint(name: str, path: str, settings: Mapping[str, Any], is_here: bool) -> dict[str, str]:
    """Return the reported `settings` (REPORTED) and the identity of the weights at `path`. Both
    determine the answers. Weights that this machine can read (if `is_here`) are identified by a
    sample of their content, others by their path. The weights are omitted if `name` contains a
    digest that weights here do not contradict. Defaults are omitted."""
    reported = {}
    for setting in REPORTED:
        value = settings.get(setting)
        if value is None:
            continue
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        if text.lower() not in DEFAULTS:
            reported[setting] = text[:LONGEST]
    here = weights_at(path) if is_here else None
    digest = digest_in(name)
    identity = path[:LONGEST]
    with suppress(OSError):
        if digest and (here is None or weights.sha256(here).startswith(digest)):
            return reported
        if here:
            identity = _sampled(weights.files_of(_files(here)), here.is_dir())
    return {"weights": identity} | reported if identity else reported


def weights_at(path: str) -> Path | None:
    """Return `path` if it is absolute and names a GGUF file or a folder with a config.json here,
    else None."""
    try:
        if not Path(path).is_absolute():
            return None
        if (Path(path) / "config.json").is_file():
            return Path(path)
        if Path(path).is_file():
            with open(path, "rb") as file:
                return Path(path) if file.read(4) == b"GGUF" else None
    except (OSError, ValueError):  # not readable, or no path at all
        pass
    return None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return gguf_parts.paths(path)
    files: set[Path] = set()
    for pattern in FILES:
        files.update(path.glob(pattern))
    return sorted(files)


@lru_cache
def _sampled(files: weights.Files, is_folder: bool) -> str:
    """Return the digest of a sample of the bytes, because reading 140 GB would take minutes. Raises
    OSError. A sample is enough, because different weights differ nearly everywhere."""
    digest = hashlib.sha256()
    for file, _, size, _ in files:
        name = file.name if is_folder else ""
        digest.update(f"{name} {size}\n".encode())
        with open(file, "rb") as content:
            digest.update(content.read(HEAD))
            if size <= HEAD:
                continue
            for number in range(1, BLOCKS + 1):
                end = HEAD + (size - HEAD) * number // BLOCKS
                content.seek(max(HEAD, end - BLOCK))
                digest.update(content.read(BLOCK))
    return digest.hexdigest()[:16]
