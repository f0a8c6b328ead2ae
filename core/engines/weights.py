"""QED-Nano's weights: fetched once from the Hugging Face hub, resumable, with room on the disk checked first.

Which commit is fetched: the one that QED_NANO_REVISION names, else the one in locks/weights.json (which
scripts/lock.sh writes), else the newest. It is written beside the weights and into results.
"""

import hashlib
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.base import files
from core.base.errors import UserError, command
from core.engines import environment
from core.engines.shape import Shape

REPO = "lm-provers/QED-Nano"
LOCK = files.ROOT / "locks" / "weights.json"
BYTES = 8_300_000_000  # 4.02 B parameters in bf16, tokenizer and configuration
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


def wanted() -> str:
    """The revision to fetch: a commit, or a name such as "main", whose commit may change. Raises UserError."""
    if named := environment.weights_revision():
        return named
    try:
        return str(json.loads(LOCK.read_text())["revision"])
    except OSError:
        return "main"  # nothing is pinned
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{LOCK} names no revision. Remove it, or write it anew: bash scripts/lock.sh") from None


def is_commit(revision: str) -> bool:
    return re.fullmatch("[0-9a-f]{40}", revision) is not None


def digest(folder: Path) -> str:
    """The sha256 of the safetensors files of `folder`, in order of their names. Raises OSError."""
    return _digest(tuple((file, *_state(file)) for file in sorted(folder.glob("*.safetensors"))))


@lru_cache  # a run asks several times, and gigabytes take seconds
def _digest(files: tuple[tuple[Path, int, int, int], ...]) -> str:
    """Of files that are still in that state: a round of STaR may write others in their place."""
    found = hashlib.sha256()
    for file, *_ in files:
        with open(file, "rb") as content:
            while block := content.read(1 << 24):
                found.update(block)
    return found.hexdigest()


def _state(file: Path) -> tuple[int, int, int]:
    now = os.stat(file)
    return now.st_mtime_ns, now.st_size, now.st_ino


def sha256(path: Path) -> str:
    """Of a file's content. Raises OSError."""
    return _digest(((path, *_state(path)),))


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
    here, revision = folder(), wanted()
    if (note := fetched()) and (note["revision"] == revision or not is_commit(revision)):
        return here
    try:
        here.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the weights' folder {here} can't be made ({error.strerror}). Set WEIGHTS_DIR") from None
    held = sum(file.stat().st_size for file in here.rglob("*") if file.is_file())
    free, need = shutil.disk_usage(here).free, int((BYTES - held) * 1.05)
    if free < need:
        raise UserError(
            f"{here} has {free / 1e9:.1f} GB free and the weights need {need / 1e9:.1f} GB more. "
            "Free some space or set WEIGHTS_DIR to a larger disk"
        )
    try:
        from huggingface_hub import snapshot_download

        commit = _commit(revision)
        (here / "FETCHED.json").unlink(missing_ok=True)  # from here on the folder may hold a mixture
        snapshot_download(REPO, revision=commit, local_dir=here, allow_patterns=PATTERNS)
    except Exception as error:  # the hub client raises many kinds: offline, gated, no such revision, disk
        raise _unreachable(error) from None
    if not list(here.glob("*.safetensors")):
        raise UserError(f"{REPO} holds no safetensors at {commit}. Name another commit in QED_NANO_REVISION")
    (here / "FETCHED.json").write_text(json.dumps({"repo": REPO, "revision": commit}) + "\n")
    if not is_commit(revision):
        print(
            f"note: the weights are not pinned; these are commit {commit} (QED_NANO_REVISION={commit} keeps to it)",
            file=sys.stderr,
        )
    return here


def pin() -> None:
    """Write the commit of the newest weights into LOCK."""
    try:
        commit = _commit("main")
    except Exception as error:
        raise _unreachable(error) from None
    LOCK.write_text(json.dumps({"repo": REPO, "revision": commit}) + "\n")


def _commit(revision: str) -> str:
    """The commit that `revision` is; the hub client raises many kinds of errors."""
    from huggingface_hub import HfApi

    return HfApi().model_info(REPO, revision=revision).sha or revision


def _unreachable(error: Exception) -> UserError:
    reason = str(error).strip().split("\n")[0][:200]
    return UserError(
        f"{REPO} can't be fetched ({reason}). Check the network (HF_ENDPOINT names a mirror, HF_TOKEN a token) "
        "and run the same command again: what is downloaded is kept"
    )


if __name__ == "__main__":
    with command():
        if sys.argv[1:] == ["--pin"]:
            pin()
        else:
            print(f"weights: {fetch()}", file=sys.stderr)
