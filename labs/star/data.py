"""Choose the problems to train on and the problems to evaluate on. No statement is in both sets.

If EVAL selects no set, usable problems of DATA are held out, in the order of the hashes of their
statements. So every seed, run and order of rows holds out the same problems. A larger HELD_OUT
keeps them and adds problems."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.base import seeds
from core.base.errors import UserError
from core.grading.canonical import NOTHING, WORDS, canonical, is_aime
from core.grading.kinds import kind_of
from core.grading.kinds.choice import Choice
from core.grading.kinds.integer import Integer
from core.grading.kinds.math import Math
from core.grading.kinds.proof import GRADED_BY
from core.grading.option_rows import LISTS
from core.types import MAX_ANSWER_CHARS, PROOF, Problem
from harness.problems import gym, sets
from harness.problems.check import can_be_sent
from harness.problems.columns import (
    BODY,
    NAMES,
    PASSAGES,
    fields_of,
    plain,
    plain_name,
    text_of,
    with_inner,
)
from harness.problems.published import OPENR1
from harness.problems.sets import ProblemSet
from labs.star import alpaca
from labs.star.constants import StarConstants
from labs.star.statements import hash_of, near

LONGEST_ID = 200
# Reasons to skip a row of DATA. A row is counted under the first reason that applies.
REASONS = (
    "no statement",
    "proof",
    "multiple choice",
    "no answer",
    "two answers",
    "repeated",
    "in EVAL",
)
# The columns to read: names in harness/problems/columns.py, and more names of OpenR1-Math-220k.
# Other columns, such as long solutions by models, are dropped. From a parquet file, they are not
# even read.
_OURS = ("id", "problem", "answer", "answer_type", *GRADED_BY)
_COLUMNS = {name.partition(".")[0] for ours in _OURS for name in NAMES[ours]}
_COLUMNS |= {name.partition(".")[0] for name in LISTS}
_COLUMNS |= {BODY, *PASSAGES}
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
    data, evaluation = _names(config, own)
    rows, origin = _read(data)
    measured = _evaluated(evaluation) if evaluation else None
    grouped, counts = _grouped(rows)
    if measured and data.startswith(gym.PREFIX):  # two problems may be equal by chance
        for hash_ in _shared(grouped, measured):
            counts["in EVAL"] += len(grouped.pop(hash_))
    elif measured:
        _check_apart(grouped, origin, measured)
    problems = _usable(grouped, counts)
    _check_prompt([*problems.values(), *(measured.problems if measured else ())], config)
    left_out = {reason: counts[reason] for reason in REASONS if counts[reason]}
    count = 0 if measured else config.HELD_OUT
    needed = config.in_a_round + count
    if len(problems) < needed:
        reasons = "".join(f", {reason}: {skipped:,}" for reason, skipped in left_out.items())
        raise UserError(
            f"DATA={origin.name} has {len(problems):,} usable problems ({len(rows):,} "
            f"rows{reasons}), but a run needs {needed:,}. Lower TRAIN_PROBLEMS or HELD_OUT, or add "
            "rows with answers that can be graded"
        )
    readable = (hash_ for hash_, problem in problems.items() if _is_readable(problem))
    held_out = {hash_: problems[hash_] for hash_ in islice(readable, count)}
    train = {hash_: problem for hash_, problem in problems.items() if hash_ not in held_out}
    if measured is None:
        name = f"{origin.name}:held_out"
        measured = replace(origin, name=name, problems=tuple(held_out.values()))
    return Split(
        train=tuple(train.values()),
        held_out=measured.first(config.LIMIT),
        left_out=left_out,
        sha256=_digest(train, measured),
        origin=origin,
        near=near(
            ((problem.id, problem.statement) for problem in train.values()),
            (problem.statement for problem in measured.problems),
        ),
    )


def _names(config: StarConstants, own: tuple[str, str]) -> tuple[str, str]:
    """Return the names of the set to train on, and of the set to evaluate on or ""."""
    star_set, star_eval_set = own
    data = config.DATA
    if data == "auto":
        data = star_set or OPENR1.name
    evaluation = config.EVAL
    if evaluation == "auto":
        evaluation = star_eval_set if data == star_set else ""
    return data, evaluation


def _evaluated(name: str) -> ProblemSet:
    """Load the set to evaluate on. Raises UserError."""
    measured = sets.load(name, constant="EVAL")
    if measured.asks_for_proofs:
        raise UserError(
            f"EVAL={measured.name} asks for proofs, which can't be graded here. Choose a set with "
            "answers"
        )
    return measured


def _check_apart(
    grouped: Mapping[str, Sequence[Problem]], origin: ProblemSet, measured: ProblemSet
) -> None:
    """Raise UserError if a problem to evaluate on is also one of the `grouped` problems."""
    repeating = _shared(grouped, measured)
    if repeating:
        raise UserError(
            f"{len(repeating):,} problems of DATA={origin.name} are also in EVAL={measured.name}, "
            f"such as {grouped[min(repeating)][0].statement!r:.80}. Remove them from DATA, or set "
            "another EVAL (EVAL=auto holds out some problems of your own DATA)"
        )


def _shared(grouped: Mapping[str, Sequence[Problem]], measured: ProblemSet) -> set[str]:
    """Return the hashes of the statements in both sets."""
    return grouped.keys() & {hash_of(problem.statement) for problem in measured.problems}


def _check_prompt(problems: Iterable[Problem], config: StarConstants) -> None:
    """Raise UserError if a problem needs an answer between tags, but FEWSHOT asks for a `Final:`
    line."""
    if config.takes_box:
        return
    for problem in problems:
        if kind_of(problem).places("") is not None:
            raise UserError(
                f"FEWSHOT={config.FEWSHOT} asks for a line Final:, but the answer of {problem.id} "
                "is read between <answer> and </answer>. Set FEWSHOT=none"
            )


def _usable(grouped: Mapping[str, Sequence[Problem]], counts: Counter[str]) -> dict[str, Problem]:
    """Return a problem of each group, with an id of its own. Count the others by reason."""
    problems: dict[str, Problem] = {}
    for hash_, same in sorted(grouped.items()):
        if len(same) > 1 and _differ(same):
            counts["two answers"] += len(same)
            continue
        counts["repeated"] += len(same) - 1
        # Take the minimum, so that the order of the rows does not matter.
        problems[hash_] = min(
            same, key=lambda problem: (problem.statement, problem.answer or "", problem.id)
        )
    uses = Counter(problem.id for problem in problems.values())
    for hash_, problem in problems.items():
        if not problem.id or uses[problem.id] > 1:
            problems[hash_] = replace(problem, id=hash_)
    return problems


def _differ(problems: Sequence[Problem]) -> bool:
    return len({canonical(problem.answer or "") for problem in problems}) > 1


def _digest(train: Mapping[str, Problem], measured: ProblemSet) -> str:
    sha256 = hashlib.sha256(measured.sha256.encode())
    for hash_, problem in train.items():
        sha256.update(f"\n{hash_} {problem.answer_type} {problem.answer}".encode())
    return sha256.hexdigest()


def drawn(split: Split, config: StarConstants, number: int) -> ProblemSet:
    """Draw up to TRAIN_PROBLEMS problems for round `number` (from 1) by SEED, or up to LIMIT if
    LIMIT is set and lower. No problem repeats in a round. Problems whose answer can't be parsed are
    skipped. Parsing may block, as eval.is_equal does. Raises UserError if no answer can be
    parsed."""
    order = seeds.rng(config.SEED, "star", number).permutation(len(split.train)).tolist()
    shuffled = (split.train[i] for i in order)
    readable = (problem for problem in shuffled if _is_readable(problem))
    problems = tuple(islice(readable, config.in_a_round))
    if not problems:
        raise UserError(
            f"DATA={split.origin.name} has no problem left whose answer can be parsed. Set another "
            "DATA"
        )
    return replace(split.origin, name=f"{split.origin.name}:round_{number}", problems=problems)


def _is_readable(problem: Problem) -> bool:
    return kind_of(problem).is_readable(problem.answer or "")


# Reading


def _read(name: str) -> tuple[list[Any], ProblemSet]:
    """Return the rows of the set `name`, and the set without its problems. Raises UserError."""
    if name.startswith(gym.PREFIX):
        loaded = sets.load(name, constant="DATA")
        return list(loaded.problems), replace(loaded, problems=())
    if name == OPENR1.name or name.startswith("hub:") or Path(name).suffix:
        read = sets.read_set(name, "DATA", _is_read, {OPENR1.name: OPENR1}, {})
        origin = ProblemSet(read.name, (), read.source, read.licence, revision=read.commit)
        return [row for _, row in read.rows], origin
    loaded = sets.load(name, constant="DATA")
    rows = [
        {
            "id": problem.id,
            "problem": problem.statement,
            "answer": problem.answer,
            "answer_type": problem.answer_type,
        }
        for problem in loaded.problems
    ]
    return rows, replace(loaded, problems=())


def _is_read(column: str) -> bool:
    return plain_name(column) in _COLUMNS


# Rows


def _grouped(rows: Iterable[Any]) -> tuple[dict[str, list[Problem]], Counter[str]]:
    """Group the usable rows by the hash of their statement. Count the skipped rows by reason."""
    grouped: dict[str, list[Problem]] = {}
    counts: Counter[str] = Counter()
    for problem in map(_problem_of, rows):
        if isinstance(problem, str):
            counts[problem] += 1
        else:
            grouped.setdefault(hash_of(problem.statement), []).append(problem)
    return grouped, counts


def _problem_of(row: Any) -> Problem | str:
    """Return the problem of a row, or the reason to skip the row. The id is "" if the row has no
    valid id. A problem of a task is returned as it is."""
    if isinstance(row, Problem):
        return row
    read = fields_of(row) | alpaca.asked(row) if isinstance(row, dict) else {}
    statement = read.get("problem")
    answer = _text(read.get("answer"))
    if not isinstance(statement, str) or not can_be_sent(statement):
        return "no statement"
    if not any(map(str.isalnum, statement)):
        return "no statement"
    kinds = [_text(row.get(name)).lower() for name in ("question_type", "answer_type")]
    if PROOF in (*kinds, answer.lower()) or any(
        read.get(name) not in (None, "", [], {}) for name in GRADED_BY
    ):
        return "proof"
    if len(answer) > MAX_ANSWER_CHARS or "\n" in answer or not can_be_sent(answer):
        return "no answer"
    form = canonical(answer)
    if any(map(_CHOICES.fullmatch, kinds)) or _CHOICE.fullmatch(form):
        return "multiple choice"
    if Choice.claims(Problem("", statement, answer), with_inner(row)):
        return "multiple choice"
    # A cheap check. core/grading takes thousands of times as long, so it parses only the answers of
    # chosen problems.
    if form.lower() in ("", "n/a") or (WORDS.fullmatch(form) and form not in NOTHING):
        return "no answer"
    is_integer = is_aime(form) and read.get("answer_type") != Math.name
    id_ = _text(read.get("id", row.get("uuid")))
    is_valid = len(id_) <= LONGEST_ID and id_.isprintable()
    return Problem(
        id_ if is_valid else "",
        statement.strip(),
        form if is_integer else answer,
        Integer.name if is_integer else Math.name,
        _cells(row),
    )


def _cells(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the cells of a row that are plain values."""
    return {
        str(name): plain(cell)
        for name, cell in row.items()
        if cell is None or isinstance(cell, (str, int, float))
    }


def _text(cell: Any) -> str:
    """Return a cell as text. Return "" for a list or an object, which may be nested too deeply, and
    for other types."""
    return "" if isinstance(cell, (list, Mapping)) else text_of(cell)
