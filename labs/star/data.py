"""Choose the problems to train on and the problems to evaluate on. No statement is in both sets.

If EVAL selects no set, usable problems of DATA are held out, in the order of the hashes of their
statements. So every seed, run and order of rows holds out the same problems. A larger HELD_OUT
keeps them and adds problems."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.base import seeds
from core.base.errors import UserError
from core.grading.canonical import NOTHING, WORDS, canonical, is_aime
from core.grading.verdicts import is_reference
from core.types import MAX_ANSWER_CHARS, PROOF, Problem
from harness.problems import sets
from harness.problems.check import can_be_sent
from harness.problems.columns import GRADED_BY, NAMES, plain, plain_name, text_of, understood
from harness.problems.published import OPENR1
from harness.problems.sets import ProblemSet
from labs.star import alpaca
from labs.star.constants import StarConstants
from labs.star.statements import hash_of, near

LONGEST_ID = 200
# Reasons to skip a row of DATA. A row is counted under the first reason that applies.
REASONS = ("no statement", "proof", "multiple choice", "no answer", "two answers", "repeated")
# The columns to read: names in harness/problems/columns.py, and more names of OpenR1-Math-220k. Other
# columns, such as long solutions by models, are dropped. From a parquet file, they are not even
# read.
_OURS = ("id", "problem", "answer", "answer_type", *GRADED_BY)
_COLUMNS = {name.partition(".")[0] for ours in _OURS for name in NAMES[ours]}
_COLUMNS |= {"instruction", "input", "output", "uuid", "question_type", "problem_type", "source"}
_CHOICES = re.compile(r"mcq|multiple[ _-]?choice.*")
_CHOICE = re.compile(r"\(?[A-H]\)?[.:]?")  # (A), B.


@dataclass(frozen=True)
class Split:
    """The problems to train on and the problems to evaluate on."""

    train: tuple[Problem, ...]  # sorted by the hash of their statements
    held_out: ProblemSet
    left_out: dict[str, int]  # the number of skipped rows of DATA, by reason
    sha256: str  # a digest of both sets, before LIMIT
    origin: ProblemSet  # the set DATA, without its problems
    # the ids of training problems that share GRAM words in a row with a held-out problem
    near: tuple[str, ...]


def split(config: StarConstants, own: tuple[str, str]) -> Split:
    """Choose the problems to train on and to evaluate on. `own` is (star_set, star_eval_set) of the
    model's card.

    "auto" is star_set for DATA, or else openr1. For EVAL it is star_eval_set if DATA is star_set.
    If EVAL selects no set, HELD_OUT problems of DATA whose answer can be parsed are held out.
    Parsing may block, as eval.is_equal does. Raises UserError if a set can't be read, EVAL asks for
    proofs, or DATA has too few problems or repeats EVAL's."""
    name = config.DATA if config.DATA != "auto" else own[0] or OPENR1.name
    named = config.EVAL if config.EVAL != "auto" else own[1] if name == own[0] else ""
    rows, origin = _read(name)
    measured = sets.load(named, constant="EVAL") if named else None
    if measured and measured.asks_for_proofs:
        raise UserError(
            f"EVAL={measured.name} asks for proofs, which can't be graded here. Choose a set with "
            "answers"
        )
    found, counts = _grouped(rows)
    repeating = (
        found.keys() & {hash_of(each.statement) for each in measured.problems}
        if measured
        else set()
    )
    if measured and repeating:
        raise UserError(
            f"{len(repeating):,} problems of DATA={origin.name} are also in EVAL={measured.name}, "
            f"such as {found[min(repeating)][0].statement!r:.80}. Remove them from DATA, or set "
            "another EVAL (EVAL=auto holds out some problems of your own DATA)"
        )
    problems: dict[str, Problem] = {}
    for hash_, same in sorted(found.items()):
        if len(same) > 1 and len({canonical(each.answer or "", "math") for each in same}) > 1:
            counts["two answers"] += len(same)
            continue
        counts["repeated"] += len(same) - 1
        # Take the minimum, so that the order of the rows does not matter.
        problems[hash_] = min(same, key=lambda each: (each.statement, each.answer or "", each.id))
    left_out = {reason: counts[reason] for reason in REASONS if counts[reason]}
    times = Counter(problem.id for problem in problems.values())
    for hash_, problem in problems.items():
        if not problem.id or times[problem.id] > 1:
            problems[hash_] = replace(problem, id=hash_)
    takes = config.in_a_round + (0 if measured else config.HELD_OUT)
    if len(problems) < takes:
        reasons = "".join(f", {reason}: {count:,}" for reason, count in left_out.items())
        raise UserError(
            f"DATA={origin.name} has {len(problems):,} usable problems ({len(rows):,} "
            f"rows{reasons}), but a run needs {takes:,}. Lower TRAIN_PROBLEMS or HELD_OUT, or add "
            "rows with answers that can be graded"
        )
    readable = (hash_ for hash_, problem in problems.items() if _is_readable(problem))
    held_out = {
        hash_: problems[hash_] for hash_ in islice(readable, 0 if measured else config.HELD_OUT)
    }
    apart = measured or replace(
        origin, name=f"{origin.name}:held_out", problems=tuple(held_out.values())
    )
    train = {hash_: problem for hash_, problem in problems.items() if hash_ not in held_out}
    sha256 = hashlib.sha256(apart.sha256.encode())
    for hash_, problem in train.items():
        sha256.update(f"\n{hash_} {problem.answer_type} {problem.answer}".encode())
    alike = near(
        ((each.id, each.statement) for each in train.values()),
        (each.statement for each in apart.problems),
    )
    held_out_set = apart.first(config.LIMIT)
    return Split(tuple(train.values()), held_out_set, left_out, sha256.hexdigest(), origin, alike)


def drawn(split: Split, config: StarConstants, number: int) -> ProblemSet:
    """Draw up to TRAIN_PROBLEMS problems for round `number` (from 1) by SEED, or up to LIMIT if
    LIMIT is set and lower. No problem repeats in a round. Problems whose answer can't be parsed are
    skipped. Parsing may block, as eval.is_equal does. Raises UserError if no answer can be
    parsed."""
    order = seeds.rng(config.SEED, "star", number).permutation(len(split.train)).tolist()
    readable = (each for each in map(split.train.__getitem__, order) if _is_readable(each))
    problems = tuple(islice(readable, config.in_a_round))
    if not problems:
        raise UserError(
            f"DATA={split.origin.name} has no problem left whose answer can be parsed. Set another "
            "DATA"
        )
    return replace(split.origin, name=f"{split.origin.name}:round_{number}", problems=problems)


def _is_readable(problem: Problem) -> bool:
    return is_reference(problem.answer or "", problem.answer_type)


# Reading


def _read(name: str) -> tuple[list[Any], ProblemSet]:
    """Return the rows of the set `name`, and the set without its problems. Raises UserError."""
    if name == OPENR1.name or name.startswith("hub:") or Path(name).suffix:
        read = sets.read_set(name, "DATA", _is_read, {OPENR1.name: OPENR1}, {})
        own = ProblemSet(read.name, (), read.source, read.licence, revision=read.commit)
        return [row for _, row in read.rows], own
    known = sets.load(name, constant="DATA")
    columns = {"id": "id", "problem": "statement", "answer": "answer", "answer_type": "answer_type"}
    rows = [
        {name: getattr(each, field) for name, field in columns.items()} for each in known.problems
    ]
    return rows, replace(known, problems=())


def _is_read(column: str) -> bool:
    return plain_name(column) in _COLUMNS


# Rows


def _grouped(rows: Iterable[Any]) -> tuple[dict[str, list[Problem]], Counter[str]]:
    """Group the usable rows by the hash of their statement. Count the skipped rows by reason."""
    found: dict[str, list[Problem]] = {}
    counts: Counter[str] = Counter()
    for problem in map(_problem_of, rows):
        if isinstance(problem, str):
            counts[problem] += 1
        else:
            found.setdefault(hash_of(problem.statement), []).append(problem)
    return found, counts


def _problem_of(row: Any) -> Problem | str:
    """Return the problem of a row, or the reason to skip the row. The id is "" if the row has no
    valid id."""
    read = understood(row) | alpaca.asked(row) if isinstance(row, dict) else {}
    statement, answer = read.get("problem"), _text(read.get("answer"))
    if (
        not isinstance(statement, str)
        or not can_be_sent(statement)
        or not any(map(str.isalnum, statement))
    ):
        return "no statement"
    kinds = [_text(row.get(name)).lower() for name in ("question_type", "answer_type")]
    if PROOF in (*kinds, answer.lower()) or any(
        read.get(name) not in (None, "", [], {}) for name in GRADED_BY
    ):
        return "proof"
    if len(answer) > MAX_ANSWER_CHARS or "\n" in answer or not can_be_sent(answer):
        return "no answer"
    form = canonical(answer, "math")
    if any(map(_CHOICES.fullmatch, kinds)) or _CHOICE.fullmatch(form):
        return "multiple choice"
    # A cheap check. core/grading takes thousands of times as long, so it parses only the answers of
    # chosen problems.
    if form.lower() in ("", "n/a") or (WORDS.fullmatch(form) and form not in NOTHING):
        return "no answer"
    judged = (
        (form, "integer")
        if is_aime(form) and read.get("answer_type") != "math"
        else (answer, "math")
    )
    kept = {
        str(name): plain(cell)
        for name, cell in row.items()
        if cell is None or isinstance(cell, (str, int, float))
    }
    id_ = _text(read.get("id", row.get("uuid")))
    return Problem(
        id_ if len(id_) <= LONGEST_ID and id_.isprintable() else "",
        statement.strip(),
        *judged,
        kept,
    )


def _text(cell: Any) -> str:
    """Return a cell as text. Return "" for a list or an object, which may be nested too deeply, and
    for other types."""
    return "" if isinstance(cell, (list, Mapping)) else text_of(cell)
