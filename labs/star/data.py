"""The problems that STaR trains on, and those that it is evaluated on: no statement is among both.

Which problems of DATA are held out follows from their statements alone (labs/star/statements.py), so that every seed,
every run and every order of rows holds out the same ones, and a larger HELD_OUT holds out these and more.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.base import seeds
from core.base.errors import UserError
from core.grading.answers import is_reference
from core.grading.boxed import NOTHING, WORDS, canonical, is_aime
from core.problems import hub, sets
from core.problems.check import can_be_sent
from core.problems.columns import GRADED_BY, NAMES, plain, plain_name, text_of, understood
from core.problems.openr1 import OPENR1
from core.problems.rows import Rows, read_rows
from core.problems.sets import ProblemSet
from core.types import MAX_ANSWER_CHARS, PROOF, Problem
from labs.star.constants import StarConstants
from labs.star.statements import GRAM, hash_of, near

AUTO = "auto"
LONGEST = 8000  # characters of a statement
LONGEST_ID = 200
# Why a row of DATA is not used; of several reasons the first is told.
REASONS = {
    "no statement": "there is no text of a problem in it, or half a character in that",
    "too long": f"its statement has more than {LONGEST:,} characters",
    "proof": "it asks for a proof",
    "multiple choice": "answers are offered to choose from, or its answer is a letter",
    "no answer": "there is none",
    "not judged": "its answer could be compared by its letters alone: words, remarks, what can't be read",
    "two answers": "other rows have its statement and another answer",
    "repeated": "another row has its statement and its answer, and is used",
}
# The columns that are read, but for OpenR1-Math-220k's under the names of core/problems/columns.py. Others, such as
# what models wrote, never come into memory.
_OURS = ("id", "problem", "answer", "answer_type", *GRADED_BY)
_COLUMNS = {name.partition(".")[0] for ours in _OURS for name in NAMES[ours]}
_COLUMNS |= {"uuid", "question_type", "problem_type", "source"}
_CHOICES = re.compile(r"mcq|multiple[ _-]?choice.*")
_CHOICE = re.compile(r"(?:\\(?:text|textbf|mathrm|mathbf) *\{ *)?\(?[A-H]\)?[.:]?(?: *\})?")  # (A), B., \text{C}
_NO_ANSWER = ("", "notfound", "not found", "none", "null", "n/a")  # as OpenR1-Math-220k has it, and others


@dataclass(frozen=True)
class Split:
    """`train`: what rounds are drawn from, in the order of their statements' hashes; `held_out`: what is evaluated on.
    `left_out`: rows of DATA by the reason, a key of REASONS. `sha256` tells whether two splits are one. `origin`: what
    is said of DATA, a set without its problems. `near`: ids of training problems that share GRAM words in a row with a
    held-out one."""

    train: tuple[Problem, ...]
    held_out: ProblemSet
    left_out: dict[str, int]
    sha256: str
    origin: ProblemSet
    near: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.origin.name

    def about_near(self) -> str:
        """Say how many training problems are near a held-out one, with examples; "" if none is."""
        if not self.near:
            return ""
        return (
            f"note: {len(self.near):,} of {len(self.train):,} training problems share {GRAM} words in a row with a "
            f"held-out one, such as {', '.join(self.near[:3])}. They stay in: docs/star.md"
        )


@dataclass(frozen=True)
class _Data:
    """The rows of DATA, each with its place, and what is said of them."""

    rows: Rows
    origin: ProblemSet

    @property
    def name(self) -> str:
        return self.origin.name


@dataclass
class _Found:
    """The rows of one statement: a `problem` that stands for them, its answer in canonical form, the number of the
    `first` row, how many they are, and whether their answers `differ`."""

    problem: Problem
    answer: str
    first: int
    rows: int = 1
    differ: bool = False

    def add(self, problem: Problem, answer: str) -> None:
        """One more row. Which of them stands for all is not a matter of their order."""
        self.rows += 1
        self.differ |= answer != self.answer
        self.problem = min(self.problem, problem, key=lambda each: (each.statement, each.answer or "", each.id))


def split(config: StarConstants, own: tuple[str, str]) -> Split:
    """What DATA and EVAL say. `own`: what they say where they are "auto", for this model (star_set and star_eval_set of
    its card), "" and "" of a model without: then openr1, and HELD_OUT problems of it. EVAL="auto" beside another DATA
    holds out HELD_OUT problems of that.

    Whether an answer can be read is found out of those that are held out here, of others when they are drawn. Blocks as
    answers.judge does. Raises UserError for what can't be read, where no row can be used or they are too few, and where
    rows of DATA repeat what EVAL holds."""
    name = config.DATA if config.DATA != AUTO else own[0] or OPENR1.name
    named = config.EVAL if config.EVAL != AUTO else own[1] if name == own[0] else ""
    data = _read(name)
    measured = _to_measure(named) if named else None
    found, unused = _collected(data.rows)
    if measured:
        _check_overlap(data, found, measured)
    usable = sorted(hash_ for hash_, each in found.items() if not each.differ)
    problems = _with_ids({hash_: found[hash_].problem for hash_ in usable})
    held_out, unread = ([], []) if measured else _held_out(problems, config.HELD_OUT)
    left_out = _counted(unused, found, unread)
    train = {hash_: each for hash_, each in problems.items() if hash_ not in {*held_out, *unread}}
    _check_enough(config, data, measured, len(held_out), len(train), left_out)
    apart = measured or replace(
        data.origin, name=f"{data.name}:held_out", problems=tuple(problems[hash_] for hash_ in held_out)
    )
    sha256 = hashlib.sha256(apart.sha256.encode())
    for hash_, problem in train.items():
        sha256.update(f"\n{hash_} {problem.answer_type} {problem.answer}".encode())
    alike = near(((each.id, each.statement) for each in train.values()), (each.statement for each in apart.problems))
    return Split(tuple(train.values()), apart.first(config.LIMIT), left_out, sha256.hexdigest(), data.origin, alike)


def drawn(split: Split, config: StarConstants, number: int) -> ProblemSet:
    """The training problems of round `number`, from 1: TRAIN_PROBLEMS of split.train, at most LIMIT, none of them
    twice, by SEED and `number`; all there are, where they are fewer. Another round may draw them again. An answer that
    can't be read is passed over. Blocks as answers.judge does. Raises UserError where no answer can be read."""
    order = seeds.rng(config.SEED, "star", number).permutation(len(split.train)).tolist()
    readable = (each for each in map(split.train.__getitem__, order) if _is_readable(each))
    problems = tuple(islice(readable, _in_a_round(config)))
    if not problems:
        raise UserError(f"DATA={split.name} has no row to train on: none of its answers can be read")
    return replace(split.origin, name=f"{split.name}:round_{number}", problems=problems)


def _in_a_round(config: StarConstants) -> int:
    return min(config.TRAIN_PROBLEMS, config.LIMIT or config.TRAIN_PROBLEMS)


# Reading


def _read(name: str) -> _Data:
    """The rows that DATA names. Raises UserError."""
    if name == OPENR1.name:
        read = sets.read_published(OPENR1, "DATA", _is_read)
        return _Data(read.rows, ProblemSet(name, (), read.source, OPENR1.licence, revision=read.commit))
    if name.startswith("hub:"):
        asked = hub.Spec.read(name)
        read = sets.read_hub(asked, "DATA", _is_read)
        return _Data(read.rows, ProblemSet(asked.name, (), read.source, read.licence, revision=read.commit))
    path = Path(os.path.expanduser(name))
    if path.suffix:
        return _Data(read_rows(path, _is_read), ProblemSet(path.stem, (), f"file {path.name}"))
    known = sets.load(name, constant="DATA")
    rows = [(f"{known.name}, problem {each.id}", _row_of(each)) for each in known.problems]
    return _Data(rows, replace(known, problems=()))


def _is_read(column: str) -> bool:
    return plain_name(column) in _COLUMNS


def _row_of(problem: Problem) -> dict[str, Any]:
    return {
        "id": problem.id,
        "problem": problem.statement,
        "answer": problem.answer,
        "answer_type": problem.answer_type,
    }


def _to_measure(name: str) -> ProblemSet:
    """The set that EVAL names. Raises UserError."""
    measured = sets.load(name, constant="EVAL")
    if measured.asks_for_proofs:
        raise UserError(f"EVAL={measured.name} asks for proofs, which are not compared. Give a set with answers")
    return measured


# Rows


def _collected(rows: Rows) -> tuple[dict[str, _Found], Counter[str]]:
    """The rows that can be used, by the hash of their statement; how many others there are, by reason."""
    found: dict[str, _Found] = {}
    left_out: Counter[str] = Counter()
    for number, (_, row) in enumerate(rows):
        problem = _problem_of(row)
        if isinstance(problem, str):
            left_out[problem] += 1
            continue
        hash_, answer = hash_of(problem.statement), canonical(problem.answer or "", "math")
        if hash_ in found:
            found[hash_].add(problem, answer)
        else:
            found[hash_] = _Found(problem, answer, number)
    return found, left_out


def _problem_of(row: Any) -> Problem | str:
    """The problem of a row, without an id where it has none; or why there is none to be used, a key of REASONS."""
    read = understood(row) if isinstance(row, dict) else {}
    statement = read.get("problem")
    if not isinstance(statement, str) or not can_be_sent(statement) or not any(map(str.isalnum, statement)):
        return "no statement"
    if len(statement) > LONGEST:
        return "too long"
    kinds = [_text(cell).lower() for cell in (row.get("question_type"), read.get("answer_type"))]
    answer = _text(read.get("answer"))
    if PROOF in (*kinds, answer.lower()) or any(read.get(name) not in (None, "", [], {}) for name in GRADED_BY):
        return "proof"
    if any(map(_CHOICES.fullmatch, kinds)) or _CHOICE.fullmatch(answer):
        return "multiple choice"
    if answer.lower() in _NO_ANSWER:
        return "no answer"
    judged = _judged_as(answer, read.get("answer_type"))
    if judged is None:
        return "not judged"
    kept = {str(name): plain(cell) for name, cell in row.items() if cell is None or isinstance(cell, (str, int, float))}
    return Problem(_id_of(row, read), statement.strip(), *judged, kept)


def _text(cell: Any) -> str:
    """A cell that is a text or a number, as text; "" of what holds others, which may nest too deep to be read."""
    return "" if isinstance(cell, (list, Mapping)) else text_of(cell)


def _judged_as(answer: str, wanted: Any) -> tuple[str, str] | None:
    """An answer and its type, `wanted` where that is one of ours: "integer" for a whole number from 0 to 999, else
    "math". None for what can't be judged as far as a look tells: core/grading's reader takes thousands of times as
    long, and is asked where an answer is used."""
    if len(answer) > MAX_ANSWER_CHARS or "\n" in answer or not can_be_sent(answer):
        return None
    form = canonical(answer, "math")
    if wanted != "math" and is_aime(form):
        return form, "integer"
    is_words = WORDS.fullmatch(form) is not None and form not in NOTHING
    return None if wanted == "integer" or is_words or not form else (answer, "math")


def _id_of(row: Mapping[str, Any], read: Mapping[str, Any]) -> str:
    """The id of a row; "" where it has none that can be one."""
    id_ = _text(read.get("id", row.get("uuid")))
    return id_ if len(id_) <= LONGEST_ID and id_.isprintable() else ""


def _with_ids(problems: Mapping[str, Problem]) -> dict[str, Problem]:
    """Problems by the hash of their statement, each with an id of its own: that of its row, or, where it has none or
    another problem has it too, the hash."""
    ids = {hash_: problem.id or hash_ for hash_, problem in problems.items()}
    while repeated := {id_ for id_, times in Counter(ids.values()).items() if times > 1}:
        ids |= {hash_: hash_ for hash_, id_ in ids.items() if id_ in repeated}
    return {hash_: replace(problem, id=ids[hash_]) for hash_, problem in problems.items()}


# The split


def _held_out(problems: Mapping[str, Problem], most: int) -> tuple[list[str], list[str]]:
    """The first `most` of sorted hashes whose answers can be read; and those before them whose answers can't be."""
    held_out: list[str] = []
    unread: list[str] = []
    for hash_, problem in problems.items():
        if len(held_out) == most:
            break
        (held_out if _is_readable(problem) else unread).append(hash_)
    return held_out, unread


def _is_readable(problem: Problem) -> bool:
    return is_reference(problem.answer or "", problem.answer_type)


def _counted(left_out: Mapping[str, int], found: Mapping[str, _Found], unread: Collection[str] = ()) -> dict[str, int]:
    """`left_out`, with those rows of each statement that no problem stands for."""
    counts = Counter(left_out)
    for each in found.values():
        if each.differ:
            counts["two answers"] += each.rows
        else:
            counts["repeated"] += each.rows - 1
    for hash_ in unread:
        counts["not judged"] += found[hash_].rows
        counts["repeated"] -= found[hash_].rows - 1
    return {reason: counts[reason] for reason in REASONS if counts[reason]}


def _told(left_out: Mapping[str, int]) -> str:
    """Rows by reason, in words."""
    return ", ".join(f"{reason}: {count:,}" for reason, count in left_out.items())


def _check_overlap(data: _Data, found: Mapping[str, _Found], measured: ProblemSet) -> None:
    """Raises UserError where rows of DATA repeat statements that EVAL holds."""
    repeating = [found[hash_] for hash_ in {hash_of(each.statement) for each in measured.problems} if hash_ in found]
    if repeating:
        count, where = sum(each.rows for each in repeating), data.rows[min(each.first for each in repeating)][0]
        raise UserError(
            f"rows of DATA={data.name} repeat what EVAL={measured.name} holds: {count:,}, first {where}. Take them out "
            "of DATA, or give another EVAL (EVAL=auto holds out problems of DATA itself)"
        )


def _check_enough(
    config: StarConstants,
    data: _Data,
    measured: ProblemSet | None,
    held_out: int,
    train: int,
    left_out: Mapping[str, int],
) -> None:
    """Raises UserError where there is less than HELD_OUT, without a set to measure on, and one round take."""
    others = f" (left out: {_told(left_out)})" if left_out else ""
    if not held_out + train:
        raise UserError(
            f"none of the {len(data.rows):,} rows of DATA={data.name} can be used{others}. A row needs a problem, and "
            "an answer that can be compared"
        )
    takes = {} if measured else {"HELD_OUT": config.HELD_OUT}
    takes |= {"TRAIN_PROBLEMS" if not config.LIMIT else "a round with LIMIT": _in_a_round(config)}
    if held_out + train < (total := sum(takes.values())):
        each = " and ".join(f"{name}={count:,}" for name, count in takes.items())
        raise UserError(
            f"DATA={data.name} has {held_out + train:,} problems that can be used{others}, and {each} take {total:,}. "
            "Give fewer of them, or more rows"
        )
