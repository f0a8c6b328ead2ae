"""Grade proofs by a model, from results, a comparison, or any lines of JSON that have the columns.

Results of proofs (or of answers, of which the grader is asked for what math-verify leaves in doubt) get their grades,
the file as it was stays beside them; of FILE.jsonl, FILE.graded.jsonl is made. The same command again asks for nothing
that is graded. Settings of servers stand before the command, as for a run.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from core import constants
from core.base import terminal
from core.base.errors import UserError, command
from core.base.files import results_dir
from core.base.signals import Stop
from core.engines.server import Server
from core.results import write
from core.results.find import comparison, path_of
from core.scaffolds.prompts import prompts_sha256
from labs.proofs import rubric
from labs.proofs.grade import figures
from labs.proofs.grade.asking import GradeConstants, Source, checked, grade_all
from labs.proofs.grade.compared import Compared
from labs.proofs.grade.door import asked, graders_server
from labs.proofs.grade.lines import Lines
from labs.proofs.grade.stored import Stored, every, last

USAGE = "give the name of results, or a .jsonl file: bash scripts/grade.sh NAME|FILE.jsonl GRADER=card"


def main(argv: Sequence[str]) -> None:
    with command():
        if constants.asks_for_help(argv):
            return print(constants.explained(GradeConstants, {"__doc__": __doc__}))
        if not argv or "=" in argv[0] or argv[0].startswith("-"):
            raise UserError(USAGE)
        if given := [word for word in argv[1:] if word.startswith(("PROBLEMS=", "LIMIT="))]:
            raise UserError(f"{given[0]:.60} says nothing here: what is graded stands in the file")
        stop = Stop()
        config = constants.read(GradeConstants, {}, argv[1:])
        chosen = rubric.prompt(config.PROMPT)
        source = source_of(argv[0], config)
        total = checked(source, config, chosen)
        with graders_server(config) as server:
            grade(source, config, chosen, server, total, stop)


def source_of(name: str, config: GradeConstants) -> Source:
    """Where the proofs are. Raises UserError."""
    folder = results_dir()
    if name.endswith(".jsonl"):
        return Lines(Path(name).expanduser(), folder / "journal")
    is_all = config.STEPS == "all"
    if compared := comparison([name], folder):
        return Compared(compared, is_all)
    return Stored(path_of(name, folder), every if is_all else last)


def grade(
    source: Source, config: GradeConstants, chosen: rubric.Prompt | None, server: Server, total: int, stop: Stop
) -> None:
    """Grade everything, write it and print what it comes to. Raises UserError; stopped, ends with status 130."""
    prompt = chosen.name if chosen else "what fits each problem"
    print(
        terminal.wrapped(
            f"grading {source.name}: {total:,} gradings at most by {server.model}, prompt {prompt}, engine "
            f"{server.kind} at {server.base_url} because {server.why}"
        ),
        flush=True,
    )
    answers = asked(
        lambda journal, budget: grade_all(source, config, chosen, server, journal, budget, total, stop.cancelling),
        source.folder / f"{source.name}.grading.jsonl",
        source.name,
        config,
        server,
        "what is graded",
    )
    points, spent = answers.results, answers.spent
    prices = server.card.price
    result = figures.figures(source.items(), points, prices)
    templates = [chosen.text] if chosen else rubric.FITTING
    about = {
        "ended": write.now(),
        "model": server.model_info(),
        "engine": {"kind": server.kind, "version": server.version, "origin": server.origin},
        "prompt": chosen.name if chosen else None,
        "prompts_sha256": prompts_sha256([*templates, rubric.ENDING]),
        "config": {name: getattr(config, name) for name in constants.rules(GradeConstants)},
        **result,
        **({} if spent is None else {"spent": spent}),
    }
    path, worth = source.write(points, about, prices)
    print(f"\n{worth}\n" if worth else "")
    for line in figures.told(result):
        print(terminal.wrapped(line, "  "))
    if card := server.card.note:
        print(terminal.wrapped(f"note: {card}", "  "))
    print(f"{answers.made:,} completions were made, the others came from the journal")
    print(f"graded  {path}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
