"""QED-Nano's weights: fetched once from the Hugging Face hub, resumable, with room on the disk checked first."""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from core.errors import UserError, command

REPO = "lm-provers/QED-Nano"
# A commit hash here pins the weights; the commit that a name resolves to is written beside them and into results.
REVISION = os.environ.get("QED_NANO_REVISION", "main")
BYTES = 8_300_000_000  # 4.02 B parameters in bf16, tokenizer and configuration
FOLDER = Path(os.environ.get("WEIGHTS_DIR", Path(__file__).resolve().parent.parent / "weights")) / "QED-Nano"
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.jinja"]  # safetensors only: no pickle, no remote code


def fetched() -> dict[str, str] | None:
    """{"repo", "revision"} of the weights on this disk, or None where they are missing or incomplete."""
    try:
        note: dict[str, str] = json.loads((FOLDER / "FETCHED.json").read_text())
        return note
    except (OSError, ValueError):
        return None


def digest(folder: Path) -> str:
    """sha256 over the safetensors files of `folder`, in order of their names."""
    found = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with open(file, "rb") as content:
            while block := content.read(1 << 24):
                found.update(block)
    return found.hexdigest()


def fetch() -> Path:
    """The folder with the weights; downloads what is missing of them."""
    if fetched() is not None:
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
        from huggingface_hub import HfApi, snapshot_download

        commit = HfApi().model_info(REPO, revision=REVISION).sha or REVISION
        snapshot_download(REPO, revision=commit, local_dir=FOLDER, allow_patterns=PATTERNS)
    except Exception as error:  # the hub client raises many kinds: offline, gated, no such revision, disk
        reason = str(error).strip().split("\n")[0][:200]
        raise UserError(
            f"{REPO} can't be fetched ({reason}). Check the network (HF_ENDPOINT names a mirror, HF_TOKEN a token) "
            "and run the same command again: what is downloaded is kept"
        ) from None
    (FOLDER / "FETCHED.json").write_text(json.dumps({"repo": REPO, "revision": commit}) + "\n")
    return FOLDER


if __name__ == "__main__":
    with command():
        print(f"weights: {fetch()}", file=sys.stderr)
