"""Grade stored results again, without a server: `bash scripts/regrade.sh 02_rsa_basic`.

The completions come from the journal, and do not change. All answers, grades and votes are computed
again. A complete old file is kept under another name, and a partial one is replaced."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError, command, one_line
from core.base.files import checked_amount, results_dir
from core.base.terminal import heartbeat
from core.client.journal import Archive
from core.constants import BOXED, WAYS, Rule
from core.eval import by_answer, grade_answers
from core.types import (
    SCORER,
    Completion,
    Member,
    NamedPopulation,
    Population,
    Problem,
    ScorerCompletion,
)
from harness.report import run_table, tables
from harness.results import read, records, warnings, write
from harness.results.find import archive, path_of
from harness.results.metrics import of_rows
from harness.results.scorer import prices_in
from harness.results.server_warnings import COUNTS

CONTINUATIONS = ("not_forced", "not_waited")  # fields with the reason why a reply was not continued
SHOWN = 20  # the most changes to print

# location (problem, step, member), old answer and grade, new answer and grade
Change = tuple[str, str, str]


class StoredRun:
    """The stored results of one run. `head` is the document without its problems. `rows` are the
    problems in JSON, and `problems` are the same problems as Problem objects."""

    def __init__(self, path: Path, way: str = "") -> None:
        """Read the results file `path`. `way` replaces the way in which the run read answers ("":
        the same way). Raises UserError if the file can't be read or contains several runs."""
        self.path = path
        checked, self.head, pairs = read.read_raw(path)
        if checked.runs:
            count = len(checked.runs.seeds)
            raise UserError(
                f"{path.name} contains {count} runs. Regrade each run, then merge them "
                "(scripts/merge.sh)"
            )
        self.rows = [row for row, _ in pairs]
        with read.refusing(path):
            config = dict(self.head["config"])
            if way:
                config["ANSWER"] = way
            if config.get("ANSWER") == BOXED:
                del config["ANSWER"]
            self.head = self.head | {"config": config}
            form = config.get("ANSWER", BOXED)
            self.problems = [_problem_of(row, form) for row in self.rows]

    def population(self, journals: Archive, step: dict[str, Any]) -> Population:
        """Return the population of a `step`. Raises UserError if the journals lack a valid record
        of a completion."""
        members = []
        for m in step["members"]:
            member = Member(
                self._completion(journals, m),
                m["parents"],
                m.get("self_score"),
                m.get("verdicts"),
                [self._completion(journals, call) for call in m.get("side_calls", [])],
                m.get("carried_over", False),
                m.get("notes", []),
            )
            members.append(member)
        if "stage" in step:
            return NamedPopulation(step["stage"], members, step.get("partial", False))
        return members

    def _completion(self, journals: Archive, cost: dict[str, Any]) -> Completion:
        """Return the completion of the record `cost` from the journals, which lack failures. So a
        failure, or the failure of a continuation, comes from the record."""
        completion = journals.get(cost["key"])
        if completion:
            if completion.forced is None:
                failures = {name: cost[name] for name in CONTINUATIONS if name in cost}
                completion = replace(completion, **failures)
        elif "error" in cost:
            completion = Completion(
                cost["key"], cost.get("seed", 0), seconds=cost["seconds"], error=cost["error"]
            )
        else:
            raise UserError(
                f"{self.path.name} contains completions of which no journal has a valid record, "
                f"such as {cost['key']}. Copy the run's journal to {journals.folder}, or run the "
                "experiment again"
            )
        if cost.get("by") == SCORER:
            return ScorerCompletion(**vars(completion))
        return completion

    def save(
        self, regrade_step: Callable[[int, dict[str, Any]], dict[str, Any]], **more: Any
    ) -> tuple[Path, dict[str, Any]]:
        """Compute new steps and metrics, and save them with write.save, which keeps a complete old
        file. `regrade_step(number, step)` returns the new step of the problem with this number.
        `more` adds fields to the document. Returns the path and the document."""
        head = self.head
        rows = []
        for number, row in enumerate(self.rows):
            steps = [regrade_step(number, step) for step in row["steps"]]
            rows.append(row | {"steps": steps})
        figures = of_rows(
            [rows], prices=prices_in(head), scorer_prices=prices_in(head.get("scorer", {}))
        )
        before = head["metrics"]
        figures.missing_answers.quote = before.get("unstated", {}).get("quote", "")
        metrics = figures.metrics(checked_amount(before["seconds"])) | _counts_in(before)
        if "scorer" in metrics:
            metrics["scorer"] |= _counts_in(before.get("scorer", {}))
        document = head | {"metrics": metrics} | more
        document["warnings"] = warnings.of_run(document, figures.commonest_error)
        return write.save(document, map(write.stored, rows), self.path.parent), document


def regrade(path: Path, way: str = "") -> tuple[Path, dict[str, Any], dict[str, Any], list[Change]]:
    """Compare the answers in `path` with the reference answers again. `way` may be another value of
    ANSWER. Returns the path of the new file, the old and the new document (without problems), and
    the changes. Raises UserError if the file can't be read, if by_answer did not grade it, or if
    the journals lack a completion."""
    stored = StoredRun(path, way)
    changes: list[Change] = []
    grader = stored.head.get("grader")
    if grader != by_answer.__name__:
        raise UserError(
            f"{path.name} was graded by {grader!r:.60}, not by {by_answer.__name__}. Grade proofs "
            "with scripts/grade.sh, or run the experiment again, which reuses its completions"
        )
    with archive(path, stored.head["experiment"]) as journals:

        def regrade_step(number: int, step: dict[str, Any]) -> dict[str, Any]:
            problem = stored.problems[number]
            population = stored.population(journals, step)
            graded = grade_answers(problem, population)
            record = records.record(step["step"], population, graded)
            changes.extend(_changes(problem, step, record))
            return record

        new, document = stored.save(regrade_step, regraded=write.now())
    return new, stored.head, document, changes


def _problem_of(row: dict[str, Any], form: str) -> Problem:
    """Return a stored problem, whose answers are read in the given form."""
    texts = {name: row.get(name, "") for name in write.GRADED_BY}
    return Problem(
        row["id"],
        row["statement"],
        row["answer"],
        row["answer_type"],
        columns=row.get("columns", {}),
        details=row.get("details", {}),
        answer_form=form,
        **texts,
    )


def _counts_in(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of stored metrics that a regrading does not change."""
    return {name: metrics[name] for name in (*COUNTS, "spent") if name in metrics}


def _changes(problem: Problem, before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Return the changed answers and grades of a step's members and vote."""
    changes = []
    step_name = f"{problem.id}, t={before['step']}"
    members = zip(before["members"], after["members"], strict=True)
    for number, (old, new) in enumerate(members):
        if _reading(old) != _reading(new):
            name = f"{step_name}, member {number}"
            changes.append((name, _words(*_reading(old)), _words(*_reading(new))))
    old_vote = (before["majority_answer"], before["majority_correct"], None)
    new_vote = (after["majority_answer"], after["majority_correct"], None)
    if old_vote != new_vote:
        changes.append((f"{step_name}, vote", _words(*old_vote), _words(*new_vote)))
    return changes


def _reading(member: dict[str, Any]) -> tuple[str | None, float | None, str | None]:
    grade = member.get("grade", member["correct"])
    return member["answer"], grade, member["doubt"]


def _words(answer: str | None, value: float | None, doubt: str | None) -> str:
    if value is None:
        grade = "ungraded"
    elif value == 1:
        grade = "right"
    elif value == 0:
        grade = "wrong"
    else:
        grade = f"score {value:.3g}"
    if doubt:
        grade += f", {doubt}"
    text = "no answer" if answer is None else one_line(answer, 40)
    return f"{text} ({grade})"


def _way_of(argv: Sequence[str]) -> str:
    """Return the value of the last ANSWER=…, or "" if there is none. Raises UserError for other
    words."""
    is_named = bool(argv) and not argv[0].startswith("-")
    words = argv[1:]
    if not is_named or any(not word.startswith("ANSWER=") for word in words):
        raise UserError(
            "give a name of results (such as 02_rsa_basic) or the path of a .json file. "
            "ANSWER=text after it reads answers in another way"
        )
    if not words:
        return ""
    return str(Rule("", str, choices=WAYS).read("ANSWER", words[-1].partition("=")[2]))


def main(argv: Sequence[str]) -> None:
    with command():
        way = _way_of(argv)
        with heartbeat(f"grading {argv[0]} again"):
            path, before, after, changes = regrade(path_of(argv[0], results_dir()), way)
        old = run_table.steps_table(before).body()
        new = run_table.steps_table(after).body()
        print(f"{tables.title(before)}\n\nold grades\n{old}\n\nnew grades\n{new}\n")
        for location, old_words, new_words in changes[:SHOWN]:
            print(f"{location}: {old_words} -> {new_words}")
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
