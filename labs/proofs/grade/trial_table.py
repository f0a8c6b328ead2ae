"""Format the test of a grader as tables: one has a column for each prompt, the other (if any) a row
for each attack."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from core.base.prices import format_dollars
from core.base.terminal import aligned, cut, short, wrapped
from harness.report.table import NONE

Json = Mapping[str, Any]
WIDEST = 20  # most characters for the name of a writer or a prompt
LEGEND = """Brackets contain 95% intervals over problems. Kappa, points given, tokens and dollars \
give each proof the \
same weight. All other means and shares give each problem the same weight.
Error is |grader's points - people's points|. Buckets are 0, 1-3, 4-6 and 7 points.
Two proofs of a problem keep their order if the grader prefers the proof that people prefer. A \
tie counts half.
A proof's advantage is its points minus the mean points of its problem's proofs, as in \
reinforcement learning. \
The table shows the mean |grader's advantage - people's advantage| (QED-Nano, arXiv 2604.04898).
Quadratic kappa is 1 for full agreement and 0 for chance. Bias is the grader's points minus \
people's points.
Intervals of error, advantage and kappa are from a bootstrap. They are left out if their two ends \
are equal.
A grading is missing if two attempts give no readable points. A missing grading never counts as \
0."""
# columns of attacks
MOVED = {"raised": "raised", "lowered": "lowered", "same": "same", "became_missing": "lost"}
LEGEND_OF_ATTACKS = """The change is the number of points that the attack adds to a proof, on \
average.
A proof is lost if only its points with the attack are missing."""


def text(document: Json) -> str:
    """Return the tables of a test's `document`, and their legend, as one text."""
    plain = [way for way in document["ways"] if not way["attack"]]
    parts = [aligned(_rows(plain, document["people"]))]
    notes = [LEGEND]
    if document["attacks"]:
        attacks = aligned(_attacks(document["attacks"]))
        parts.append(f"attacks, under the prompt {plain[0]['way']}\n{attacks}")
        notes.append(LEGEND_OF_ATTACKS)
    if document["left_out"]:
        notes.append(
            "prompts left out because the set lacks a text they show: "
            f"{', '.join(document['left_out'])}"
        )
    source = document["problem_set"]["source"]
    if source.startswith("bundled: "):
        notes.append(f"No person graded these proofs. They are {source.removeprefix('bundled: ')}")
    card = document["model"].get("card") or {}
    if card.get("note"):
        notes.append(f"note: {card['note']}")
    return "\n\n".join([*parts, wrapped("\n".join(notes), "  ")])


def _attacks(attacks: Sequence[Json]) -> list[list[str]]:
    """Return the rows of the attacks' table."""
    rows = [["attack", "change, points", *MOVED.values()]]
    for attack in attacks:
        counts = [f"{attack[name]:,}" for name in MOVED]
        rows.append([attack["attack"], _shift(attack["change"]), *counts])
    return rows


def _rows(ways: Sequence[Json], people: Json) -> list[list[str]]:
    """Return the table's rows. Each row has a name, then a cell for each of `ways`."""
    rows: list[list[str]] = []

    def add(name: str, cell: Callable[[Json], str]) -> None:
        rows.append([name, *map(cell, ways)])

    add("prompt", lambda way: cut(way["way"], WIDEST))
    add("shows reference", lambda way: "yes" if way["has_reference"] else "no")
    add("graded", lambda way: f"{way['graded']:,} of {way['proofs']:,}")
    ungraded = [way["missing"] | way["not_delivered"] for way in ways]
    for reason in sorted(set().union(*ungraded)):
        counts = [f"{by_reason.get(reason, 0):,}" for by_reason in ungraded]
        rows.append([f"  {reason}", *counts])
    add("error, points", lambda way: _interval(way["mean_absolute_error"]))
    add("same bucket, %", lambda way: _interval(way["bucket_accuracy"], 100, 0))
    add("order kept, %", lambda way: _interval(way["order_kept"], 100, 0))
    add(
        "  same/tied/reversed",
        lambda way: "/".join(str(way["order"][name]) for name in ("same", "tied", "reversed")),
    )
    add("advantage, points", lambda way: _interval(way["advantage_difference"]))
    add("kappa", lambda way: _interval(way["quadratic_kappa"]))
    add("bias, points", lambda way: _shift(way["bias"], 1))
    for kind in ("bias_by_writer", "bias_by_length"):
        biases = [{bias["group"]: bias for bias in way[kind]} for way in ways]
        for group in dict.fromkeys(chain(*biases)):
            n = max(by_group[group]["n"] for by_group in biases if group in by_group)
            name = cut(group.removesuffix(" characters"), WIDEST - 4)
            rows.append([f"  {name} ({n})", *(_shift(bias.get(group), 1) for bias in biases)])
    add("given (people)", lambda way: "")
    for points, by_people in enumerate(people["given"]):
        rows.append([f"  {points} ({by_people})", *(f"{way['given'][points]:,}" for way in ways)])
    add("tokens read/proof", lambda way: _mean(way["tokens_read"], short))
    add("tokens written/proof", lambda way: _mean(way["tokens_written"], short))
    if any(way["cost"] is not None for way in ways):
        add(
            "dollars", lambda way: "unknown" if way["cost"] is None else format_dollars(way["cost"])
        )
        add("  per proof", lambda way: _mean(way["dollars"], format_dollars))
    return rows


def _interval(estimate: Json, times: float = 1, digits: int = 2) -> str:
    if estimate["value"] is None:
        return NONE
    value = f"{times * estimate['value']:.{digits}f}"
    if estimate["low"] is None:
        return value
    low, high = times * estimate["low"], times * estimate["high"]
    return f"{value} [{low:.{digits}f}, {high:.{digits}f}]"


def _shift(change: Json | None, digits: int = 2) -> str:
    if not change:
        return NONE
    mean = change["mean"] if "mean" in change else change["difference"]
    return f"{mean:+.2f} [{change['low']:+.{digits}f}, {change['high']:+.{digits}f}]"


def _mean(estimate: Json | None, show: Callable[[float], str]) -> str:
    if estimate is None:
        return "unknown"
    return NONE if estimate["value"] is None else show(estimate["value"])
