"""Fetch the files of a data set at one commit from the Hugging Face hub. The hub client caches the
files."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from core.base.errors import UserError
from harness.problems.rows import READERS

MAIN = "main"  # the default branch
TIMEOUT_S = 30  # limit of the request for the list of files
SPLITS = {
    "train": "train",
    "test": "test",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    # the hub's viewer also reads these words
    "dev": "validation",
    "eval": "test",
}
# descriptions that are stored next to the data
NO_DATA = ("dataset_infos.json", "package.json", "config.json")


def listed(repo: str, revision: str, splits: Iterable[str]) -> tuple[str, list[str], str | None]:
    """Return the commit of a data set, the files of `splits` ("" means the only split), and the
    licence. Offline, they come from the cache, without a licence. Raises UserError for an unclear
    split, and the errors of the hub client, which core/base/hub.py turns into UserError."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    revision = revision or MAIN
    licence = None
    try:
        info = HfApi().dataset_info(repo, revision=revision, timeout=TIMEOUT_S)
        commit = info.sha or ""
        names = [file.rfilename for file in info.siblings or []]
        if info.card_data:
            licence = _licence(info.card_data.get("license"))
    except HfHubHTTPError:
        raise  # the hub refused, so the cache must not be used
    except Exception as error:
        try:
            cached = snapshot_download(
                repo, repo_type="dataset", revision=revision, local_files_only=True
            )
        except LocalEntryNotFoundError:
            raise error from None
        folder = Path(cached)
        commit = folder.name
        paths = [path for path in folder.rglob("*") if path.is_file()]
        names = [path.relative_to(folder).as_posix() for path in paths]
    files: list[str] = []
    for split in splits:
        files += files_of(names, split, repo)
    return commit, files, licence


def _licence(stated: Any) -> str | None:
    """Return the licence of a card as text. A card may state several, or none."""
    if isinstance(stated, list):
        stated = ", ".join(map(str, stated))
    return str(stated) if stated else None


def fetched(repo: str, revision: str, files: Iterable[str]) -> tuple[list[Path], str]:
    """Fetch files of one revision, and return their paths and the commit. Raises the errors of the
    hub client."""
    from huggingface_hub import hf_hub_download

    paths = [
        Path(hf_hub_download(repo, file, repo_type="dataset", revision=revision or MAIN))
        for file in files
    ]
    commit = next(folder.name for folder in paths[0].parents if folder.parent.name == "snapshots")
    return paths, commit


def files_of(names: Iterable[str], split: str, repo: str) -> Sequence[str]:
    """Return the sorted names of a split's files. Of several file types, only the first in READERS
    counts. Raises UserError unless exactly one split fits. "test" fits "test", or else a split such
    as "main/test". "" fits any."""
    splits = _by_split(names)
    if not splits:
        raise UserError(f"{repo} on the hub has no file of a readable type ({', '.join(READERS)})")
    fitting = [name for name in splits if not split or name.endswith(f"/{split}")]
    if split in splits:
        fitting = [split]
    if len(fitting) == 1:
        files = splits[fitting[0]]
        _check_shards(files, repo)
        return files
    missing = f"has no split {split!r:.80}" if split and not fitting else "has several splits"
    listed = list(splits)[:20]
    raise UserError(
        f"{repo} on the hub {missing} (it has {', '.join(listed)}). Give one: "
        f"hub:{repo}:{listed[0]}"
    )


def _by_split(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the sorted names of data files by split, only of the first file type in READERS that
    occurs."""
    data = sorted(
        name
        for name in names
        if not name.startswith(".") and PurePosixPath(name).name not in NO_DATA
    )
    splits: dict[str, list[str]] = {}
    for ending in READERS:
        for name in data:
            if name.lower().endswith(ending):
                splits.setdefault(split_of(name), []).append(name)
        if splits:
            break
    return splits


def _check_shards(files: Sequence[str], repo: str) -> None:
    """Raise UserError if shards are missing, as in a cache that was filled in part."""
    matches = [re.search(r"-\d+-of-(\d+)", name) for name in files]
    counts = {int(match[1]) for match in matches if match}
    if len(counts) == 1 and len(files) < max(counts):
        raise UserError(
            f"{repo} has only {len(files)} of the {max(counts)} files of its split here. Connect "
            "to the hub"
        )


def split_of(name: str) -> str:
    """Return the split that a file belongs to. It is "test" for data/test-00000-of-00001.parquet,
    test.jsonl, test/0000.parquet and mine_test.csv, and "train" for other names. Other folders
    precede it, as in "main/test"."""
    path = PurePosixPath(name)
    folders = [folder for folder in path.parent.parts if folder not in ("data", "default")]
    if sharded := re.fullmatch(r"(.+?)-\d+-of-\d+(-[0-9a-f]+)?", path.stem):
        return "/".join([*folders, sharded[1]])
    words = re.split(r"[^a-z]+", path.stem.lower())
    splits = [SPLITS[word] for word in words if word in SPLITS]
    if splits:
        return "/".join([*folders, splits[0]])
    last = folders[-1].lower() if folders else ""
    if last in SPLITS:
        return "/".join([*folders[:-1], SPLITS[last]])
    return "/".join([*folders, "train"])
