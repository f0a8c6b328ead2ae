"""Grade stored results again, without a server: `bash scripts/regrade.sh 02_rsa_basic`.

The completions come from the journal, and do not change. All answers, grades and votes are computed
again. A complete old file is kept under another name, and a partial one is replaced."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError, command
from core.base.files import amount, results_dir
from core.base.prices import Prices
from core.client.journal import Archive
from core.constants import BOXED, WAYS, Rule
from core.eval import by_answer, grade_answers
from core.types import Completion, Member, Population, Problem, Stage
from harness.report import run_table, tables
from harness.results import read, records, warnings, write
from harness.results.find import archive, path_of
from harness.results.metrics import of_rows

CONTINUATIONS = ("not_forced", "not_waited")  # fields with the reason why a reply was not continued
SHOWN = 20  # the most changes to print

# place (problem, step, member), old answer and grade, new answer and grade
Change = tuple[str, str, str]


class Kept:
    """The stored results of one run. `head` is the document without its problems. `rows` are the
    problems in JSON, and `problems` are the same problems as Problem objects."""

    def __init__(self, path: Path, way: str = "") -> None:
        """Read the results file `path`. `way` replaces the way in which the run read answers ("":
        the same way). Raises UserError if the file can't be read or contains several runs."""
        self.path = path
        whole, self.head, both = read.read_raw(path)
        if whole.runs:
            count = len(whole.runs.seeds)
            raise UserError(
                f"{path.name} contains {count} runs. Regrade each run, then merge them "
                "(scripts/merge.sh)"
            )
        self.rows = [row for row, _ in both]
        with read.refusing(path):
            config = self.head["config"] | ({"ANSWER": way} if way else {})
            if config.get("ANSWER") == BOXED:
                del config["ANSWER"]
            self.head = self.head | {"config": config}
            self.problems = [
                Problem(
                    **{name: row[name] for name in ("id", "statement", "answer", "answer_type")},
                    **{name: row.get(name, "") for name in write.GRADED_BY},
                    columns=row.get("columns", {}),
                    way=config.get("ANSWER", BOXED),
                )
                for row in self.rows
            ]

    def population(self, journals: Archive, step: dict[str, Any]) -> Population:
        """Return the population of a `step`. Raises UserError if the journals lack a valid record
        of a completion."""
        members = []
        for m in step["members"]:
            own, *checks = (self._completion(journals, cost) for cost in (m, *m.get("checks", [])))
            more = (
                m.get("score"),
                m.get("verdicts"),
                checks,
                m.get("again", False),
                m.get("notes", []),
            )
            members.append(Member(own, m["parents"], *more))
        return (
            Stage(step["stage"], members, step.get("partial", False))
            if "stage" in step
            else members
        )

    def _completion(self, journals: Archive, cost: dict[str, Any]) -> Completion:
        """Return the completion of the record `cost` from the journals, which lack failures. So a
        failure, or the failure of a continuation, comes from the record."""
        if kept := journals.get(cost["key"]):
            failures = {name: cost[name] for name in CONTINUATIONS if name in cost}
            return kept if kept.forced is not None else replace(kept, **failures)
        if "error" in cost:
            return Completion(
                cost["key"], cost.get("seed", 0), seconds=cost["seconds"], error=cost["error"]
            )
        raise UserError(
            f"{self.path.name} contains completions of which no journal has a valid record, such "
            f"as {cost['key']}. Copy the run's journal to {journals.folder}, or run the experiment "
            "again"
        )

    def save(
        self, remade: Callable[[int, dict[str, Any]], dict[str, Any]], **more: Any
    ) -> tuple[Path, dict[str, Any]]:
        """Compute new steps and metrics, and save them with write.save, which keeps a complete old
        file. `remade(place, step)` returns the new step of the problem at index `place`. `more`
        adds fields to the document. Returns the path and the document."""
        head = self.head
        rows = [
            row | {"steps": [remade(place, step) for step in row["steps"]]}
            for place, row in enumerate(self.rows)
        ]
        figures = of_rows([rows], prices=Prices(**head["prices"]) if head.get("prices") else None)
        figures.unstated.quote = head["metrics"].get("unstated", {}).get("quote", "")
        metrics = figures.metrics(amount(head["metrics"]["seconds"]))
        metrics |= {
            name: head["metrics"][name]
            for name in (*warnings.COUNTS, "spent")
            if name in head["metrics"]
        }
        document = head | {"metrics": metrics} | more
        document["warnings"] = warnings.of_run(document, figures.commonest_error)
        return write.save(document, map(write.stored, rows), self.path.parent), document


def regrade(path: Path, way: str = "") -> tuple[Path, dict[str, Any], dict[str, Any], list[Change]]:
    """Compare the answers in `path` with the reference answers again. `way` may be another value of
    ANSWER. Returns the path of the new file, the old and the new document (without problems), and
    the changes. Raises UserError if the file can't be read, if by_answer did not grade it, or if
    the journals lack a completion."""
    kept, changes = Kept(path, way), list[Change]()
    before, name = kept.head.get("grader"), by_answer.__name__
    if before != name:
        raise UserError(
            f"{path.name} was graded by {before!r:.60}, not by {name}. Grade proofs with "
            "scripts/grade.sh, or run the experiment again, which reuses its completions"
        )
    with archive(path, kept.head["experiment"]) as journals:

        def remade(place: int, step: dict[str, Any]) -> dict[str, Any]:
            population = kept.population(journals, step)
            record = records.record(
                step["step"], population, grade_answers(kept.problems[place], population)
            )
            changes.extend(_changes(kept.problems[place], step, record))
            return record

        new, document = kept.save(remade, regraded=write.now())
    return new, kept.head, document, changes


def _changes(problem: Problem, before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    readings = [
        [(m["answer"], m["correct"], m["doubt"]) for m in step["members"]]
        for step in (before, after)
    ]
    votes = ((step["majority_answer"], step["majority_correct"], None) for step in (before, after))
    pairs = [
        *((f"member {i}", *pair) for i, pair in enumerate(zip(*readings, strict=True))),
        ("vote", *votes),
    ]
    place = f"{problem.id}, t={before['step']}"
    return [
        (f"{place}, {name}", _words(*old), _words(*new)) for name, old, new in pairs if old != new
    ]


def _words(answer: str | None, correct: float | None, doubt: str | None) -> str:
    share = "ungraded" if correct is None else f"{correct:.0%} right"
    grade = "right" if correct == 1 else "wrong" if correct == 0 else share
    return (
        f"{'no answer' if answer is None else f'{answer:.40}'} "
        f"({grade}{f', {doubt}' if doubt else ''})"
    )


def main(argv: Sequence[str]) -> None:
    with command():
        if (
            not argv
            or argv[0].startswith("-")
            or any(not word.startswith("ANSWER=") for word in argv[1:])
        ):
            raise UserError(
                "give a name of results (such as 02_rsa_basic) or the path of a .json file. "
                "ANSWER=text after it reads answers in another way"
            )
        way = (
            Rule("", str, choices=WAYS).read("ANSWER", argv[-1].partition("=")[2])
            if argv[1:]
            else ""
        )
        path, before, after, changes = regrade(path_of(argv[0], results_dir()), way)
        old, new = (run_table.steps_table(document).body() for document in (before, after))
        print(f"{tables.title(before)}\n\nold grades\n{old}\n\nnew grades\n{new}\n")
        for where, one, other in changes[:SHOWN]:
            print(f"{where}: {one} -> {other}")
        if len(changes) > SHOWN:
            print(f"… and {len(changes) - SHOWN:,} more")
        count = sum(step["completions"] for step in after["metrics"]["steps"])
        print(
            f"changed answers, grades and votes: {len(changes):,} ({count:,} completions were "
            "graded)"
        )
        print(f"results {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
