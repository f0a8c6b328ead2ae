"""A trial of a grader: it grades proofs that people have graded, in several ways and under attack.

All that is asked goes through asking.py, as in any grading.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core import constants
from core.base import terminal
from core.base.files import results_dir, write_atomically
from core.constants import constant
from core.engines.server import Server
from core.plan.work import Task
from core.report import plot
from core.report.tables import title
from core.results import provenance, write
from core.scaffolds.prompts import prompts_sha256
from core.session import session
from core.session.session import Session
from labs.proofs import graded, plan, rubric
from labs.proofs.attacks import ATTACKS
from labs.proofs.grade import told, trust
from labs.proofs.grade.asking import GraderConstants, checked, grade_all
from labs.proofs.grade.command import graders_server
from labs.proofs.grade.ways import Way, attacks_of, prompts_of, ways_of
from labs.proofs.graded import GradedSet
from labs.proofs.proofs import Points

AUTO = "auto"
SCHEMA = 1  # of the file that is written (docs/files.md)


@dataclass(frozen=True, kw_only=True)
class TrialConstants(GraderConstants):
    GRADED: str = constant(
        AUTO, "proofs with people's points: \"auto\" (the model's own), a name, hub:owner/name, a file"
    )
    PROMPTS: str = constant(
        AUTO, '"auto": guidelines, alone and scheme, where the set can fill them; or names and files'
    )
    ATTACKS: str = constant(
        "all", '"all", "none", or some of score, praise, instruction, fence; under the first prompt'
    )
    LIMIT: int = constant(0, "first problems of the set only, with all their proofs; 0 is all", 0, 1_000_000, free=True)


TRIAL = Task(TrialConstants, plan.trial)


def try_grader(trial: Task[TrialConstants], namespace: Mapping[str, Any]) -> None:
    """Run the trial whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends the
    process as core.session.run.run does."""
    instead = "what is graded are the proofs of GRADED=…"
    with session.command(trial.constants, namespace, instead) as (name, config, stop):
        prompts, attacks = prompts_of(config.PROMPTS), attacks_of(config.ATTACKS)
        folder, started = results_dir(), write.now()
        named = graded.load(config.GRADED).first(config.LIMIT) if config.GRADED != AUTO else None
        if named:
            ways_of(named, prompts, attacks)  # what can't be asked is said before a server starts
        with graders_server(config) as server:
            chosen = named or graded.load(server.card.graded_set).first(config.LIMIT)
            ways, left_out = ways_of(chosen, prompts, attacks)
            totals = [checked(way, config, way.prompt) for way in ways]
            line = _opening(name, server, chosen, ways, totals)
            with session.open(name, config, stop, folder, server, opening=line) as opened:
                points = opened.asked(_grade(ways, totals, opened), "what is graded is kept")
            document = _document(name, config, server, chosen, list(zip(ways, points, strict=True)))
            document |= {"started": started, "ended": write.now(), "left_out": left_out}
            document |= {} if opened.spent is None else {"spent": opened.spent}
            _show(document, ways[0], folder / name / f"{_plain(chosen.name)}.{_plain(server.model)}.json", opened.made)


async def _grade(ways: Sequence[Way], totals: Sequence[int], opened: Session[TrialConstants]) -> list[list[Points]]:
    """The points of every proof, way by way."""
    return [await grade_all(way, way.prompt, total, opened) for way, total in zip(ways, totals, strict=True)]


def _show(document: dict[str, Any], first: Way, path: Path, made: int) -> None:
    """Write the document and its figure, and print its tables. `made`: completions that were made for it."""
    _save(document, path)
    print(f"\n{terminal.wrapped(title(document))}\n\n{told.told(document)}\n")
    figure = path.with_suffix(".png")
    plot.points(document, first.key, _table(document, first), figure)
    print(f"{made:,} completions were made, the others came from the journal")
    print(f"results {path}\nfigure  {figure}", flush=True)


def _opening(name: str, server: Server, chosen: GradedSet, ways: Sequence[Way], totals: Sequence[int]) -> str:
    return (
        f"{name}: {server.model} grades {len(chosen.proofs):,} proofs of {chosen.problems:,} problems of {chosen.name} "
        f"in {len(ways)} ways, {sum(totals):,} gradings at most; engine {server.kind} at {server.base_url} because "
        f"{server.why}"
    )


def _document(
    name: str,
    config: TrialConstants,
    server: Server,
    chosen: GradedSet,
    made: Sequence[tuple[Way, Sequence[Points]]],
) -> dict[str, Any]:
    """All but the times."""
    prices = server.card.price
    plain, before = made[0]
    return {
        "schema": SCHEMA,
        "experiment": name,
        "complete": True,
        "model": server.model_info(),
        "engine": {"kind": server.kind, "version": server.version, "origin": server.origin, "why": server.why},
        "problem_set": {
            "name": chosen.name,
            "n": chosen.problems,
            "proofs": len(chosen.proofs),
            "sha256": chosen.sha256,
            "source": chosen.source,
            "licence": chosen.licence,
            "version": chosen.version,
            "revision": chosen.revision,
        },
        "config": {each: getattr(config, each) for each in constants.rules(TrialConstants)},
        "provenance": provenance.collect(),
        "prompts": {way.prompt.name: prompts_sha256([way.prompt.text, rubric.ENDING]) for way, _ in made},
        "attack_texts": {way.attack: ATTACKS[way.attack] for way, _ in made if way.attack},
        **({"prices": asdict(prices)} if prices else {}),
        "people": trust.people(chosen.proofs),
        "ways": [trust.figures(way, points, prices) for way, points in made],
        "attacks": [trust.moved(plain, before, way, points) for way, points in made if way.attack],
        "proofs": trust.raw(chosen.proofs, made),
    }


def _table(document: Mapping[str, Any], way: Way) -> list[list[int]]:
    """How many proofs got so many points of people (rows) and of the grader (columns)."""
    table = [[0] * 8 for _ in range(8)]
    for proof in document["proofs"]:
        if (given := proof["ways"][way.key]["points"]) is not None:
            table[proof["human"]][int(given + 0.5)] += 1
    return table


def _save(document: Mapping[str, Any], path: Path) -> None:
    """The document, a proof a line."""
    head = {name: value for name, value in document.items() if name != "proofs"}
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=True)}" for row in document["proofs"])
    write_atomically(
        path, f'{json.dumps(head, indent=1, ensure_ascii=True)[:-2]},\n "proofs": [\n{rows}\n ]\n}}\n'.encode()
    )


def _plain(name: str) -> str:
    """A name as part of that of a file."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
