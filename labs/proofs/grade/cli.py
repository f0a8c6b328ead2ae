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
from core.base.files import results_dir
from core.results import write
from core.results.find import comparison, path_of
from core.scaffolds.prompts import prompts_sha256
from core.session import session
from core.session.session import Session
from labs.proofs import rubric
from labs.proofs.grade import figures
from labs.proofs.grade.asking import GradeConstants, Source, checked, grade_all
from labs.proofs.grade.command import graders_server, on_file
from labs.proofs.grade.compared import Compared
from labs.proofs.grade.lines import Lines
from labs.proofs.grade.stored import Stored, every, last
from labs.proofs.proofs import Points

USAGE = "give the name of results, or a .jsonl file: bash scripts/grade.sh NAME|FILE.jsonl GRADER=card"


def main(argv: Sequence[str]) -> None:
    why = "what is graded stands in the file"
    with on_file(GradeConstants, argv, str(__doc__), USAGE, ("PROBLEMS=", "LIMIT="), why) as (config, stop):
        chosen = rubric.prompt(config.PROMPT)
        source = source_of(argv[0], config)
        total = checked(source, config, chosen)
        with graders_server(config) as server:
            name, folder, prompt = source.name, source.folder, chosen.name if chosen else "what fits each problem"
            line = (
                f"grading {name}: {total:,} gradings at most by {server.model}, prompt {prompt}, engine {server.kind} "
                f"at {server.base_url} because {server.why}"
            )
            path = folder / f"{name}.grading.jsonl"
            with session.open(name, config, stop, folder, server, opening=line, journal=path) as opened:
                points = opened.asked(grade_all(source, chosen, total, opened), "what is graded is kept")
            write_grades(source, chosen, points, opened)


def source_of(name: str, config: GradeConstants) -> Source:
    """Where the proofs are. Raises UserError."""
    folder = results_dir()
    if name.endswith(".jsonl"):
        return Lines(Path(name).expanduser(), folder / "journal")
    is_all = config.STEPS == "all"
    if compared := comparison([name], folder):
        return Compared(compared, is_all)
    return Stored(path_of(name, folder), every if is_all else last)


def write_grades(
    source: Source, chosen: rubric.Prompt | None, points: Sequence[Points], opened: Session[GradeConstants]
) -> None:
    """Write the points of all proofs and print their figures. Raises UserError."""
    server, config = opened.server, opened.config
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
        **({} if opened.spent is None else {"spent": opened.spent}),
    }
    path, worth = source.write(points, about, prices)
    print(f"\n{worth}\n" if worth else "")
    for line in figures.told(result):
        print(terminal.wrapped(line, "  "))
    if card := server.card.note:
        print(terminal.wrapped(f"note: {card}", "  "))
    print(f"{opened.made:,} completions were made, the others came from the journal")
    print(f"graded  {path}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
