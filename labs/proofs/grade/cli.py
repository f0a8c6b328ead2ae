"""Let a model grade proofs. The proofs come from results, from a comparison or from a .jsonl file.
Usage: bash scripts/grade.sh NAME|FILE.jsonl GRADER=card (docs/proofs.md). Put server settings
before the command."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base import terminal
from core.base.errors import UserError
from core.base.files import results_dir
from core.base.prices import Prices
from core.constants import constant
from core.engines.cards import Card
from core.prompts import prompts_sha256
from core.types import MAX_POINTS
from harness.plan.work import Task, Work
from harness.report import tables
from harness.results import write
from harness.results.find import comparison, path_of
from harness.session import session
from harness.session.session import Session
from labs.proofs import rubric
from labs.proofs.grade import asking, lines, stored
from labs.proofs.grade.asking import GraderConstants, Item, Source, checked, grade_all, took
from labs.proofs.grade.lines import QED, SHAPES
from labs.proofs.grade.stored import STEPS
from labs.proofs.proofs import BY_MATH_VERIFY, Points, counts, distinct

USAGE = (
    "name results, a comparison or a .jsonl file: bash scripts/grade.sh NAME|FILE.jsonl GRADER=card"
)


class GradeConstants(GraderConstants):
    """The constants of grade.sh."""

    PROMPT: str = constant(
        "",
        (
            "guidelines, alone, scheme or the path of a file with {problem} and {proof} (default: "
            "chosen by problem)"
        ),
    )
    STEPS: str = constant(
        "last",
        (
            "steps to grade (in a comparison, last means the steps whose populations count at a "
            "budget)"
        ),
        choices=tuple(STEPS),
    )
    SHAPE: str = constant(
        "ours", "shape of graded lines: ours, or QED-Nano's (qed)", choices=SHAPES, free=True
    )


def main(argv: Sequence[str]) -> None:
    """Grade the proofs that `argv[0]` names, and write the grades. The other arguments are
    constants."""
    with asking.on_file(GradeConstants, argv, str(__doc__), USAGE) as config:
        chosen = rubric.read_prompt(config.PROMPT)
        source = source_of(argv[0], config)
        total = checked(source.name, source.items, config, chosen)
        with asking.graders_server(config) as server:
            rows = [
                (
                    "grader",
                    (
                        f"{server.model}, prompt "
                        f"{chosen.name if chosen else 'chosen for each problem'}"
                    ),
                ),
                ("engine", server.choice),
                ("plan", f"at most {total:,} gradings"),
                *_general(source.items, chosen),
            ]
            path = source.folder / f"{source.name}.grading.jsonl"
            with session.open_session(
                source.name, config, source.folder, server, rows=rows, journal=path
            ) as opened:
                work = grade_all(source.name, source.items, chosen, opened)
                points = opened.run_until_stopped(work, "gradings so far are kept")
            write_grades(source, chosen, points, opened)


def _general(items: Sequence[Item], chosen: rubric.Prompt | None) -> list[tuple[str, str]]:
    """Return the opening row about problems that the general rubric grades, if there are any."""
    ids = {item.problem.id for item in items if rubric.uses_general(item.problem, chosen)}
    where = f"for {len(ids):,} problem{'s' * (len(ids) > 1)} without guidelines"
    return [("rubric", f"the general rubric of {MAX_POINTS} points, {where}")] if ids else []


def planned(words: Sequence[str]) -> tuple[str, Task[GradeConstants], list[str]]:
    """Return the command's name, its task and its constants for plan.sh. `words` are the words
    after "grade"."""
    if not words or "=" in words[0]:
        raise UserError(
            "name the proofs to grade: bash scripts/plan.sh grade NAME|FILE.jsonl GRADER=card"
        )

    def work(config: GradeConstants, card: Card) -> Work:
        source = source_of(words[0], config)
        count = checked(source.name, source.items, config, rubric.read_prompt(config.PROMPT))
        return Work(f"the proofs of {source.name}", (asking.planned(count, source.items, config),))

    return (
        f"grade {words[0]}",
        Task(GradeConstants, work),
        asking.with_card(GradeConstants, words[1:]),
    )


def source_of(name: str, config: GradeConstants) -> Source:
    """Return the proofs in a .jsonl file, a comparison or results. Raises UserError if they can't
    be read."""
    folder, is_qed = results_dir(), config.SHAPE == QED
    if name.endswith(".jsonl"):
        return lines.source(Path(name).expanduser(), folder / "journal", is_qed)
    if Path(name).suffix in (".csv", ".tsv", ".parquet"):
        raise UserError(
            f"{name} can't be graded. Convert it to a .jsonl file, with a proof in each line"
        )
    if compared := comparison([name], folder):
        if is_qed:
            raise UserError(
                f"SHAPE=qed writes one file, but {name} is a comparison. Name results or FILE.jsonl"
            )
        return stored.of_comparison(compared, config.STEPS == "all")
    return stored.of_results(path_of(name, folder), STEPS[config.STEPS], is_qed)


def write_grades(
    source: Source,
    chosen: rubric.Prompt | None,
    points: Sequence[Points],
    opened: Session[GradeConstants],
) -> None:
    """Write the points of all proofs and print their figures. Raises UserError."""
    server, prices = opened.server, opened.server.card.price
    result = figures_of(source.items, points, prices)
    templates = rubric.templates([item.problem for item in source.items], chosen)
    about = {
        "ended": write.now(),
        "model": server.model_info(),
        "engine": {"kind": server.kind, "version": server.version, "origin": server.origin},
        "prompt": chosen.name if chosen else None,
        "prompts_sha256": prompts_sha256(templates),
        "config": asking.recorded(opened.config, {"SHAPE"}),
        **result,
        **({} if opened.spent is None else {"spent": opened.spent}),
    }
    table, files = source.write(points, about, prices)
    print(f"\n{table}\n" if table else "")
    note = [f"note: {server.card.note}"] if server.card.note else []
    for line in [*described(result), *note]:
        print(terminal.wrapped(line, "  "))
    print(f"{opened.new:,} new completions. All other completions came from the journal")
    for label, path in files.items():
        print(f"{label:8}{path}", flush=True)


def figures_of(
    items: Sequence[Item], points: Sequence[Points], prices: Prices | None
) -> dict[str, Any]:
    """Return the counts of a grading, and the mean spread. `points` are the results for the proofs
    `items`."""
    spreads = [each.spread for each in distinct(points) if each.spread is not None]
    return {
        **counts(points, prices),
        "problems": len({item.problem.id for item in items}),
        "by_math_verify": sum(each.by == BY_MATH_VERIFY for each in points),
        "self_evaluations": sum(each.left_out > 0 for each in points),
        "spread": sum(spreads) / len(spreads) if spreads else None,
    }


def described(of: dict[str, Any]) -> list[str]:
    """Return the lines of text that describe the result of `figures_of`."""
    lines = [
        f"{of['graded']:,} of {of['proofs']:,} proofs of {of['problems']:,} problems have a grade"
    ]
    lines += tables.lines_on_missing_grades(of)
    if of["by_math_verify"]:
        lines.append(f"answers that were decided without the grader: {of['by_math_verify']:,}")
    if of["self_evaluations"]:
        lines.append(
            f"proofs whose self-evaluation was hidden from the grader: {of['self_evaluations']:,}"
        )
    if of["spread"] is not None:
        lines.append(f"mean standard deviation of a proof's gradings: {of['spread']:.2f} points")
    missing = of["missing_gradings"]
    bad = (
        f", {sum(missing.values()):,} of them missing ({tables.listed(missing)})" if missing else ""
    )
    lines.append(f"{of['gradings']:,} gradings{bad}, {of['asked_again']:,} retries, {took(of)}")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
