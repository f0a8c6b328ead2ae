"""AIME 2025 I and II, from the Hugging Face hub, and checked against the committed key of 30 ids and answers."""

import json
import logging
from pathlib import Path

from core.errors import UserError, one_line
from core.files import DATA
from core.problems.check import check
from core.types import Problem

# The statements of AIME 2025 stay on the hub; data/aime_2025_key.json holds the ids and answers they must agree with.
REPO = "MathArena/aime_2025"
FILE = "data/train-00000-of-00001.parquet"
KEY = DATA / "aime_2025_key.json"


def load() -> tuple[tuple[Problem, ...], str]:
    """The problems, and where they are from. Raises UserError where the hub can't be reached or has others."""
    key = json.loads(KEY.read_text(encoding="utf-8"))
    way_out = (
        "Connect to the internet (HF_ENDPOINT names a mirror, HF_HUB_OFFLINE=1 uses what is already downloaded), "
        "or give a local copy: PROBLEMS=path/to/aime_2025.json"
    )
    try:
        from huggingface_hub import hf_hub_download

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of every try
        path = hf_hub_download(REPO, FILE, repo_type="dataset", revision=key["revision"])
    except Exception as error:  # the hub client raises many kinds; all of them mean that the set is not here
        while error.__cause__ is not None and isinstance(error.__cause__, Exception):
            error = error.__cause__  # what happened, and not what a client for all purposes makes of it
        reason = one_line(str(error).strip().partition("\n")[0], 120).rstrip(".…")
        raise UserError(f"aime_2025 can't be fetched from the Hugging Face hub ({reason}). {way_out}") from None
    problems = read_parquet(Path(path))
    found = {p.id: p.answer for p in problems}
    wanted = {id_: str(answer) for id_, answer in key["answers"].items()}
    if found != wanted:
        wrong = sorted(id_ for id_ in found.keys() | wanted.keys() if found.get(id_) != wanted.get(id_))
        raise UserError(
            f"aime_2025 from the hub disagrees with data/aime_2025_key.json at {', '.join(wrong[:3])}. {way_out}"
        )
    commit = Path(path).parents[1].name  # the hub's cache keeps files under snapshots/<commit>/
    return problems, f"hub {REPO} at {commit}"


def read_parquet(path: Path) -> tuple[Problem, ...]:
    """The 30 problems of MathArena's parquet file: problem_idx 1-15 is AIME I, 16-30 is AIME II. Raises UserError."""
    import pyarrow.parquet

    rows = []
    try:
        table = pyarrow.parquet.read_table(path, columns=["problem_idx", "problem", "answer"])
        found = [(int(row["problem_idx"]), row) for row in table.to_pylist()]
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path} is not the file that {REPO} holds ({error}). Fetch it again") from None
    for index, row in found:
        paper, number = divmod(index - 1, 15)
        id_ = f"aime_2025_{'I' * (paper + 1)}_{number + 1}"
        rows.append((f"{path.name}, {id_}", {"id": id_, "problem": row["problem"], "answer": row["answer"]}))
    return check(rows, str(path))
