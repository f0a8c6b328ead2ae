"""Write and read the outcomes of searches, summarize them as figures, and keep the record of a run.

Each theorem's outcome is one JSON file, which tables, training and resumed runs read. A parquet
file of the same name contains the search tree (trajectories.py).
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar

from msgspec import Struct, structs

from core.base.fields import Amount, Count, fitted
from core.base.files import read_json, write_atomically
from core.base.stats import Paired, mean_by_problem, paired
from core.constants import rules
from harness.report.table import Column, Table
from harness.report.tables import interval, shift
from harness.results import provenance
from harness.results.write import now
from labs.lean import toolchain, trajectories
from labs.lean.constants import LeanConstants
from labs.lean.pairs import Pair
from labs.lean.policy import ASKED
from labs.lean.search import REFUSED, Found
from labs.lean.theorem import Theorem, proof
from labs.lean.toolchain import Toolchain
from labs.training import stages

REMEDY = "Remove the file, and run the same command again"
TABLE, PROOFS = "table.txt", "proofs.json"  # in the folder of a run
# if a baseline's whole interval is below this rate, its proofs are too few to train on
NO_GO = 0.05
MOVE = "Move its folder away, and run the same command again"
# after iteration 0, an insignificant gain whose interval ends below this ends the run
LEAST_GAIN = 0.05
HINT = (
    "Try higher MAX_NODES and CANDIDATES, easier THEOREMS, or a MODEL trained on pairs "
    "(docs/lean.md)"
)
PARTS = ("lean", "policy", "energy", "accept")  # parts of a search's time


class Outcome(Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of a search. `run` is a hash of all inputs except the theorem. `reason`, `why`:
    as in search.Found. `at`: the number of nodes up to the proof's end, or None without a proof.
    `proof`: the proof's tactics. `states`: the state before each tactic. `unique`: the number of
    different tactics that the model proposed in each expanded state. `counts`: the policy's
    requests by result."""

    run: str
    name: str
    statement: str
    reason: str
    why: str
    nodes: Count
    at: Count | None
    proof: list[str]
    states: list[str]
    unique: list[Count]
    failures: dict[str, Count]
    counts: dict[str, Count]
    seconds: dict[str, Amount]

    @classmethod
    def of(cls, run: str, theorem: Theorem, found: Found, counts: Counter[str]) -> "Outcome":
        at = found.path[-1] if found.path else None
        states = [found.nodes[number].state or "" for number in found.path[:-1]]
        seconds = {name: round(value, 3) for name, value in found.seconds.items()}
        failures = dict(sorted(found.failures.items()))
        result = (
            found.reason,
            found.why,
            found.applied,
            at,
            found.tactics,
            states,
            found.unique,
            failures,
        )
        return cls(run, theorem.name, theorem.statement, *result, dict(counts), seconds)

    @property
    def is_proved(self) -> bool:
        return self.at is not None

    @property
    def pairs(self) -> list[Pair]:
        """The pairs of a state and a tactic in the proof."""
        return [Pair(self.name, *each) for each in zip(self.states, self.proof, strict=True)]


def path_of(folder: Path, theorem: str) -> Path:
    return trajectories.part(folder, theorem).with_suffix(".json")


def write(folder: Path, outcome: Outcome) -> None:
    """Write an outcome to its file in `folder`. Raises UserError."""
    write_atomically(
        path_of(folder, outcome.name), json.dumps(structs.asdict(outcome)).encode() + b"\n"
    )


def read(folder: Path, theorem: Theorem, run: str) -> Outcome | None:
    """Read a theorem's outcome in `folder`. Return None if the outcome is missing or has another
    `run` or statement."""
    found = all_in(folder, path_of(folder, theorem.name).name)
    return next(
        (each for each in found if (each.run, each.statement) == (run, theorem.statement)), None
    )


def all_in(folder: Path, files: str = "[!.]*.json") -> list[Outcome]:
    """Read the outcomes of the finished searches in `folder`, by name. Raises UserError if a file
    can't be read."""
    return [
        fitted(
            read_json(path, "the outcome file", REMEDY),
            Outcome,
            f"{path} contains no outcome",
            REMEDY,
        )
        for path in sorted(folder.glob(files))
        if path.with_suffix(".parquet").exists()
    ]


# Figures


def solved(outcomes: Sequence[Outcome], nodes: int) -> list[float]:
    """Return 1 for each theorem proved within the first `nodes` of its search, else 0."""
    return [float(outcome.at is not None and outcome.at <= nodes) for outcome in outcomes]


def figures(outcomes: Sequence[Outcome], budgets: Sequence[int]) -> dict[str, Any]:
    """Return the figures for a record. The field "solved" maps node budgets to solve rates with
    intervals."""
    proved = [outcome for outcome in outcomes if outcome.is_proved]
    unique = [count for outcome in outcomes for count in outcome.unique]
    failures = _added(outcome.failures for outcome in outcomes)
    seconds = _added(outcome.seconds for outcome in outcomes)
    return {
        "theorems": len(outcomes),
        "solved": {
            str(nodes): mean_by_problem(solved(outcomes, nodes)).to_json() for nodes in budgets
        },
        "unique": fmean(unique) if unique else None,
        "proposed": sum(unique),
        "refused": sum(count for why, count in failures.items() if why.startswith(REFUSED)),
        "nodes": sum(outcome.nodes for outcome in outcomes),
        "nodes_to_proof": median(outcome.at or 0 for outcome in proved) if proved else None,
        "seconds_to_proof": median(outcome.seconds["all"] for outcome in proved)
        if proved
        else None,
        "longest_proof": max((len(outcome.proof) for outcome in proved), default=None),
        "reasons": _added({outcome.reason: 1} for outcome in outcomes if outcome.reason),
        "failures": failures,
        "requests": _added(outcome.counts for outcome in outcomes),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
    }


def _added(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total.most_common())


def compared(before: Sequence[Outcome], after: Sequence[Outcome], nodes: int) -> Paired:
    """Return the gain in the solve rate within `nodes`, paired by theorem. Both searched the same
    theorems."""
    return paired(solved(before, nodes), solved(after, nodes))


def gained(gain: dict[str, Any]) -> str:
    """Format a gain from a record: points with their interval, theorems won and lost, and the
    p-value."""
    return (
        f"{shift(gain['difference'], gain['low'], gain['high'])} points "
        f"({gain['wins']} won, {gain['losses']} lost, p={gain['p']:.2g})"
    )


def rate(figures: dict[str, Any], nodes: int) -> str:
    """Format the solve rate within `nodes`, in percent with its interval."""
    return interval(figures["solved"][str(nodes)])


def baseline(outcomes: Sequence[Outcome], nodes: int) -> tuple[bool, str]:
    """Return whether a baseline proves enough (a theorem, and an interval that reaches NO_GO), and
    why."""
    found = mean_by_problem(solved(outcomes, nodes))
    text = f"the baseline solves {interval(found.to_json())}%"
    if found.value and found.high >= NO_GO:
        return True, text
    why = (
        f"which is below {100 * NO_GO:.0f}% and too little to train on"
        if found.value
        else "no theorem at all"
    )
    return False, f"{text}, {why}. {HINT}"


def risen(gain: dict[str, Any], number: int) -> tuple[bool, str]:
    """Return whether an iteration's gain justifies the next iteration, and why, by the gain's
    paired interval. The gain of iteration 0 must be significantly above 0. A later gain may also be
    unclear, unless it is significantly below LEAST_GAIN, because few theorems cannot show a small
    gain."""
    before = f"iteration {number - 1}" if number else "the baseline"
    if gain["low"] > 0:
        return True, f"iteration {number} is better than {before}"
    text = f"iteration {number} is not shown to be better than {before}"
    if not number:
        return False, text
    least = f"{100 * LEAST_GAIN:.0f} points"
    if gain["high"] < LEAST_GAIN:
        return False, f"iteration {number} gains less than {least} over {before}"
    return True, f"{text}, but its gain may still reach {least}"


def table(figures: dict[str, Any]) -> str:
    """Format figures as a table of rates by nodes, followed by lines of text."""
    solved = figures["solved"]
    rates = [
        Column("within nodes", list(solved)),
        Column("solved, %", [interval(rate) for rate in solved.values()]),
    ]
    lines = [Table("", rates).body(), ""]
    if figures["reasons"]:
        lines.append(f"searches without a proof, by reason: {counts(figures['reasons'])}")
    if figures["failures"]:
        lines.append(f"failures by kind: {counts(figures['failures'])}")
    if figures["proposed"]:
        share = figures["refused"] / figures["proposed"]
        lines.append(f"the guard refused {share:.1%} of {figures['proposed']:,} proposed tactics")
    if figures["nodes_to_proof"] is not None:
        lines.append(
            f"a proof took {figures['nodes_to_proof']:.0f} nodes and "
            f"{figures['seconds_to_proof']:.1f} s (medians). The longest proof has "
            f"{figures['longest_proof']} tactics"
        )
    if figures["unique"] is not None:
        lines.append(
            "different tactics that the model proposed in a state, on average: "
            f"{figures['unique']:.2f}"
        )
    seconds = {part: figures["seconds"].get(part, 0.0) for part in PARTS}
    if whole := sum(seconds.values()):
        shares = (f"{part} {100 * of / whole:.0f}%" for part, of in seconds.items())
        lines.append(f"share of the searches' time: {', '.join(shares)}")
    return "\n".join(lines)


def counts(by_name: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in by_name.items())


# The folder of a run


class Record(stages.Record):
    """The record of a baseline, an iteration or a comparison of orders, with its finished
    stages."""

    # also "guided_before", on which no other stage depends
    STAGES = ("searched", "trained", "evaluated", "guided")
    PRODUCTS: ClassVar = {"trained": "digest"}

    @classmethod
    def begun(
        cls, folder: Path, run: str, config: LeanConstants, lean: Toolchain, where: str
    ) -> "Record":
        """Begin or resume a `run` on theorems from `where`. A folder with another run is renamed.
        Raises UserError."""
        head = {
            "schema": 1,
            "run": run,
            "complete": False,
            "started": now(),
            "theorems": where,
            "lean": lean.name,
            **toolchain.open_cage(),
            "config": {name: getattr(config, name) for name in rules(type(config))},
            "provenance": provenance.collect((ASKED,)),
        }
        record = cls.begin(
            folder,
            head,
            lambda path: cls(folder, read_record(folder)),
            {"complete": False},
            "theorems",
        )
        if not record.path.exists():
            record.save(complete=False)
        return record


def read_record(folder: Path, name: str = stages.NAME) -> dict[str, Any]:
    """Read the record in a folder. Raises UserError."""
    path = folder / name
    return fitted(
        read_json(path, "the record", MOVE), dict[str, Any], f"{path} is not a record", MOVE
    )


def keep(folder: Path, outcomes: Sequence[Outcome], result: dict[str, Any]) -> None:
    """Write the table of figures, and a file with the Lean text of all proofs."""
    write_atomically(folder / TABLE, f"{table(result)}\n".encode())
    proofs = [
        {
            "name": each.name,
            "statement": each.statement,
            "proof": each.proof,
            "lean": proof(each.statement, each.proof),
        }
        for each in outcomes
        if each.is_proved
    ]
    write_json(folder / PROOFS, {"theorems": proofs})


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON. Raises UserError."""
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n")
