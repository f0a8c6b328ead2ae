"""Fetch the files of a data set at one commit from the Hugging Face hub. The hub client caches the
files."""

import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

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
}
SPLITS |= {"dev": "validation", "eval": "test"}  # the hub's viewer also reads these words
# descriptions that are stored next to the data
NO_DATA = ("dataset_infos.json", "package.json", "config.json")


def listed(repo: str, revision: str, splits: Iterable[str]) -> tuple[str, list[str], str | None]:
    """Return the commit of a data set, the files of `splits` ("" means the only split), and the
    licence. Offline, they come from the cache, without a licence. Raises UserError for an unclear
    split, and the errors of the hub client, which core/base/hub.py turns into UserError."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        about = HfApi().dataset_info(repo, revision=revision or MAIN, timeout=TIMEOUT_S)
        commit, names = about.sha or "", [each.rfilename for each in about.siblings or []]
        licence = about.card_data.get("license") if about.card_data else None
    except HfHubHTTPError:
        raise  # the hub refused, so the cache must not be used
    except Exception as error:
        try:
            cached = snapshot_download(
                repo, repo_type="dataset", revision=revision or MAIN, local_files_only=True
            )
        except LocalEntryNotFoundError:
            raise error from None
        folder, licence = Path(cached), None
        files = (path for path in folder.rglob("*") if path.is_file())
        commit, names = folder.name, [path.relative_to(folder).as_posix() for path in files]
    shown = ", ".join(map(str, licence)) if isinstance(licence, list) else licence and str(licence)
    return (
        commit,
        [name for split in splits for name in files_of(names, split, repo)],
        shown or None,
    )


def fetched(repo: str, revision: str, files: Iterable[str]) -> tuple[list[Path], str]:
    """Fetch files of one revision, and return their paths and the commit. Raises the errors of the
    hub client."""
    from huggingface_hub import hf_hub_download

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # the client logs every attempt
    paths = [
        Path(hf_hub_download(repo, file, repo_type="dataset", revision=revision or MAIN))
        for file in files
    ]
    return paths, next(
        folder.name for folder in paths[0].parents if folder.parent.name == "snapshots"
    )


def files_of(names: Iterable[str], split: str, repo: str) -> Sequence[str]:
    """Return the sorted names of a split's files. Of several file types, only the first in READERS
    counts. Raises UserError unless exactly one split fits. "test" fits "test", or else a split such
    as "main/test". "" fits any."""
    data = sorted(
        name
        for name in names
        if not name.startswith(".") and PurePosixPath(name).name not in NO_DATA
    )
    of_kind = ([name for name in data if name.lower().endswith(kind)] for kind in READERS)
    splits: dict[str, list[str]] = {}
    for name in next(filter(None, of_kind), []):
        splits.setdefault(split_of(name), []).append(name)
    if not splits:
        raise UserError(f"{repo} on the hub has no file of a readable type ({', '.join(READERS)})")
    fitting = (
        [split]
        if split in splits
        else [each for each in splits if not split or each.endswith(f"/{split}")]
    )
    if len(fitting) == 1:
        found = splits[fitting[0]]
        shards = {int(shard[1]) for name in found if (shard := re.search(r"-\d+-of-(\d+)", name))}
        # a cache that was filled in part
        if len(shards) == 1 and len(found) < (count := max(shards)):
            raise UserError(
                f"{repo} has only {len(found)} of the {count} files of its split here. Connect to "
                "the hub"
            )
        return found
    missing = f"has no split {split!r:.80}" if split and not fitting else "has several splits"
    listed = list(splits)[:20]
    raise UserError(
        f"{repo} on the hub {missing} (it has {', '.join(listed)}). Give one: "
        f"hub:{repo}:{listed[0]}"
    )


def split_of(name: str) -> str:
    """Return the split that a file belongs to. It is "test" for data/test-00000-of-00001.parquet,
    test.jsonl, test/0000.parquet and mine_test.csv, and "train" for other names. Other folders
    precede it, as in "main/test"."""
    path = PurePosixPath(name)
    *folders, stem = [
        folder for folder in path.parent.parts if folder not in ("data", "default")
    ] + [path.stem]
    if sharded := re.fullmatch(r"(.+?)-\d+-of-\d+(-[0-9a-f]+)?", stem):
        return "/".join([*folders, sharded[1]])
    if words := [SPLITS[word] for word in re.split(r"[^a-z]+", stem.lower()) if word in SPLITS]:
        return "/".join([*folders, words[0]])
    if folders and folders[-1].lower() in SPLITS:
        return "/".join([*folders[:-1], SPLITS[folders[-1].lower()]])
    return "/".join([*folders, "train"])
