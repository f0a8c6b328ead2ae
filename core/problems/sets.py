"""Problems: a named set (bundled, or from the Hugging Face hub) or a file of your own, checked on the way in."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.files import ROOT, parse_json, read_text
from core.grading.answers import MAX_ANSWER_CHARS
from core.types import Problem

DATA = ROOT / "data"

# Sets of the embedded model, made by scripts/embedded/make_sums.py.
BUNDLED = {
    "sums": "sums of 4 products",
    "sums_hard": "sums of 6-8 products",
    "sums_card": "sums of 4 products, for the model card",
    "sums_hard_card": "sums of 6-8 products, for the model card",
}

# The statements of AIME 2025 stay on the hub; data/aime_2025_key.json holds the ids and answers they must agree with.
AIME_2025_REPO = "MathArena/aime_2025"
AIME_2025_FILE = "data/train-00000-of-00001.parquet"

MEND = "Mend it there"


@dataclass(frozen=True)
class ProblemSet:
    name: str
    problems: tuple[Problem, ...]
    source: str

    @property
    def sha256(self) -> str:
        """Hash of ids, statements and answers: results with different hashes are not comparable."""
        rows = [[p.id, p.statement, p.answer, p.answer_type] for p in self.problems]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()

    def first(self, limit: int) -> "ProblemSet":
        """The first `limit` problems; 0 means all."""
        if limit == 0 or limit >= len(self.problems):
            return self
        return ProblemSet(f"{self.name}[:{limit}]", self.problems[:limit], self.source)


def load(name: str) -> ProblemSet:
    """A problem set by name ("sums", "aime_2025", …) or by the path of a .json or .jsonl file.

    Raises UserError, with the place and the mend, for an unknown name, an unreadable or malformed file, or a hub
    that can't be reached.
    """
    if name in BUNDLED:
        return ProblemSet(name, _read(DATA / f"{name}.json"), f"bundled: {BUNDLED[name]}")
    if name == "aime_2025":
        return _aime_2025()
    path = Path(os.path.expanduser(name))
    if path.suffix.lower() in (".json", ".jsonl"):
        return ProblemSet(path.stem, _read(path), f"file {path.name}")
    known = ", ".join([*BUNDLED, "aime_2025"])
    raise UserError(f"unknown problem set {name!r}. Known sets: {known}; or give the path of a .json or .jsonl file")


def _read(path: Path) -> tuple[Problem, ...]:
    text = read_text(path, "problem file", "Check the path in PROBLEMS")
    if path.suffix.lower() == ".jsonl":
        lines = [(f"{path}, line {n}", line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        rows = [(where, parse_json(line, f"problem file {where}", MEND)) for where, line in lines]
    else:
        whole = parse_json(text, f"problem file {path}", MEND)
        if not isinstance(whole, list):
            raise UserError(f"problem file {path} must hold a list of problems, not {_kind(whole)}")
        rows = [(f"{path}, problem {n}", row) for n, row in enumerate(whole, 1)]
    return check(rows, str(path))


def check(rows: Sequence[tuple[str, Any]], source: str) -> tuple[Problem, ...]:
    """Problems from decoded rows, each beside the place it came from. A row is an object with "problem" (text) and
    "answer" (whole number or text), and optionally "id" and "answer_type" ("integer" or "math"). Rows without a type
    get that of the set: "integer" where every answer is a whole number from 0 to 999 and no row says "math", as AIME's
    are; else "math", also for a 42 among fractions, whose box may rightly hold 6 times 7."""
    problems: list[Problem] = []
    whole = all(
        _is_whole(row.get("answer")) and row.get("answer_type") != "math" for _, row in rows if isinstance(row, dict)
    )
    seen: dict[str, str] = {}
    for number, (where, row) in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise UserError(f'{where} must be an object like {{"problem": "…", "answer": 42}}, not {_kind(row)}')
        statement = row.get("problem")
        if not isinstance(statement, str) or not _is_text(statement):
            raise UserError(f'{where} needs "problem", a text that is not empty. Fields found: {_fields(row)}')
        answer = row.get("answer")
        if isinstance(answer, bool) or not isinstance(answer, (int, float, str)) or not _is_text(str(answer)):
            raise UserError(f'{where} needs "answer", a number or a text. Fields found: {_fields(row)}')
        answer = str(answer).strip()
        if len(answer) > MAX_ANSWER_CHARS or answer in ("nan", "inf", "-inf"):
            raise UserError(f'{where} has an "answer" that nothing can be compared with: {answer:.40}')
        answer_type = row.get("answer_type", "integer" if whole else "math")
        if answer_type not in ("integer", "math"):
            raise UserError(f'{where} has "answer_type" {answer_type!r:.80}; it is "integer" (0-999) or "math"')
        if answer_type == "integer":
            if not _is_whole(answer):
                raise UserError(f'{where} has "answer_type" "integer", but its answer {answer!r} is not 0-999')
            answer = str(int(answer))
        id_ = row.get("id", number)
        if isinstance(id_, bool) or not isinstance(id_, (int, str)) or not _is_text(str(id_)):
            raise UserError(f'{where} has "id" {id_!r:.80}; an id is a text or a whole number')
        id_ = str(id_)
        if id_ in seen:
            raise UserError(f'{where} repeats the id {id_!r:.80} of {seen[id_]}. Give every problem an "id" of its own')
        seen[id_] = where
        problems.append(Problem(id_, statement.strip(), answer, answer_type))
    if not problems:
        raise UserError(f"{source} holds no problems. Give at least one")
    return tuple(problems)


def _is_whole(answer: Any) -> bool:
    """Whether `answer` is a whole number from 0 to 999, as AIME's are."""
    return re.fullmatch(r"\s*[0-9]{1,20}\s*", str(answer)) is not None and int(answer) <= 999


def _is_text(text: str) -> bool:
    """Whether `text` says something and can be sent: JSON may hold half a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return bool(text.strip())


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _fields(row: dict[str, Any]) -> str:
    return (", ".join(repr(str(key)[:40]) for key in list(row)[:8]) or "none").replace("\n", " ")


def _aime_2025() -> ProblemSet:
    """AIME 2025 I and II from the hub, compared with the committed key of 30 ids and answers."""
    key = json.loads((DATA / "aime_2025_key.json").read_text(encoding="utf-8"))
    way_out = (
        "Connect to the internet (HF_ENDPOINT names a mirror, HF_HUB_OFFLINE=1 uses what is already downloaded), "
        "or give a local copy: PROBLEMS=path/to/aime_2025.json"
    )
    try:
        from huggingface_hub import hf_hub_download

        path = hf_hub_download(AIME_2025_REPO, AIME_2025_FILE, repo_type="dataset", revision=key["revision"])
    except Exception as error:  # the hub client raises many kinds; all of them mean that the set is not here
        reason = str(error).strip().split("\n")[0][:200]
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
    return ProblemSet("aime_2025", problems, f"hub {AIME_2025_REPO} at {commit}")


def read_parquet(path: Path) -> tuple[Problem, ...]:
    """The 30 problems of MathArena's parquet file: problem_idx 1-15 is AIME I, 16-30 is AIME II. Raises UserError."""
    import pyarrow.parquet

    rows = []
    try:
        table = pyarrow.parquet.read_table(path, columns=["problem_idx", "problem", "answer"])
        found = [(int(row["problem_idx"]), row) for row in table.to_pylist()]
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path} is not the file that {AIME_2025_REPO} holds ({error}). Fetch it again") from None
    for index, row in found:
        paper, number = divmod(index - 1, 15)
        id_ = f"aime_2025_{'I' * (paper + 1)}_{number + 1}"
        rows.append((f"{path.name}, {id_}", {"id": id_, "problem": row["problem"], "answer": row["answer"]}))
    return check(rows, str(path))
