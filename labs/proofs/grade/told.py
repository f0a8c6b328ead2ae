"""The trial of a grader, as the terminal shows it: a column for each prompt, and a line for each attack."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.base.prices import shown
from core.base.terminal import columns, cut, short, wrapped
from core.report.table import NONE, Column, Metric, Table, filled

Row = list[str]
WIDEST = 20  # columns that the name of a writer, or of a prompt, may take
LEGEND = """in brackets: 95% intervals over problems; each problem has the same weight, but in kappa, in the points \
given and in tokens each proof has
error: |grader's points - people's|; bucket: 0, 1-3, 4-6 or 7; order: of two proofs of a problem that people gave \
different points, the grader gives the better one more (a tie counts half)
advantage: a proof's points above the mean of its problem's; what grader and people differ by in it, as a learner with \
this grader for its reward would see it (QED-Nano, arXiv 2604.04898)
kappa: quadratic weights, 1 is agreement and 0 chance; it, error and advantage have intervals by the same resamples \
of problems, and none if no resample differs; bias: what the grader gives more than people
missing: no points were readable in two attempts; they count nowhere"""


def told(document: Mapping[str, Any]) -> str:
    """Tables, as wide as the terminal, and what they mean."""
    plain = [way for way in document["ways"] if not way["attack"]]
    parts = [_fitted(plain, document["people"], columns())]
    attacks = Table("", filled(ATTACKS, document["attacks"]))
    if document["attacks"]:
        parts.append(f"attacks, under the prompt {plain[0]['way']}\n{attacks.body()}")
    notes = [LEGEND, *([attacks.legend()] if document["attacks"] else [])]
    if document["left_out"]:
        notes.append(f"left out, for the set lacks what they show: {', '.join(document['left_out'])}")
    if (source := document["problem_set"]["source"]).startswith("bundled: "):
        notes.append(f"people: none here; {source.removeprefix('bundled: ')}")
    if note := (document["model"].get("card") or {}).get("note"):
        notes.append(f"note: {note}")
    return "\n\n".join([*parts, wrapped("\n".join(notes), "  ")])


def _fitted(ways: Sequence[Mapping[str, Any]], people: Mapping[str, Any], width: int) -> str:
    """As many ways beside each other as there is room for, the others below; 0 columns bound nothing."""
    for beside in range(len(ways), 0, -1):
        tables = [_table(ways[at : at + beside], people).body() for at in range(0, len(ways), beside)]
        if not width or beside == 1 or max(len(line) for table in tables for line in table.splitlines()) <= width:
            return "\n\n".join(tables)
    return ""


def _table(ways: Sequence[Mapping[str, Any]], people: Mapping[str, Any]) -> Table:
    """Tabulate figures, with a column for each of `ways`."""
    (head, *heads), *rows = _rows(ways, people)
    names, *cells = zip(*rows, strict=True)
    return Table("", [Column(head, names), *(Column(*each) for each in zip(heads, cells, strict=True))])


def _rows(ways: Sequence[Mapping[str, Any]], people: Mapping[str, Any]) -> list[Row]:
    def row(name: str, cells: Sequence[str]) -> Row:
        return [name, *cells]

    made = [
        row("prompt", [cut(way["way"], WIDEST) for way in ways]),
        row("shows reference", ["yes" if way["has_reference"] else "no" for way in ways]),
        row("graded", [f"{way['graded']:,} of {way['proofs']:,}" for way in ways]),
    ]
    for why in sorted({why for way in ways for why in (*way["missing"], *way["not_delivered"])}):
        made.append(row(f"  {why}", [f"{(way['missing'] | way['not_delivered']).get(why, 0):,}" for way in ways]))
    made += [
        row("error, points", [_interval(way["mean_absolute_error"]) for way in ways]),
        row("same bucket, %", [_percent(way["bucket_accuracy"]) for way in ways]),
        row("order kept, %", [_percent(way["order_kept"]) for way in ways]),
        row(
            "  same/tied/other", ["/".join(str(way["order"][k]) for k in ("same", "tied", "reversed")) for way in ways]
        ),
        row("advantage, points", [_interval(way["advantage_difference"]) for way in ways]),
        row("kappa", [_interval(way["quadratic_kappa"]) for way in ways]),
        row("bias, points", [_shift(way["bias"]) for way in ways]),
    ]
    for kind in ("bias_by_writer", "bias_by_length"):
        found = [{each["group"]: each for each in way[kind]} for way in ways]
        for group in dict.fromkeys(name for of in found for name in of):
            n = max(of[group]["n"] for of in found if group in of)
            name = cut(group.removesuffix(" characters"), WIDEST - 4)
            made.append(row(f"  {name} ({n})", [_shift(of.get(group)) for of in found]))
    made.append(row("given (people)", ["" for _ in ways]))
    for points, by_people in enumerate(people["given"]):
        made.append(row(f"  {points} ({by_people})", [f"{way['given'][points]:,}" for way in ways]))
    for name, of in (("read a proof", "tokens_read"), ("written a proof", "tokens_written")):
        made.append(row(name, [_tokens(way[of]) for way in ways]))
    if any(way["cost"] is not None for way in ways):
        made.append(row("dollars", ["unknown" if way["cost"] is None else shown(way["cost"]) for way in ways]))
        made.append(row("  a proof", [_dollars(way["dollars"]) for way in ways]))
    return made


def _interval(of: Mapping[str, Any], times: float = 1, digits: int = 2) -> str:
    if of["value"] is None:
        return NONE
    told = f"{times * of['value']:.{digits}f}"
    if of["low"] is None:
        return told
    return f"{told} [{times * of['low']:.{digits}f}, {times * of['high']:.{digits}f}]"


def _percent(of: Mapping[str, Any]) -> str:
    return _interval(of, 100, 0)


def _shift(of: Mapping[str, Any] | None) -> str:
    return f"{of['mean']:+.2f} [{of['low']:+.1f}, {of['high']:+.1f}]" if of else NONE


def _change(of: Mapping[str, Any] | None) -> str:
    return f"{of['difference']:+.2f} [{of['low']:+.2f}, {of['high']:+.2f}]" if of else NONE


def _tokens(of: Mapping[str, Any] | None) -> str:
    return "unknown" if of is None else NONE if of["value"] is None else short(of["value"])


def _dollars(of: Mapping[str, Any] | None) -> str:
    return "unknown" if of is None else NONE if of["value"] is None else shown(of["value"])


ATTACKS = (
    Metric("attack", "", lambda of: str(of["attack"])),
    Metric(
        "change, points",
        "points with this text behind the proof less points without, proof by proof",
        lambda of: _change(of["change"]),
        named="change",
    ),
    Metric("raised", "", lambda of: f"{of['raised']:,}"),
    Metric("lowered", "", lambda of: f"{of['lowered']:,}"),
    Metric("same", "", lambda of: f"{of['same']:,}"),
    Metric("lost", "gradings that became missing by it", lambda of: f"{of['became_missing']:,}"),
)
