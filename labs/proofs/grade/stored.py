"""Proofs of a run, from its results and journal; the grades go into its results, and the figures follow from those.

Of several runs (RUNS=3), each is graded, and they are merged again. Members that stood in an earlier population are
graded with it where STEPS=all has that graded too: the same proof is the same grade.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.prices import Prices
from core.grading.answers import grade_answers
from core.report import tables
from core.results import read, records
from core.results.data import archive
from core.results.merge import merge
from core.results.model import Head
from core.session.regrade import Kept
from core.types import MAX_POINTS, Completion, Grade, Graded, Population, Problem
from labs.proofs.grade.asking import Item
from labs.proofs.grade.figures import cost, worth
from labs.proofs.proofs import BY_GRADER, BY_MATH_VERIFY, Points

GRADER = "by_model"  # who has graded, as results name it
SPECIAL = 16  # tokens of a reply that stand for no text: tags around its thinking, its end

Steps = Callable[[dict[str, Any]], set[int]]
_Steps = list[dict[int, dict[str, Any]]]  # of each problem, by their numbers


def every(row: dict[str, Any]) -> set[int]:
    return {step["step"] for step in row["steps"]}


def last(row: dict[str, Any]) -> set[int]:
    return {step["step"] for step in row["steps"][-1:]}


class Stored:
    """The proofs in the results in `path`: of the populations whose numbers `steps` tells of a problem's row."""

    def __init__(self, path: Path, steps: Steps) -> None:
        """Raises UserError for results that can't be read, or whose journal is gone."""
        self._path, self._steps = path, steps
        head, _ = read.read(path)
        self._runs, self._is_complete = head.runs, head.complete
        self.name = head.experiment
        self._kept = [Kept(each) for each in (_files(path, head) if head.runs else [path])]
        with archive(self._kept[0].path, head.experiment) as journals:
            self.folder = journals.folder

    def items(self) -> Iterator[Item]:
        """Raises UserError where a completion is in no journal."""
        for kept in self._kept:
            with archive(kept.path, kept.head["experiment"]) as journals:
                for problem, row in zip(kept.problems, kept.rows, strict=True):
                    wanted = self._steps(row)
                    for step in row["steps"]:
                        if step["step"] in wanted:
                            population = kept.population(journals, step)
                            yield from (Item(problem, member.completion) for member in population)

    def write(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> tuple[Path, str]:
        """The grades, and the figures that follow from them, into the results. Of `points` a member has its own, the
        reasons, what they took and why there are none; the document has what they are `about`."""
        path = self._written(points, about, prices)
        document = read.read(path)[0].document
        proofs = document["metrics"]["proofs"]
        return path, tables.points_table(proofs) if proofs else tables.final(document)

    def _written(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> Path:
        given, paths, is_new = iter(points), list[Path](), False
        for kept in self._kept:
            made = self._remade(kept, given, prices)
            if _is_there(kept, made, about):
                paths.append(kept.path)
                continue

            def remade(place: int, step: dict[str, Any], made: _Steps = made) -> dict[str, Any]:
                return made[place][step["step"]]

            is_new = True
            paths.append(kept.save(remade, grader=GRADER, grading=about)[0])
        if not self._runs:
            return paths[0]
        if not is_new:
            return self._path
        more = {"grading": about}
        return merge(paths, self.name, self._path.parent, self._runs.by, self._is_complete, more)[0]

    def _remade(self, kept: Kept, given: Iterator[Points], prices: Prices | None) -> _Steps:
        """The steps of each problem by their numbers, those that were graded with the points that come next."""
        found: _Steps = []
        with archive(kept.path, kept.head["experiment"]) as journals:
            for problem, row in zip(kept.problems, kept.rows, strict=True):
                found.append({step["step"]: step for step in row["steps"]})
                wanted = self._steps(row)
                for step in row["steps"]:
                    if step["step"] in wanted:
                        population = kept.population(journals, step)
                        mine = [next(given) for _ in population]
                        found[-1][step["step"]] = _record(step["step"], problem, population, mine, prices)
        return found


def _files(path: Path, head: Head) -> list[Path]:
    """The results of each run that those in `path` were merged from. Raises UserError where they lie elsewhere."""
    assert head.runs
    folder = path.parent / head.runs.of
    found = [folder / f"{head.runs.of}-seed{seed}.json" for seed in head.runs.seeds]
    if lacking := [each for each in found if not each.exists()]:
        raise UserError(
            f"{path.name} holds {len(found)} runs, and {lacking[0]} is not there. Grade the results of each run, and "
            "merge those: bash scripts/merge.sh"
        )
    return found


def _is_there(kept: Kept, steps: _Steps, about: dict[str, Any]) -> bool:
    """Whether the results hold all of this already: else the file as it was would be kept beside its like each time."""

    def lasting(of: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in json.loads(json.dumps(of)).items() if name not in ("ended", "spent")}

    same = all(step == made[step["step"]] for row, made in zip(kept.rows, steps, strict=True) for step in row["steps"])
    return same and lasting(kept.head.get("grading", {})) == lasting(about)


def _record(
    step: int, problem: Problem, population: Population, points: Sequence[Points], prices: Prices | None
) -> Any:
    """The record of a population with these points. A proof's value is its share of all points; of an answer it is
    what math-verify says, or the grader where that was in doubt."""
    if problem.is_proof:
        values = [each.counted for each in points]
        known = [value / MAX_POINTS for value in values if value is not None]
        graded = Graded(
            [
                Grade(None if value is None else value / MAX_POINTS, doubt=each.ungraded, side_calls=tuple(each.calls))
                for value, each in zip(values, points, strict=True)
            ],
            sum(known) / len(known) if known else None,
        )
    else:
        graded = grade_answers(problem, population)
        for place, each in enumerate(points):
            if each.by == BY_GRADER and each.grade is not None:
                graded.grades[place] = replace(
                    graded.grades[place],
                    value=float(each.grade == MAX_POINTS),
                    is_undecided=False,
                    side_calls=tuple(each.calls),
                )
    made = records.record(step, population, graded)
    for record, member, each in zip(made["members"], population, points, strict=True):
        record |= _fields(problem, each, prices)
        if problem.is_proof:
            record["written"] = written(member.completion)
    return made


def written(proof: Completion) -> dict[str, int | None]:
    """Tokens of thinking and of the proof itself, whose sum is what the server counted. It counts them together, so
    that the share of each is taken from its characters. None where that says nothing: no tokens were counted, or more
    than the text has bytes, and so of thinking that the server does not show."""
    tokens = proof.counted[-1]
    texts = proof.thinking, proof.text
    if tokens is None or tokens > SPECIAL + sum(len(text.encode("utf-8", "surrogatepass")) for text in texts):
        return {"thinking": None, "answer": None}
    thinking, answer = map(len, texts)
    of_thinking = round(tokens * thinking / (thinking + answer)) if thinking else 0
    return {"thinking": of_thinking, "answer": tokens - of_thinking}


def _fields(problem: Problem, points: Points, prices: Prices | None) -> dict[str, Any]:
    """What a graded member has besides. An answer is right or wrong, and has no points."""
    found = worth(points)
    if not problem.is_proof:
        found = {name: why for name, why in found.items() if name == "ungraded"}
    if points.by == BY_MATH_VERIFY:
        return found | {"graded_by": points.by}
    if points.gradings:
        found |= {
            "graded_by": points.by,
            "grades": [each.points for each in points.gradings],
            "spread": points.spread,
            "reasons": [each.reason for each in points.gradings],
            "scheme": points.scheme,
            "grade_cost": cost(points.calls, prices),
        }
    return found | ({"self_evaluation_left_out": points.left_out} if points.left_out else {})
