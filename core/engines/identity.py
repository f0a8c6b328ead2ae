"""Who answers: what a server tells of the weights behind the name that it serves, and of its chat template.

A name is no identity: a server may call anything "default", and come back with other weights. What it tells of those
enters the journal's keys, so that no completion of other weights is taken for its own. The release of its software
stands beside each completion (Server.origin): a run survives an upgrade, and its results say that it did.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.engines import weights

UNKNOWN = "unknown"  # the origin of completions that were kept before origins were
FILES = (*weights.PATTERNS, "*.bin", "*.pt", "*.gguf")  # of a model's folder: weights, tokenizer, template, shape
# What SGLang tells beside the path; others tell less. At their defaults they are left out, however those are called.
SETTINGS = (
    *("base", "lora_paths", "revision", "weight_version", "chat_template"),
    *("quantization", "dtype", "kv_cache_dtype"),
)
DEFAULTS = ("", "auto", "default", "none")
LONGEST = 300  # characters of anything told

HEAD, BLOCK, BLOCKS = 2**20, 4096, 256  # bytes: of each file its beginning, and blocks spread evenly over it
MARK = "What is 6 times 7?"  # the message whose prompt is looked at

_BY_CONTENT = re.compile(r"@([0-9a-f]{12})$")  # names that this project gives: they tell the digest of the weights


def names_content(name: str) -> bool:
    """Whether the name is one of ours, which tells the content of the weights."""
    return bool(_BY_CONTENT.search(name))


def told(name: str, path: str, settings: Mapping[str, Any], is_here: bool) -> dict[str, str]:
    """What decides the answers of a server beside the `name` of its model: as far as it tells. Weights that lie on this
    machine (`is_here`) are known by their content, so that moving them changes nothing and overwriting them does; those
    elsewhere by their path. A name of ours says it all, unless the weights here belie it."""
    found = {}
    for setting in SETTINGS:
        value = settings.get(setting)
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value, sort_keys=True)
        if text.lower() not in DEFAULTS:
            found[setting] = text[:LONGEST]
    here = _weights(path) if is_here else None
    if (named := _BY_CONTENT.search(name)) and (here is None or _cached(_digest, here).startswith(named[1])):
        return found
    which = (_cached(_sampled, here) if here else "") or path[:LONGEST]
    return ({"weights": which} if which else {}) | found


def _weights(path: str) -> Path | None:
    """The model's file or folder on this machine, where there is one."""
    try:
        if not Path(path).is_absolute():
            return None
        if (Path(path) / "config.json").is_file():
            return Path(path)
        if Path(path).is_file():
            with open(path, "rb") as file:
                return Path(path) if file.read(4) == b"GGUF" else None
    except (OSError, ValueError):  # not ours to read, or no path at all
        pass
    return None


def _files(path: Path) -> list[Path]:
    return sorted({file for pattern in FILES for file in path.glob(pattern)}) if path.is_dir() else [path]


def _cached(digest: Callable[[Path], str], path: Path) -> str:
    """`digest(path)`, computed again only when a file has changed; "" where one can't be read."""
    try:
        return _remembered(digest, path, tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in _files(path)))
    except OSError:
        return ""


@lru_cache
def _remembered(digest: Callable[[Path], str], path: Path, stamps: tuple[tuple[int, int], ...]) -> str:
    return digest(path)


def _digest(path: Path) -> str:
    """Of all bytes: what names of ours are made with. Raises OSError."""
    if path.is_dir():
        return weights.digest(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sampled(path: Path) -> str:
    """Of a sample of the bytes, so that attaching to 140 GB takes no minutes: other weights differ nearly everywhere.
    Raises OSError."""
    found = hashlib.sha256()
    for file in _files(path):
        size = file.stat().st_size
        found.update(f"{file.name if path.is_dir() else ''} {size}\n".encode())
        with open(file, "rb") as content:
            found.update(content.read(HEAD))
            for i in range(1, BLOCKS + 1) if size > HEAD else ():
                content.seek(max(HEAD, HEAD + (size - HEAD) * i // BLOCKS - BLOCK))
                found.update(content.read(BLOCK))
    return found.hexdigest()[:16]


# The chat template


def opens_thinking(prompt: Any) -> bool | None:
    """Whether a `prompt` that holds MARK goes on into an open <think>: then the model's text begins inside it, without
    a tag of its own. None where it holds no MARK."""
    _, mark, after = prompt.rpartition(MARK) if isinstance(prompt, str) else ("", "", "")
    return after.rfind("<think>") > after.rfind("</think>") if mark else None


def rendered(template: Any) -> str | None:
    """The prompt that a chat template makes of MARK; None where it is no template that we can render."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # it is someone else's program

    if not isinstance(template, str):
        return None
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.add_extension("jinja2.ext.loopcontrols")
    messages = [{"role": "user", "content": MARK}]
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, bos_token="", eos_token="", tools=None, strftime_now=str
        )
    except Exception:  # of any kind: it may do what it likes
        return None


def template_of(path: str) -> str | None:
    """The chat template in a model's folder on this machine."""
    folder = _weights(path)
    if folder is None or not folder.is_dir():
        return None
    try:
        if (file := folder / "chat_template.jinja").is_file():
            return file.read_text(encoding="utf-8")
        found = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None
    if isinstance(found, list):  # several, by name
        found = next((t.get("template") for t in found if isinstance(t, dict) and t.get("name") == "default"), None)
    return found if isinstance(found, str) else None
