"""What runs in rounds (STaR) came to, from their records: tables for people (text or markdown), and a curve."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.files import write_atomically
from core.report import plot
from core.report.tables import interval, shift
from core.results import read as stored
from core.results import rounds as record
from core.results.rounds import WAYS, Record
from core.terminal import aligned, columns, short, wrapped

LEGEND = (
    "accuracies in % of held-out problems, with 95% intervals over them; minus round 0: paired by problem",
    "sampled: mean over SEEDS at TEMPERATURE; vote: of VOTES samples; format: passes the guard (MIN_STEPS, MAX_STEPS); "
    "steps: lines before the answer; cut: by MAX_TOKENS; timed out: no answer within TIMEOUT",
    "kept: traces of the round by way (first try, retry, rationalised: shown the answer while sampling); unsound: kept "
    "though an equation in them is false; rows: trained on, one a problem, of all rounds so far; loss: mean of the "
    "first and of the last tenth",
    "the best round is chosen on these very problems, so that its accuracy is a little too high; the last is not",
)


@dataclass(frozen=True)
class Table:
    title: str
    rows: list[list[str]]

    def text(self) -> str:
        return f"{self.title}\n\n{aligned(self.rows)}"

    def markdown(self) -> str:
        head, *rows = self.rows
        lines = [head, ["---"] * len(head), *rows]
        return f"**{self.title}**\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(records: Sequence[Record]) -> list[Table]:
    """Of each run its rounds, and what they took; of several runs first what each came to."""
    made = [_summary(records)] if len(records) > 1 else []
    for each in records:
        if done(each):
            made += [_rounds(each), _making(each)]
    return made


def show(folder: Path) -> str:
    """Write the table and the curve of the runs in `folder`; the table, as wide as it gets, comes back."""
    found = record.records(folder)
    if not any(map(done, found)):
        raise UserError(f"no round of {folder.name} is evaluated yet. Run the same command again to go on")
    text = "\n\n".join([*(table.text() for table in tables(found)), *_notes(found, folder)])
    write_atomically(folder / "table.txt", f"{text}\n".encode())
    curves(found, folder, folder / "rounds.png")
    return wrapped(text, "  ") if columns() else text


def markdown(folder: Path) -> str:
    """The same tables for a document."""
    found = record.records(folder)
    return "\n\n".join([*(table.markdown() for table in tables(found)), *_notes(found, folder)])


def done(each: Record) -> list[dict[str, Any]]:
    """The rounds of a run that are evaluated, up to its last."""
    last = each.head.get("last")
    rounds = each.rounds if last is None else each.rounds[: last + 1]
    return [of for of in rounds if "evaluated" in of]


def _notes(found: Sequence[Record], folder: Path) -> list[str]:
    notes = [f"note: {words}" for words in LEGEND]
    for each in found:
        if not each.head["complete"]:
            notes.append(f"note: {each.label} is not complete; the same command again goes on")
    first = done(next(each for each in found if done(each)))[0]["evaluated"]["greedy"]
    head, _ = stored.read(folder / f"{first}.json")
    return ["\n".join([*notes, *(f"note: {warning}" for warning in head.warnings if "card" in head.model)])]


def _rounds(each: Record) -> Table:
    """How good the weights of each round are."""
    has_seeds = any(of["evaluated"]["sampled_accuracy"] for of in done(each))
    has_votes = has_seeds and each.head["config"]["VOTES"] > 1
    head = ["round", "right at t=0", "minus round 0", "format", "steps", "cut", "failed", "timed out", "tokens", "s"]
    more = [*(["sampled"] if has_seeds else []), *(["vote"] if has_votes else [])]
    rows = [[*head[:3], *more, *head[3:]]]
    for of in done(each):
        told = of["evaluated"]
        shown = [str(of["round"]), interval(told["accuracy"]), _gain(told["gain"])]
        shown += [interval(told["sampled_accuracy"])] if has_seeds else []
        shown += [interval(told["vote"])] if has_votes else []
        shown += [f"{100 * told['format']['value']:.1f}", _mean(told["steps"])]
        shown += [str(told[name]) for name in ("truncated", "failed", "timed_out")]
        rows.append([*shown, _tokens(told["tokens"]), f"{told['seconds']:,.0f}"])
    n, about = done(each)[0]["evaluated"]["accuracy"]["n"], each.head["data"]["held_out_name"]
    best = each.head.get("best") or {}
    ended = f"; best: round {best['round']}" if best else ""
    return Table(f"{each.label}: evaluated on {n} problems of {about}{ended}", rows)


def _making(each: Record) -> Table:
    """What each round collected and trained on."""
    rows = [["round", "samples", *WAYS, "dropped", "unsound", "tokens", "s", "rows", "trained on", "s", "loss"]]
    for of in done(each)[1:]:
        got, told = of["collected"], of["trained"]
        if got["repeats"]:
            shown = ["-"] * 8
        else:
            shown = [str(got["samples"]), *(str(got["kept"][way]) for way in WAYS), _dropped(got["dropped"])]
            shown += [str(sum(got["unsound"].values())), _tokens(got["tokens"]), f"{got['seconds']:,.0f}"]
        shown += [str(got["rows"]), _tokens(told["tokens"]), f"{told['seconds']:,.0f}"]
        rows.append([str(of["round"]), *shown, f"{told['first_loss']:.4f} to {told['last_loss']:.4f}"])
    return Table(f"{each.label}: samples kept by way, tokens of sampling and of training", rows)


def arm(label: str) -> str:
    """What a run is called beside its seed."""
    return label.rpartition("seed")[0].rstrip("-") or "star"


def _summary(found: Sequence[Record]) -> Table:
    """Each run in a line."""
    rows = [
        [
            "run",
            "round 0",
            "last round",
            "minus round 0",
            "best",
            "unsound of kept",
            "sampled tokens",
            "trained on",
            "s",
        ]
    ]
    for each in found:
        if not (rounds := done(each)):
            continue
        first, last = rounds[0]["evaluated"], rounds[-1]["evaluated"]
        collected = [of["collected"] for of in rounds[1:] if not of["collected"]["repeats"]]
        kept = sum(sum(of["kept"].values()) for of in collected)
        unsound = sum(sum(of["unsound"].values()) for of in collected)
        asked = [of["tokens"] for of in (*collected, *(each["evaluated"] for each in rounds))]
        seconds = sum(
            of[stage]["seconds"] for of in rounds for stage in record.STAGES if stage in of and "seconds" in of[stage]
        )
        rows.append(
            [
                each.label,
                interval(first["accuracy"]),
                f"{rounds[-1]['round']}: {interval(last['accuracy'])}",
                _gain(last["gain"]),
                str((each.head.get("best") or {}).get("round", "-")),
                f"{unsound} of {kept}",
                _tokens(None if None in asked else sum(asked)),
                _tokens(sum(of["trained"]["tokens"] for of in rounds[1:])),
                f"{seconds:,.0f}",
            ]
        )
    return Table("all runs, at temperature 0", rows)


def curves(found: Sequence[Record], folder: Path, path: Path) -> None:
    """Accuracy at temperature 0 over the rounds, a line for each run."""
    lines = [
        (each.label, [(of["round"], of["evaluated"]["accuracy"]) for of in done(each)]) for each in found if done(each)
    ]
    first = done(next(each for each in found if done(each)))[0]["evaluated"]["greedy"]
    document = stored.read(folder / f"{first}.json")[0].document
    document = document | {"experiment": folder.name, "config": {}}
    document["model"] = document["model"] | {"name": found[0].head["start"]["name"]}
    plot.rounds(document, lines, path)


def _gain(told: dict[str, Any] | None) -> str:
    return shift(told["difference"], told["low"], told["high"]) if told else "-"


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else short(count)


def _dropped(by_way: dict[str, dict[str, int]]) -> str:
    """The reasons, the commonest first, over all ways."""
    reasons: dict[str, int] = {}
    for of in by_way.values():
        for reason, count in of.items():
            reasons[reason] = reasons.get(reason, 0) + count
    return ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items(), key=lambda each: -each[1])) or "-"
