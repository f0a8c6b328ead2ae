"""Read proofs from results and their journals, and write the grades and the figures into the
results. Merged runs are graded one by one and merged again. A comparison is graded at the steps
that count at its budgets."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import convert

from core.base.errors import UserError
from core.base.prices import Prices
from core.eval import grade_answers
from core.types import MAX_POINTS, Completion, Grade, Graded, Population, Problem
from harness.report import tables
from harness.report.budgets import counting
from harness.report.equal_compute import compared_in
from harness.report.final import final
from harness.results import read, records
from harness.results.find import archive
from harness.results.merge import merge
from harness.results.model import StepResult
from harness.session.regrade import StoredRun
from labs.proofs.grade import lines
from labs.proofs.grade.asking import Item, Source
from labs.proofs.proofs import BY_GRADER, Points, fields

GRADER = "by_model"  # the grader's name in results
SPECIAL = 16  # most tokens of a reply that are not text: the tags around its thinking, and its end

Row = dict[str, Any]
Steps = Callable[[Row], list[Row]]  # returns the steps to grade in a problem's row
Populations = dict[tuple[int, int], Population]  # by the problem's index and the step
Finish = Callable[[Sequence[Path], Row], tuple[str, dict[str, Path]]]
STEPS: dict[str, Steps] = {"last": lambda row: row["steps"][-1:], "all": lambda row: row["steps"]}


def of_results(path: Path, steps: Steps, is_qed: bool = False) -> Source:
    """Return the proofs of results in the chosen `steps`. Merged runs are graded one by one and
    merged again. `is_qed` also writes lines in the shape of QED-Nano's evaluation. Raises
    UserError."""
    if is_qed:
        lines.place(lines.stem_of(path))
    head = read.read(path)[0]
    paths = [path]
    if runs := head.runs:
        paths = [path.parent / runs.of / f"{runs.of}-seed{seed}.json" for seed in runs.seeds]

    def finish(paths: Sequence[Path], about: Row) -> tuple[str, dict[str, Path]]:
        new = paths[0]
        if runs:
            new = merge(
                paths, head.experiment, path.parent, runs.by, head.complete, {"grading": about}
            )[0]
        graded, problems = read.read(new)
        proofs = graded.document["metrics"]["proofs"]
        table = tables.points_table(proofs) if proofs else final(graded.document, [*problems])
        return table, {"graded": new} | ({"lines": lines.export(new)} if is_qed else {})

    return _source(head.experiment, paths, steps, finish)


def of_comparison(folder: Path, all_steps: bool) -> Source:
    """Return the proofs of the comparison in `folder`: all, or those that count at one of its
    budgets. Raises UserError if it can't be read, or if it compares answers."""
    matched = compared_in(folder)
    if not matched.of_proofs:
        raise UserError(
            f"{folder.name} compares answers, which are graded already. Name a comparison of proofs"
        )

    def wanted(row: Row) -> list[Row]:
        counted = counting(
            [convert(step, StepResult) for step in row["steps"]], matched.budgets, matched.meter
        )
        return [step for step in row["steps"] if step["step"] in counted]

    paths = [path for paths in matched.paths().values() for path in paths]
    steps = STEPS["all"] if all_steps else wanted
    return _source(
        folder.name, paths, steps, lambda paths, about: (matched.show(), {"graded": folder})
    )


def _source(name: str, paths: Sequence[Path], steps: Steps, finish: Finish) -> Source:
    """Return the proofs of runs in the files `paths`. `finish` gets the new files and the grading's
    description."""
    runs: list[tuple[StoredRun, Populations]] = []
    for kept in map(StoredRun, paths):
        with archive(kept.path, kept.head["experiment"]) as journals:
            chosen = [(place, step) for place, row in enumerate(kept.rows) for step in steps(row)]
            runs.append(
                (
                    kept,
                    {
                        (place, step["step"]): kept.population(journals, step)
                        for place, step in chosen
                    },
                )
            )

    def write(
        points: Sequence[Points], about: Row, prices: Prices | None
    ) -> tuple[str, dict[str, Path]]:
        given = iter(points)  # in the order of the items

        def save(kept: StoredRun, populations: Populations) -> Path:
            def remade(place: int, step: Row) -> Row:
                if (population := populations.get((place, step["step"]))) is None:
                    return step
                own = [*islice(given, len(population))]
                return _record(step["step"], kept.problems[place], population, own, prices)

            return kept.save(remade, grader=GRADER, grading=about)[0]

        return finish([save(*run) for run in runs], about)

    items = [
        Item(kept.problems[place], member.completion)
        for kept, populations in runs
        for (place, _), population in populations.items()
        for member in population
    ]
    return Source(name, journals.folder, items, write)


def _record(
    step: int,
    problem: Problem,
    population: Population,
    points: Sequence[Points],
    prices: Prices | None,
) -> Row:
    """Return a population's record with its points. If an answer in doubt has a grader's points,
    they decide."""
    if problem.is_proof:
        known = [each.points_share for each in points if each.points_share is not None]
        grades = [
            Grade(each.points_share, doubt=each.ungraded, side_calls=tuple(each.calls))
            for each in points
        ]
        graded = Graded(grades, sum(known) / len(known) if known else None)
    else:
        graded = grade_answers(problem, population)
        for place, each in enumerate(points):
            if each.by == BY_GRADER and each.grade is not None:
                value = float(each.grade == MAX_POINTS)
                graded.grades[place] = replace(
                    graded.grades[place],
                    value=value,
                    is_undecided=False,
                    side_calls=tuple(each.calls),
                )
    record: Row = records.record(step, population, graded)
    for member, own, each in zip(record["members"], population, points, strict=True):
        member |= _fields(problem, each, prices)
        if problem.is_proof:
            member["written"] = written(own.completion)
    return record


def written(proof: Completion) -> dict[str, int | None]:
    """Split a completion's tokens into thinking and proof, by their shares of the characters. None
    means unknown."""
    tokens = proof.counted[-1]
    texts = proof.thinking, proof.text
    # A reply with more tokens than bytes comes from a server that hides the thinking.
    if tokens is None or tokens > SPECIAL + sum(
        len(text.encode("utf-8", "surrogatepass")) for text in texts
    ):
        return {"thinking": None, "answer": None}
    thinking, answer = map(len, texts)
    of_thinking = round(tokens * thinking / (thinking + answer)) if thinking else 0
    return {"thinking": of_thinking, "answer": tokens - of_thinking}


def _fields(problem: Problem, points: Points, prices: Prices | None) -> Row:
    """Return a graded member's new fields. An answer has no `grade` and no `points_share`, because
    it is right or wrong. Only a grader's gradings are stored."""
    found = fields(points, prices)
    always = {"grade", "points_share"} if problem.is_proof else set()
    if points.gradings and points.by == BY_GRADER:
        always |= {"grades", "spread", "reasons", "scheme", "grade_cost"}
    if_any = ("ungraded", "graded_by", "self_evaluation_left_out")
    return {
        name: value for name, value in found.items() if name in always or (name in if_any and value)
    }
