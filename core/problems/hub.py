"""Files of a data set on the Hugging Face hub, all of one commit, kept in the hub client's cache."""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from core.base.errors import UserError, one_line
from core.problems.rows import READERS

MAIN = "main"  # the branch that is meant where none is named
TIMEOUT_S = 30  # for the list of files
SPLITS = {"train": "train", "test": "test", "validation": "validation", "valid": "validation", "val": "validation"}
SPLITS |= {"dev": "validation", "eval": "test"}  # words of file names, as the hub's own viewer reads them
NO_DATA = ("dataset_infos.json", "package.json", "config.json")  # descriptions that lie beside data


@dataclass(frozen=True)
class Spec:
    """hub:owner/name[@revision][:split]"""

    repo: str
    revision: str
    split: str

    @property
    def name(self) -> str:
        """What results call it."""
        return f"{self.repo}:{self.split}" if self.split else self.repo

    @classmethod
    def read(cls, text: str) -> "Spec":
        """Raises UserError."""
        found = re.fullmatch(r"hub:([\w-][\w.-]*/[\w-][\w.-]*)(?:@([^:\s]+))?(?::([^\s:]+))?", text)
        if not found:
            raise UserError(
                f"problem set {text!r:.200} is not hub:owner/name, hub:owner/name:split or "
                "hub:owner/name@revision:split"
            )
        return cls(found[1], found[2] or "", found[3] or "")


@dataclass(frozen=True)
class Found:
    """Files on this machine, and what the hub says of the data set they are from."""

    paths: tuple[Path, ...]
    commit: str
    licence: str | None = None


def fetched(repo: str, revision: str, files: Iterable[str]) -> Found:
    """Fetch files of one revision. Raises the hub client's errors (see `told`)."""
    from huggingface_hub import hf_hub_download

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of every try
    paths = tuple(Path(hf_hub_download(repo, file, repo_type="dataset", revision=revision or MAIN)) for file in files)
    commit = next(folder.name for folder in paths[0].parents if folder.parent.name == "snapshots")
    return Found(paths, commit)


def fetched_splits(repo: str, revision: str, splits: Iterable[str]) -> Found:
    """Fetch the files of splits, "" for that of a set with a single one. Raises UserError for a split that is not
    there, and the hub client's errors."""
    commit, names, licence = _listed(repo, revision or MAIN)
    found = fetched(repo, revision, [name for split in splits for name in files_of(names, split, repo)])
    if any(commit not in path.parts for path in found.paths):
        raise UserError(f"{repo} changed on the hub while it was fetched. Run the same command again")
    return replace(found, licence=licence)


@contextmanager
def told(what: str, way_out: str) -> Iterator[None]:
    """Errors of the hub client, which raises many kinds, as one UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what} can't be fetched from the Hugging Face hub ({_reason(error)}). {way_out}") from None


def files_of(names: Iterable[str], split: str, repo: str) -> Sequence[str]:
    """The files of a split among those of a data set, in order. Of several kinds the first in READERS counts. Splits
    go by the names of files, in folders before them where these are configurations: "test", or "main/test". Raises
    UserError, with the splits there are."""
    data = sorted(name for name in names if not name.startswith(".") and PurePosixPath(name).name not in NO_DATA)
    of_kind = ([name for name in data if name.lower().endswith(kind)] for kind in READERS)
    splits: dict[str, list[str]] = {}
    for name in next(filter(None, of_kind), []):
        splits.setdefault(split_of(name), []).append(name)
    if not splits:
        raise UserError(f"{repo} on the hub has no {', '.join(READERS)} file")
    fitting = [split] if split in splits else [each for each in splits if not split or each.endswith(f"/{split}")]
    if len(fitting) == 1:
        return splits[fitting[0]]
    missing = f"has no split {split!r:.80}" if split and not fitting else "has several splits"
    listed = list(splits)[:20]
    raise UserError(f"{repo} on the hub {missing}; there are {', '.join(listed)}. Give one: hub:{repo}:{listed[0]}")


def split_of(name: str) -> str:
    """The split that a file of a data set belongs to: data/test-00000-of-00001.parquet, test.jsonl, test/0000.parquet
    and mine_test.csv are of "test", main/test-….parquet is of "main/test", and what says nothing is of "train"."""
    path = PurePosixPath(name)
    *folders, stem = [folder for folder in path.parent.parts if folder not in ("data", "default")] + [path.stem]
    if sharded := re.fullmatch(r"(.+?)-\d+-of-\d+(-[0-9a-f]+)?", stem):
        return "/".join([*folders, sharded[1]])
    if words := [SPLITS[word] for word in re.split(r"[^a-z]+", stem.lower()) if word in SPLITS]:
        return "/".join([*folders, words[0]])
    if folders and folders[-1].lower() in SPLITS:
        return "/".join([*folders[:-1], SPLITS[folders[-1].lower()]])
    return "/".join([*folders, "train"])


def _listed(repo: str, revision: str) -> tuple[str, list[str], str | None]:
    """List commit, files and licence of a data set from the hub; without a licence from the cache if the hub can't be
    reached."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        about = HfApi().dataset_info(repo, revision=revision, timeout=TIMEOUT_S)
    except HfHubHTTPError:
        raise  # it has answered
    except Exception:
        with suppress(LocalEntryNotFoundError):
            folder = Path(snapshot_download(repo, repo_type="dataset", revision=revision, local_files_only=True))
            return (
                folder.name,
                [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()],
                None,
            )
        raise
    return about.sha or "", [each.rfilename for each in about.siblings or []], _licence(about.card_data)


def _licence(card: Any) -> str | None:
    named = card.get("license") if card else None
    return ", ".join(map(str, named)) if isinstance(named, list) else str(named) if named else None


def _reason(error: BaseException) -> str:
    """What happened, and not what a client for all purposes makes of it."""
    from huggingface_hub import errors

    for kind, words in (
        (errors.GatedRepoError, "it is open only to those who agreed to its terms: do so there, and set HF_TOKEN"),
        (errors.RepositoryNotFoundError, "the hub knows no such data set, or shows it only with the right HF_TOKEN"),
        (errors.RevisionNotFoundError, "it has no such revision"),
        (errors.RemoteEntryNotFoundError, "it has no such file there any more"),
    ):
        if isinstance(error, kind):
            return words
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return one_line(str(error).strip().partition("\n")[0], 120).rstrip(".…") or type(error).__name__
