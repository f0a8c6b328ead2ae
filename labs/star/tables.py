"""Tabulate the rounds of STaR runs: evaluations, samples and training, and dropped samples."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from core.base.errors import one_line
from core.base.terminal import short
from harness.report.table import BETWEEN, NONE, Column, Table
from harness.report.tables import interval, shift
from labs.star.aggregation import tables as learnt
from labs.star.record import WAYS, Record, Round, best, done, samples

# The meanings of columns: of a round's evaluation, then of its samples and training.
EVALUATED = {
    "sampled": "mean accuracy over SEEDS",
    "vote": "majority of VOTES samples",
    "format": "% of replies at t=0 in the form to train on",
    "steps": "lines before the answer",
    "truncated": "replies at t=0 cut off at MAX_TOKENS",
    "timed out": "requests at t=0 over TIMEOUT or STALL_SECONDS",
}
COLLECTED = {
    "kept": (
        "samples kept from the first try, a retry, or rationalisation (with the reference answer "
        "in the prompt)"
    ),
    "malformed": "right samples with a wrong form",
    "unsound": "samples kept with a false equation",
    "rows": "traces to train on, one for each problem",
    "loss": "mean over the first tenth of the updates, and over the last tenth",
}
GAIN = {"minus round 0": "change since round 0, paired by problem"}
# A narrow terminal omits other columns, the last first.
FIXED = ("run", "round", "right at t=0", "minus round 0", "dropped", "in all")
ABOUT = "accuracies in % of the held-out problems, with 95% confidence intervals"
BEST = (
    "the best round was chosen on the held-out problems, so its accuracy may be slightly too "
    "high. This does not apply to the last round"
)
LEGEND = (
    BETWEEN.join([ABOUT, *map(": ".join, GAIN.items())]),
    BETWEEN.join(map(": ".join, EVALUATED.items())),
    BETWEEN.join(map(": ".join, COLLECTED.items())),
    BEST,
)


# the words of charts, for the figures of record.Headline. The axis belongs to several runs
WORDS = {"axis": "right, %", "accuracy": "temperature 0", "sampled": "sampled"}


def words(runs: Sequence[Record]) -> dict[str, str]:
    """Return the words for the figures that charts of `runs` draw."""
    if learnt.is_learnt(runs[0]):
        return learnt.WORDS
    return WORDS


def page_notes(runs: Sequence[Record]) -> list[str]:
    """Return the notes below the tables on the page, on which each table has its own legend."""
    notes = [BEST]
    if learnt.is_learnt(runs[0]):
        notes.append(learnt.LAST)
    return notes


def legend(runs: Sequence[Record]) -> tuple[str, ...]:
    """Return the notes below the tables of `runs`."""
    if learnt.is_learnt(runs[0]):
        return learnt.LEGEND
    return LEGEND


def tables(runs: Sequence[Record]) -> list[Table]:
    """Return the tables of each run (rounds, samples, dropped samples). For several runs, a summary
    comes first. Runs that evaluate RSA have their own tables."""
    if learnt.is_learnt(runs[0]):
        return learnt.tables(runs)
    tables = [_summary(runs)] if len(runs) > 1 else []
    for run in runs:
        tables.append(_rounds(run))
        tables += _collections(run)
        tables += _dropped(run)
    return tables


def _table(
    title: str, rows: Sequence[dict[str, str]], opens: Sequence[dict[str, str]] = (), **more: Any
) -> Table:
    """Return a table of `rows`, which map columns to cells. The first row has all columns. Columns
    without a value are left out."""
    meanings = GAIN | EVALUATED | COLLECTED | dict.fromkeys(WAYS, COLLECTED["kept"])
    columns = []
    for i, head in enumerate(rows[0]):
        cells = [row.get(head, NONE) for row in rows]
        if set(cells) == {NONE}:
            continue
        rank = 0 if head in FIXED else i
        meaning = meanings.get(head, "")
        columns.append(Column(head, cells, meaning, rank))
    return Table(title, columns, opens, **more)


def _summary(runs: Sequence[Record]) -> Table:
    opens = [{"last": done(run)[-1]["evaluated"]["greedy"]} for run in runs]
    title = "all runs at temperature 0, after their last round"
    return _table(title, list(map(_in_all, runs)), opens, legend_end=ABOUT)


def _in_all(run: Record) -> dict[str, str]:
    """Return the cells of a run."""
    rounds = done(run)
    evaluated = [round_["evaluated"] for round_ in rounds]
    first, last = evaluated[0], evaluated[-1]
    collected = [round_["collected"] for round_ in rounds[1:]]
    trained = [round_["trained"] for round_ in rounds[1:]]
    sampled = [*collected, *evaluated]
    unsound = sum(sum(samples["unsound"].values()) for samples in collected)
    kept = sum(sum(samples["kept"].values()) for samples in collected)
    return {
        "run": run.label,
        "round 0": interval(first["accuracy"]),
        "last": str(rounds[-1]["round"]),
        "right at t=0": interval(last["accuracy"]),
        "minus round 0": gain_text(last["gain"]),
        "best": str(best(run)),
        "unsound of kept": f"{unsound} of {kept}",
        "sampled tokens": _tokens(*sampled),
        "trained on": _tokens(*trained),
        "s": _seconds(*sampled, *trained),
    }


def _rounds(run: Record) -> Table:
    rounds = done(run)
    votes = run.head["config"]["VOTES"]
    rows = []
    opens = []
    for round_ in rounds:
        evaluated = round_["evaluated"]
        rows.append({"round": str(round_["round"])} | _evaluation(evaluated, votes))
        opens.append({"evaluation": evaluated["greedy"]} | samples(round_))
    marked = {"best": best(run), "last": rounds[-1]["round"]}
    marks = [
        ", ".join(mark for mark, number in marked.items() if number == round_["round"])
        for round_ in rounds
    ]
    n = rounds[0]["evaluated"]["accuracy"]["n"]
    held_out = one_line(run.head["data"]["held_out_name"], 60)
    so_far = "last" if run.head["complete"] else "last so far"
    title = (
        f"{run.label}: evaluated on {n} problems of {held_out} (best: round {marked['best']}, "
        f"{so_far}: round {marked['last']})"
    )
    return _table(title, rows, opens, marks=marks, legend_end=ABOUT)


def _evaluation(evaluated: dict[str, Any], votes: int) -> dict[str, str]:
    """Return the cells of an evaluation."""
    sampled = evaluated["sampled_accuracy"]
    vote = evaluated["vote"]
    return {
        "right at t=0": interval(evaluated["accuracy"]),
        "minus round 0": gain_text(evaluated["gain"]),
        "sampled": interval(sampled) if sampled else NONE,
        "vote": interval(vote) if votes > 1 and vote else NONE,
        "format": f"{100 * evaluated['format']['value']:.1f}",
        "steps": NONE if evaluated["steps"] is None else f"{evaluated['steps']:.1f}",
        "truncated": str(evaluated["truncated"]),
        "failed": str(evaluated["failed"]),
        "timed out": str(evaluated["timed_out"]),
        "tokens": _tokens(evaluated),
        "s": _seconds(evaluated),
    }


def _collections(run: Record) -> list[Table]:
    rounds = done(run, "collected")
    if not rounds:
        return []
    rows = list(map(_collection, rounds))
    opens = list(map(samples, rounds))
    return [_table(f"{run.label}: samples and training in each round", rows, opens)]


def _collection(round_: Round) -> dict[str, str]:
    """Return the cells of a round's samples, and of its training if it has ended."""
    collected = round_["collected"]
    trained = round_.get("trained")
    dropped = sum(sum(reasons.values()) for reasons in collected["dropped"].values())
    cells = {
        "round": str(round_["round"]),
        "samples": str(collected["samples"]),
        **{way: str(count) for way, count in collected["kept"].items()},
        "dropped": str(dropped),
        "malformed": str(sum(collected["malformed"].values())),
        "unsound": str(sum(collected["unsound"].values())),
        "tokens": _tokens(collected),
        "s": _seconds(collected),
        "rows": str(collected["rows"]),
    }
    if trained:
        loss = f"{trained['first_loss']:.4f} to {trained['last_loss']:.4f}"
        cells |= {"trained on": _tokens(trained), "training s": _seconds(trained), "loss": loss}
    return cells


def _dropped(run: Record) -> list[Table]:
    rounds: dict[str, Counter[tuple[str, str]]] = {}  # counts by way and reason
    for round_ in done(run, "collected"):
        counts = rounds[f"round {round_['round']}"] = Counter()
        for way, reasons in round_["collected"]["dropped"].items():
            counts.update({(way, reason): count for reason, count in reasons.items()})
    total = Counter[tuple[str, str]]()
    for counts in rounds.values():
        total.update(counts)
    if not total:
        return []

    def rank(key: tuple[str, str]) -> tuple[int, int]:
        way, _ = key
        return WAYS.index(way), -total[key]

    rows = []
    for key in sorted(total, key=rank):
        way, reason = key
        row = {"dropped": f"{way}: {one_line(reason, 60)}"}
        for name, counts in rounds.items():
            row[name] = str(counts[key])
        row["in all"] = str(total[key])
        rows.append(row)
    return [_table(f"{run.label}: dropped samples, by try and reason", rows)]


def gain_text(gain: dict[str, Any] | None) -> str:
    return shift(gain["difference"], gain["low"], gain["high"]) if gain else NONE


def _tokens(*stages: dict[str, Any]) -> str:
    counts = [stage["tokens"] for stage in stages]
    return "unknown" if None in counts else short(sum(counts))


def _seconds(*stages: dict[str, Any]) -> str:
    return f"{sum(stage['seconds'] for stage in stages):,.0f}"
