"""Read graded lines of JSON, in the shape of grade.sh and of exports, or in the shape of QED-Nano's
evaluation.

In their lines, `grade` is a list of objects with points and desc, and `schema_0` a list with title,
desc and points. Their `score` is 0 to 7, or 0 or 1 for answers. Our `grade` is the points, and our
`score` their share of 7."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from core.base.errors import RowError, UserError
from core.base.files import checked_amount
from core.types import MAX_POINTS
from harness.problems.columns import text_of
from harness.problems.faults import Faults
from harness.problems.rows import stream_rows
from harness.results.proof_points import CUT_OFF, EMPTY, groups_of
from labs.proofs.graded import read_row

Json = dict[str, Any]
COSTS = ("input_tokens", "output_tokens", "cost")
# Patterns in ids, and the part of the set that they name, as in QED-Nano's statistics. The first
# match counts.
PARTS = {"Basic": "Basic", "Advanced": "Advanced", "2024|2025": "2024/2025", "20[0-9]{2}": "others"}


@dataclass(frozen=True)
class Line:
    """A graded proof or answer. `points_share` is its share of all points (None: missing), and
    `why` the reason without a grade. `items` are the items of the scheme, each with the grader's
    `points` of `most` and its `words`. `run` and `grading` are the costs by the names in COSTS
    (None: unknown)."""

    problem: str
    statement: str
    solution: str  # the reference solution, or the reference answer
    proof: str
    scheme: str
    items: Sequence[Json]
    points_share: float | None
    why: str | None
    is_cut: bool  # truncated or empty
    grader: str
    groups: Mapping[str, str]
    run: Mapping[str, float | None]
    grading: Mapping[str, float | None]


Runs = dict[str, list[Line]]  # the lines of each run, by its name


def read(paths: Sequence[Path]) -> Runs:
    """Read the files. A file, a seed in it, and each repetition of a problem are runs. Raises
    UserError with the faults of all lines."""
    runs: Runs = {}
    faults = Faults()
    for place, path in enumerate(paths):
        if path.suffix.lower() != ".jsonl":
            raise UserError(
                f"{str(path)!r:.100} is not a file of graded lines. Name one: FILE.graded.jsonl"
            )
        file = path.name.removesuffix(".jsonl").removesuffix(".graded")
        file += f" ({place + 1})" * any(each.name == path.name for each in paths[:place])
        before: Counter[tuple[str, str]] = Counter()
        for location, row in stream_rows(path):
            line = None
            with faults.caught(location):
                line = read_line(row)
            if line is None:
                continue
            seed = text_of(row.get("seed"))
            before[seed, line.problem] += 1
            repeat = before[seed, line.problem]
            name = " ".join(
                filter(None, [file, seed and f"seed {seed}", f"run {repeat}" if repeat > 1 else ""])
            )
            runs.setdefault(name, []).append(line)
        if not (before or faults):
            raise UserError(f"{path} is empty. Name a file of graded lines")
    faults.check()
    return runs


def read_line(row: Any) -> Line:
    """Return a graded line. Raises RowError if it is not graded, or has points that are out of
    range."""
    named = read_row(row)
    graded, scheme, proof = row.get("grade"), row.get("schema_0"), text_of(named.get("proof"))
    is_theirs = isinstance(graded, list) or isinstance(scheme, list)
    if not is_theirs and "score" not in row and not isinstance(row.get("correct"), bool):
        raise RowError(
            "there is no grade",
            "Grade the file first: bash scripts/grade.sh FILE.jsonl GRADER=card",
        )
    try:
        items = _their_items(graded, scheme) if is_theirs else _our_items(row)
        score, most = row.get("score", row.get("correct")), 1.0
        if is_theirs:
            points = [item["points"] for item in items if item["points"] is not None]
            score = row.get("score", sum(points) if points else None)
            most = sum(item["most"] or 0 for item in items) or MAX_POINTS
        points_share = (
            None
            if score is None
            else checked_amount(int(score) if isinstance(score, bool) else score, most) / most
        )
        run, grading = (_cost(row.get(name)) for name in ("cost_run", "grade_cost"))
    except (TypeError, ValueError) as error:
        raise RowError(
            "a score, points or a cost are out of range", "Correct them", str(error)
        ) from None
    name = text_of(named.get("id"))
    part = next((part for pattern, part in PARTS.items() if re.search(pattern, name)), "")
    why = text_of(row.get("ungraded")) or (None if points_share is not None else "grade missing")
    return Line(
        problem=name or named["problem"],
        statement=named["problem"],
        solution=text_of(named.get("solution")) or text_of(named.get("answer")),
        proof=proof,
        scheme="" if is_theirs else text_of(scheme),
        items=items,
        points_share=points_share,
        why=why,
        is_cut=not proof or why in (CUT_OFF, EMPTY) or row.get("finish_reason") == "length",
        grader=text_of(row.get("grader")),
        groups=groups_of(text_of(named.get("split")), row) or groups_of(part, {}),
        run=run,
        grading=grading,
    )


def _their_items(graded: Any, scheme: Any) -> list[Json]:
    """Return the items of a scheme, each with its points. Items without a partner have no points or
    no title."""
    both = (
        [each if isinstance(each, Mapping) else {} for each in of or []] for of in (scheme, graded)
    )
    return [
        _item(
            of.get("title"),
            of.get("desc"),
            by.get("points"),
            _known(of.get("points"), 1000),
            by.get("desc"),
        )
        for of, by in zip_longest(*both, fillvalue=dict[str, Any]())
    ]


def _our_items(row: Json) -> list[Json]:
    """Return an item for each grading, because our graders give points for the whole proof."""
    both = zip(row.get("grade_reasons") or [], row.get("grades") or [], strict=False)
    return [
        _item(f"Grading {n}", "", points, MAX_POINTS, words)
        for n, (words, points) in enumerate(both, 1)
    ]


def _item(title: Any, about: Any, points: Any, most: float | None, words: Any) -> Json:
    texts = {"title": text_of(title), "about": text_of(about), "words": text_of(words)}
    return {**texts, "points": _known(points, 1000), "most": most}


def _cost(cell: Any) -> dict[str, float | None]:
    costs = cell if isinstance(cell, Mapping) else {}
    return {name: _known(costs.get(name)) for name in COSTS}


def _known(cell: Any, most: float = 1e15) -> float | None:
    return None if cell is None else checked_amount(cell, most)
