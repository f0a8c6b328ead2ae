"""Read proofs from results and their journals, and write the grades and the figures into the results.
Merged runs are graded one by one and merged again. A comparison is graded at the steps that count at its budgets."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.prices import Prices
from core.grading.answers import grade_answers
from core.report import tables
from core.report.budgets import counting
from core.report.matched import Matched
from core.results import read, records
from core.results.find import archive
from core.results.merge import merge
from core.results.model import Head
from core.session.regrade import Kept
from core.types import MAX_POINTS, Completion, Grade, Graded, Population, Problem
from labs.proofs.grade.asking import Item
from labs.proofs.grade.figures import cost, worth
from labs.proofs.proofs import BY_GRADER, BY_MATH_VERIFY, Points

GRADER = "by_model"  # the grader's name in results
SPECIAL = 16  # most tokens of a reply that are not text: the tags around its thinking, and its end

Steps = Callable[[dict[str, Any]], set[int]]  # returns the numbers of the steps to grade in a problem's row
STEPS: dict[str, Steps] = {
    "last": lambda row: {step["step"] for step in row["steps"][-1:]},
    "all": lambda row: {step["step"] for step in row["steps"]},
}


class Stored:
    """The proofs of a results file. The function `steps` chooses the steps to grade."""

    def __init__(self, path: Path, steps: Steps) -> None:
        """Read the results. Raises UserError if they, a merged run or a journal can't be read."""
        self._path, self._steps = path, steps
        head, _ = read.read(path)
        self._runs, self._is_complete = head.runs, head.complete
        self.name = head.experiment
        self._kept = [Kept(each) for each in (_files(path, head) if head.runs else [path])]
        with archive(self._kept[0].path, head.experiment) as journals:
            self.folder = journals.folder

    def items(self) -> Iterator[Item]:
        """Yield the proofs. Raises UserError if the journal lacks a completion."""
        for kept in self._kept:
            with archive(kept.path, kept.head["experiment"]) as journals:
                for problem, row in zip(kept.problems, kept.rows, strict=True):
                    wanted = self._steps(row)
                    for step in row["steps"]:
                        if step["step"] in wanted:
                            population = kept.population(journals, step)
                            yield from (Item(problem, member.completion) for member in population)

    def write(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> tuple[Path, str]:
        """Write points, figures and the description `about` into the results. Returns their path and a table."""
        given = iter(points)
        paths = [self._save(kept, given, about, prices) for kept in self._kept]
        path = paths[0]
        if runs := self._runs:
            path = merge(paths, self.name, self._path.parent, runs.by, self._is_complete, {"grading": about})[0]
        document = read.read(path)[0].document
        proofs = document["metrics"]["proofs"]
        return path, tables.points_table(proofs) if proofs else tables.final(document)

    def _save(self, kept: Kept, given: Iterator[Points], about: dict[str, Any], prices: Prices | None) -> Path:
        """Write one run's results, and return their path. Each graded population takes the next points of `given`."""
        with archive(kept.path, kept.head["experiment"]) as journals:

            def remade(place: int, step: dict[str, Any]) -> dict[str, Any]:
                if step["step"] not in self._steps(kept.rows[place]):
                    return step
                population = kept.population(journals, step)
                points = [*islice(given, len(population))]
                return _record(step["step"], kept.problems[place], population, points, prices)

            return kept.save(remade, grader=GRADER, grading=about)[0]


class Compared:
    """The proofs of the comparison in `folder`: all proofs, or only those that count at one of its budgets."""

    def __init__(self, folder: Path, all_steps: bool) -> None:
        """Read the comparison. Raises UserError if it can't be read, or if it compares answers."""
        self._matched = matched = Matched.kept(folder)
        self.name = folder.name
        if not matched.of_proofs:
            raise UserError(f"{self.name} compares answers, which are graded already. Name a comparison of proofs")

        def wanted(row: dict[str, Any]) -> set[int]:
            return counting([read.step_result(step) for step in row["steps"]], matched.budgets, matched.meter)

        paths = (path for paths in matched.paths().values() for path in paths)
        self._parts = [Stored(path, STEPS["all"] if all_steps else wanted) for path in paths]
        self.folder = self._parts[0].folder

    def items(self) -> Iterator[Item]:
        """Yield the proofs. Raises UserError if a journal lacks a completion."""
        return chain.from_iterable(part.items() for part in self._parts)

    def write(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> tuple[Path, str]:
        """Write the grades into the results of each compared run. Returns the comparison's folder and a new table."""
        given = iter(points)
        for part in self._parts:
            part.write(list(islice(given, sum(1 for _ in part.items()))), about, prices)
        return self._matched.folder, self._matched.show()


def _files(path: Path, head: Head) -> list[Path]:
    """Return the paths of the results that are merged in `path`. Raises UserError if a file is missing."""
    assert head.runs
    folder = path.parent / head.runs.of
    found = [folder / f"{head.runs.of}-seed{seed}.json" for seed in head.runs.seeds]
    if lacking := [each for each in found if not each.exists()]:
        raise UserError(
            f"{path.name} merges {len(found)} runs, but {lacking[0]} is missing. Restore this file, or grade the "
            "results of each other run by name"
        )
    return found


def _record(
    step: int, problem: Problem, population: Population, points: Sequence[Points], prices: Prices | None
) -> dict[str, Any]:
    """Return a population's record with its points. If an answer in doubt has a grader's points, they decide."""
    if problem.is_proof:
        values = [worth(each)["worth"] for each in points]
        known = [value for value in values if value is not None]
        grades = [
            Grade(value, doubt=each.ungraded, side_calls=tuple(each.calls))
            for value, each in zip(values, points, strict=True)
        ]
        graded = Graded(grades, sum(known) / len(known) if known else None)
    else:
        graded = grade_answers(problem, population)
        for place, each in enumerate(points):
            if each.by == BY_GRADER and each.grade is not None:
                value = float(each.grade == MAX_POINTS)
                graded.grades[place] = replace(
                    graded.grades[place], value=value, is_undecided=False, side_calls=tuple(each.calls)
                )
    record: dict[str, Any] = records.record(step, population, graded)
    for fields, member, each in zip(record["members"], population, points, strict=True):
        fields |= _fields(problem, each, prices)
        if problem.is_proof:
            fields["written"] = written(member.completion)
    return record


def written(proof: Completion) -> dict[str, int | None]:
    """Split a completion's tokens into thinking and proof, by their shares of the characters. None means unknown."""
    tokens = proof.counted[-1]
    texts = proof.thinking, proof.text
    # A reply with more tokens than bytes comes from a server that hides the thinking.
    if tokens is None or tokens > SPECIAL + sum(len(text.encode("utf-8", "surrogatepass")) for text in texts):
        return {"thinking": None, "answer": None}
    thinking, answer = map(len, texts)
    of_thinking = round(tokens * thinking / (thinking + answer)) if thinking else 0
    return {"thinking": of_thinking, "answer": tokens - of_thinking}


def _fields(problem: Problem, points: Points, prices: Prices | None) -> dict[str, Any]:
    """Return a graded member's new fields. An answer has no `grade` and no `worth`, because it is right or wrong."""
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
