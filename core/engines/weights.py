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
from pathlib import Path

from core.errors import UserError, command
from core.files import ROOT

REPO = "lm-provers/QED-Nano"
LOCK = ROOT / "locks" / "weights.json"
BYTES = 8_300_000_000  # 4.02 B parameters in bf16, tokenizer and configuration
FOLDER = Path(os.environ.get("WEIGHTS_DIR", ROOT / "weights")) / "QED-Nano"
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.jinja"]  # safetensors only: no pickle, no remote code


def fetched() -> dict[str, str] | None:
    """{"repo", "revision"} of the weights on this disk, or None where they are missing or incomplete."""
    try:
        note: dict[str, str] = json.loads((FOLDER / "FETCHED.json").read_text())
        return note
    except (OSError, ValueError):
        return None


def wanted() -> str:
    """The revision to fetch: a commit, or a name such as "main", whose commit may change."""
    if named := os.environ.get("QED_NANO_REVISION", "").strip():
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
    """sha256 over the safetensors files of `folder`, in order of their names."""
    found = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with open(file, "rb") as content:
            while block := content.read(1 << 24):
                found.update(block)
    return found.hexdigest()


def fetch() -> Path:
    """The folder with the weights; downloads what is missing of them, or is of another commit than the wanted one."""
    revision = wanted()
    if (note := fetched()) and (note["revision"] == revision or not is_commit(revision)):
        return FOLDER
    FOLDER.mkdir(parents=True, exist_ok=True)
    here = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())
    free, need = shutil.disk_usage(FOLDER).free, int((BYTES - here) * 1.05)
    if free < need:
        raise UserError(
            f"{FOLDER} has {free / 1e9:.1f} GB free and the weights need {need / 1e9:.1f} GB more. "
            "Free some space or set WEIGHTS_DIR to a larger disk"
        )
    try:
        from huggingface_hub import snapshot_download

        commit = _commit(revision)
        (FOLDER / "FETCHED.json").unlink(missing_ok=True)  # from here on the folder may hold a mixture
        snapshot_download(REPO, revision=commit, local_dir=FOLDER, allow_patterns=PATTERNS)
    except Exception as error:  # the hub client raises many kinds: offline, gated, no such revision, disk
        raise _unreachable(error) from None
    if not list(FOLDER.glob("*.safetensors")):
        raise UserError(f"{REPO} holds no safetensors at {commit}. Name another commit in QED_NANO_REVISION")
    (FOLDER / "FETCHED.json").write_text(json.dumps({"repo": REPO, "revision": commit}) + "\n")
    if not is_commit(revision):
        print(
            f"note: the weights are not pinned; these are commit {commit} (QED_NANO_REVISION={commit} keeps to it)",
            file=sys.stderr,
        )
    return FOLDER


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
