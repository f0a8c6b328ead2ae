"""QED-Nano's weights: fetched once from the Hugging Face hub, resumable.

The commit that QED_NANO_REVISION names is fetched, else the newest. It is written beside the weights and into results.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.base import files
from core.base.errors import UserError, command
from core.engines import environment
from core.engines.shape import Shape

REPO = "lm-provers/QED-Nano"
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.jinja"]  # safetensors only: no pickle, no remote code


def folder() -> Path:
    """Where QED-Nano's weights are, or will be: in WEIGHTS_DIR, else in the checkout if they are there already, else on
    the volume that outlives a rented machine, else in the checkout."""
    if named := environment.weights_folder():
        return named / "QED-Nano"
    here, shared = files.HOME / "weights" / "QED-Nano", files.VOLUME / "models" / "qed-nano"
    there = next(each for each in (shared, *shared.parents) if each.exists())
    return shared if files.can_write(there) and there.is_relative_to(files.VOLUME) and not here.exists() else here


def fetched() -> dict[str, str] | None:
    """{"repo", "revision"} of the weights on this disk, or None where they are missing or incomplete."""
    try:
        note: dict[str, str] = json.loads((folder() / "FETCHED.json").read_text())
        return note
    except (OSError, ValueError):
        return None


def is_commit(revision: str) -> bool:
    return re.fullmatch("[0-9a-f]{40}", revision) is not None


Files = tuple[tuple[Path, int, int, int], ...]  # with their state: a round of STaR may write others in their place


def files_of(paths: Iterable[Path]) -> Files:
    """Return files and their state, for functions that remember what they read. Raises OSError."""
    return tuple((path, now.st_mtime_ns, now.st_size, now.st_ino) for path in paths for now in [os.stat(path)])


def digest(folder: Path) -> str:
    """The sha256 of the safetensors files of `folder`, in order of their names. Raises OSError."""
    return _digest(files_of(sorted(folder.glob("*.safetensors"))))


def sha256(path: Path) -> str:
    """Of a file's content. Raises OSError."""
    return _digest(files_of([path]))


@lru_cache  # a run asks several times, and gigabytes take seconds
def _digest(found: Files) -> str:
    whole = hashlib.sha256()
    for file, *_ in found:
        with open(file, "rb") as content:
            while block := content.read(1 << 24):
                whole.update(block)
    return whole.hexdigest()


@dataclass(frozen=True)
class Model:
    """Weights that SGLang and vLLM serve: a folder in Hugging Face's layout, and the name that requests use."""

    folder: Path
    name: str
    shape: Shape
    longest: int  # tokens of context the model was made for
    thinks: bool = True  # whether its chat template knows thinking; of one without a template we can't tell

    @classmethod
    def at(cls, named: str) -> "Model":
        """The model in the folder `named`; QED-Nano, fetched where it is missing, where that is "" or its name. Raises
        UserError."""
        if named in ("", REPO):
            path, name = fetch(), REPO
        else:
            path = Path(named).resolve()
            if not (path / "config.json").is_file():
                remedy = how_to_fetch(named) or f"Unset MODEL for {REPO}"
                raise UserError(f"MODEL={named} is not a folder with a config.json. {remedy}")
            name = f"{path.name}@{digest(path)[:12]}"  # journals must distinguish one fine-tuning from another
        config = path / "config.json"
        thinks = "think" in (template(path) or "think")
        return cls(path, name, Shape.from_config(config), _longest(config), thinks)


def template(folder: Path) -> str | None:
    """The chat template in a model's folder; None where it holds none that can be read."""
    try:
        if (file := folder / "chat_template.jinja").is_file():
            return file.read_text(encoding="utf-8")
        found = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None
    if isinstance(found, list):  # several, by name
        found = next((t.get("template") for t in found if isinstance(t, dict) and t.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def how_to_fetch(named: str) -> str:
    """What brings a model of the hub here, for a name such as one has; "" for others. QED-Nano alone is fetched by
    itself: of others we know neither size nor terms."""
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", named) or Path(named).exists():
        return ""
    folder = f"models/{named.partition('/')[2]}"
    return f"Fetch it: .venv/bin/hf download {named} --local-dir {folder}, and give MODEL={folder}"


def _longest(config: Path) -> int:
    found = re.search(r'"max_position_embeddings":\s*(\d+)', config.read_text(encoding="utf-8"))
    return int(found[1]) if found else 32768


def fetch() -> Path:
    """The folder with the weights; downloads what is missing of them, or is of another commit than the wanted one.
    Raises UserError."""
    here, revision = folder(), environment.weights_revision()
    if (note := fetched()) and (note["revision"] == revision or not is_commit(revision)):
        return here
    try:
        from huggingface_hub import snapshot_download

        here.mkdir(parents=True, exist_ok=True)
        commit = _commit(revision)
        (here / "FETCHED.json").unlink(missing_ok=True)  # from here on the folder may hold a mixture
        snapshot_download(REPO, revision=commit, local_dir=here, allow_patterns=PATTERNS)
        (here / "FETCHED.json").write_text(json.dumps({"repo": REPO, "revision": commit}) + "\n")
    except Exception as error:  # the hub client raises many kinds: offline, gated, no such revision, disk
        raise _unreachable(error) from None
    if not is_commit(revision):
        print(
            f"note: the weights are not pinned; these are commit {commit} (QED_NANO_REVISION={commit} keeps to it)",
            file=sys.stderr,
        )
    return here


def _commit(revision: str) -> str:
    """The commit that `revision` is; the hub client raises many kinds of errors."""
    from huggingface_hub import HfApi

    return HfApi().model_info(REPO, revision=revision).sha or revision


def _unreachable(error: Exception) -> UserError:
    reason = str(error).strip().split("\n")[0][:200]
    return UserError(
        f"{REPO} can't be fetched to {folder()} ({reason}). Check the network (HF_ENDPOINT names a mirror, HF_TOKEN a "
        "token) and the disk (8.3 GB; WEIGHTS_DIR names another), and run the same command again: what is there is kept"
    )


if __name__ == "__main__":
    with command():
        print(f"weights: {fetch()}", file=sys.stderr)
