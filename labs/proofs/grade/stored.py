"""Read proofs from results and their journals, and write the grades and the figures into the results.
Merged runs are graded one by one and merged again. A comparison is graded at the steps that count at its budgets."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.prices import Prices
from core.generate.journal import Archive
from core.grading.answers import grade_answers
from core.report import tables
from core.report.budgets import counting
from core.report.matched import compared_in
from core.results import read, records
from core.results.find import archive
from core.results.merge import merge
from core.session.regrade import Kept
from core.types import MAX_POINTS, Completion, Grade, Graded, Population, Problem
from labs.proofs.grade.asking import Item
from labs.proofs.grade.figures import fields
from labs.proofs.proofs import BY_GRADER, Points

GRADER = "by_model"  # the grader's name in results
SPECIAL = 16  # most tokens of a reply that are not text: the tags around its thinking, and its end

Steps = Callable[[dict[str, Any]], set[int]]  # returns the numbers of the steps to grade in a problem's row
Finish = Callable[[Sequence[Path], dict[str, Any]], tuple[Path, str]]
STEPS: dict[str, Steps] = {
    "last": lambda row: {step["step"] for step in row["steps"][-1:]},
    "all": lambda row: {step["step"] for step in row["steps"]},
}


class Stored:
    """The proofs of one or several runs, in results files. The function `steps` chooses the steps to grade. `finish`
    receives the files and the grading's description after grading, and returns the path to report and a table."""

    def __init__(self, name: str, paths: Sequence[Path], steps: Steps, finish: Finish) -> None:
        """Read the results. Raises UserError if they can't be read."""
        self.name, self._steps, self._finish = name, steps, finish
        self._kept = [Kept(path) for path in paths]
        with self._journals(self._kept[0]) as journals:
            self.folder = journals.folder

    @classmethod
    def results(cls, path: Path, steps: Steps) -> "Stored":
        """Return the proofs of results. Merged runs are graded one by one and merged again. Raises UserError."""
        head = read.read(path)[0]
        paths = [path]
        if runs := head.runs:
            paths = [path.parent / runs.of / f"{runs.of}-seed{seed}.json" for seed in runs.seeds]

        def finish(paths: Sequence[Path], about: dict[str, Any]) -> tuple[Path, str]:
            new = paths[0]
            if runs:
                new = merge(paths, head.experiment, path.parent, runs.by, head.complete, {"grading": about})[0]
            document = read.read(new)[0].document
            proofs = document["metrics"]["proofs"]
            return new, tables.points_table(proofs) if proofs else tables.final(document)

        return cls(head.experiment, paths, steps, finish)

    @classmethod
    def compared(cls, folder: Path, all_steps: bool) -> "Stored":
        """Return the proofs of the comparison in `folder`: all, or those that count at one of its budgets. Raises
        UserError if it can't be read, or if it compares answers."""
        matched = compared_in(folder)
        if not matched.of_proofs:
            raise UserError(f"{folder.name} compares answers, which are graded already. Name a comparison of proofs")

        def wanted(row: dict[str, Any]) -> set[int]:
            return counting([read.step_result(step) for step in row["steps"]], matched.budgets, matched.meter)

        paths = [path for paths in matched.paths().values() for path in paths]
        steps = STEPS["all"] if all_steps else wanted
        return cls(folder.name, paths, steps, lambda paths, about: (folder, matched.show()))

    def items(self) -> Iterator[Item]:
        """Yield the proofs. Raises UserError if the journal lacks a completion."""
        for kept in self._kept:
            with self._journals(kept) as journals:
                for problem, row in zip(kept.problems, kept.rows, strict=True):
                    wanted = self._steps(row)
                    for step in row["steps"]:
                        if step["step"] in wanted:
                            population = kept.population(journals, step)
                            yield from (Item(problem, member.completion) for member in population)

    def write(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> tuple[Path, str]:
        """Write points, figures and the description `about` into the results. Returns their path and a table."""
        given = iter(points)
        return self._finish([self._save(kept, given, about, prices) for kept in self._kept], about)

    def _save(self, kept: Kept, given: Iterator[Points], about: dict[str, Any], prices: Prices | None) -> Path:
        """Write one run's results, and return their path. Each graded population takes the next points of `given`."""
        with self._journals(kept) as journals:

            def remade(place: int, step: dict[str, Any]) -> dict[str, Any]:
                if step["step"] not in self._steps(kept.rows[place]):
                    return step
                population = kept.population(journals, step)
                points = [*islice(given, len(population))]
                return _record(step["step"], kept.problems[place], population, points, prices)

            return kept.save(remade, grader=GRADER, grading=about)[0]

    @staticmethod
    def _journals(kept: Kept) -> Archive:
        return archive(kept.path, kept.head["experiment"])


def _record(
    step: int, problem: Problem, population: Population, points: Sequence[Points], prices: Prices | None
) -> dict[str, Any]:
    """Return a population's record with its points. If an answer in doubt has a grader's points, they decide."""
    if problem.is_proof:
        known = [each.worth for each in points if each.worth is not None]
        grades = [Grade(each.worth, doubt=each.ungraded, side_calls=tuple(each.calls)) for each in points]
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
    for member, own, each in zip(record["members"], population, points, strict=True):
        member |= _fields(problem, each, prices)
        if problem.is_proof:
            member["written"] = written(own.completion)
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
    """Return a graded member's new fields. An answer has no `grade` and no `worth`, because it is right or wrong. Only
    a grader's gradings are stored."""
    found = fields(points, prices)
    always = {"grade", "worth"} if problem.is_proof else set()
    if points.gradings and points.by == BY_GRADER:
        always |= {"grades", "spread", "reasons", "scheme", "grade_cost"}
    if_any = ("ungraded", "graded_by", "self_evaluation_left_out")
    return {name: value for name, value in found.items() if name in always or (name in if_any and value)}
