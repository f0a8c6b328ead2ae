"""Report on STaR runs: print or export their tables, and draw the curve of accuracy over rounds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError, one_line
from core.base.files import write_atomically
from core.base.terminal import columns, short, wrapped
from harness.report import compare, plot
from harness.report.data import Results
from harness.report.table import BETWEEN, NONE, Column, Table
from harness.report.tables import interval, shift
from harness.results import read as stored
from harness.results.model import Head
from harness.results.registry import View
from harness.results.warnings import CONTINUES
from labs.star import record
from labs.star.record import WAYS, Record

WEB = Path(__file__).resolve().parent / "web"
Round = dict[str, Any]  # the outcomes of one round's stages, by stage
REMEDIES = {  # a change of the constants that may keep right samples with this fault of form
    "too few steps": "lower MIN_STEPS",
    "too many steps": "raise MAX_STEPS",
    "no final line": "FEWSHOT=none also accepts a box, and FEWSHOT=math shows examples",
    "text after it": "FEWSHOT=format cuts this text off",
}
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
LEGEND = (
    BETWEEN.join([ABOUT, *map(": ".join, GAIN.items())]),
    BETWEEN.join(map(": ".join, EVALUATED.items())),
    BETWEEN.join(map(": ".join, COLLECTED.items())),
    "the best round was chosen on the held-out problems, so its accuracy may be slightly too "
    "high. This does not apply to the last round",
)

records = record.paths


def is_folder(folder: Path) -> bool:
    """Return whether `folder` contains the records of STaR runs."""
    return bool(records(folder))


def results(folder: Path) -> list[Path]:
    """List the existing results files in `folder`, by run and round: collected samples, then
    evaluations."""
    names = []
    for run in record.records(folder):
        for each in run.rounds:
            names += [
                each.get("collected", {}).get("results"),
                each.get("evaluated", {}).get("greedy"),
            ]
    return [path for name in names if name and (path := folder / f"{name}.json").exists()]


def show(folder: Path) -> str:
    """Write table.txt and rounds.png into `folder`, and return the text for the terminal. If the
    terminal's width is known and there are several runs, the text has only the summary table and
    the notes."""
    runs, width = _evaluated(folder), columns()
    shown, notes, path = tables(runs), _notes(runs, folder), folder / "table.txt"
    every = [table.text() for table in shown]
    write_atomically(path, "\n\n".join([*every, f"{notes}\n"]).encode())
    curves(runs, folder, folder / "rounds.png")
    fits = [table.text(width) for table in (shown[:1] if width and len(runs) > 1 else shown)]
    more = "" if fits == every else f"\nall figures: {path}"
    return "\n\n".join([*fits, wrapped(notes, "  ")]) + more


def markdown(folder: Path) -> str:
    """Return the tables and notes of `folder` in Markdown. Raises UserError if no round is
    evaluated yet."""
    runs = _evaluated(folder)
    return "\n\n".join([*(table.markdown() for table in tables(runs)), _notes(runs, folder)])


def figures(folder: Path, to: Path) -> list[Path]:
    """Draw the curve of the runs in `folder` into the folder `to`, as PNG and SVG. Return their
    paths."""
    runs, paths = _evaluated(folder), [to / "rounds.png", to / "rounds.svg"]
    for path in paths:
        curves(runs, folder, path)
    return paths


def curves(runs: Sequence[Record], folder: Path, path: Path) -> None:
    """Draw each run's accuracy at temperature 0 over the rounds, and a single run's sampled
    accuracy, if any."""
    lines = [(run.label, _curve(run, "accuracy")) for run in runs]
    if len(runs) == 1 and (sampled := _curve(runs[0], "sampled_accuracy")):
        lines = [("temperature 0", lines[0][1]), ("sampled, mean over seeds", sampled)]
    complete = all(run.head["complete"] for run in runs)
    document = _first(runs, folder).document | {
        "experiment": folder.name,
        "config": {},
        "complete": complete,
    }
    document["model"] = document["model"] | {"name": runs[0].head["start"]["name"]}
    plot.curves([document], lines, path, "round", "right at temperature 0, %")


def _curve(run: Record, kind: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the rounds' numbers and their rates of this `kind`, if any."""
    return [(each["round"], rate) for each in done(run) if (rate := each["evaluated"][kind])]


# The page


def page(folder: Path, runs: Sequence[Results]) -> View:
    """Return the view that draws the rounds of `folder`. `runs` are the folder's results. Raises
    UserError."""
    shown = _evaluated(folder)
    numbers = {run.name: number for number, run in enumerate(runs)}
    on_page = [_on_page(run, numbers) for run in shown]
    data = {
        "name": one_line(folder.name, 80),
        "view": "rounds",
        "heading": "Rounds",
        "warnings": _warnings(shown, folder),
        "legend": [LEGEND[-1]],
        "tables": [table.page(numbers) for table in tables(shown)],
        "runs": on_page,
    }
    return View(data, _between_rounds(runs, on_page), (WEB / "rounds.js",), (WEB / "star.css",))


def _on_page(run: Record, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the page's data about a run. `numbers` maps the name of a results file to its number
    on the page."""
    start, data = run.head["start"], run.head["data"]
    return {
        "label": run.label,
        "arm": run.label.rpartition("seed")[0],  # without the seed
        "about": f"from {one_line(start['name'], 60)} ({start['digest'][:12]}), trained on problems of "
        f"{one_line(data['name'], 60)} ({data['train']:,}), evaluated on "
        f"{one_line(data['held_out_name'], 60)} ({data['held_out']:,})",
        "best": _best(run),
        "complete": run.head["complete"],
        "rounds": [
            {
                "round": each["round"],
                "accuracy": each["evaluated"]["accuracy"],
                "sampled": each["evaluated"]["sampled_accuracy"],
                "gain": _gain(each["evaluated"]["gain"]),
                "results": numbers.get(each["evaluated"]["greedy"]),
            }
            for each in done(run)
        ],
        "collected": {
            each["round"]: numbers[name]
            for each in done(run, "collected")
            if (name := each["collected"]["results"]) in numbers
        },
    }


def _between_rounds(
    runs: Sequence[Results], shown: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """Compare each evaluation at temperature 0 with round 0 of its run. Return None if there is no
    pair. Only the mean accuracy is compared, because the vote over one sample equals it. The field
    `groups` has the numbers of each run's results on the page."""
    found = [[each["results"] for each in run["rounds"]] for run in shown]
    groups = [[n for n in numbers if n is not None] for numbers in found if numbers[0] is not None]
    pairs: list[compare.Pair] = []
    for group in groups:
        first, *others = (compare.result(runs[n]) for n in group)
        pairs += [compare.pair(first, other, anyway=True) for other in others]
    if not pairs:
        return None
    metric = compare.METRICS[0]
    table = compare.differences(
        [replace(p, metrics={metric: p.metrics[metric]}) for p in pairs], "round 0 of its run"
    )
    return {"table": table.page(), "notes": [], "groups": groups}


# The rounds


def done(run: Record, stage: str = "evaluated") -> list[Round]:
    """Return the rounds that have `stage`, up to the run's last round. A longer run may have
    recorded later rounds."""
    last = run.head.get("last") if run.head["complete"] else None
    return [each for each in run.rounds[: None if last is None else last + 1] if stage in each]


def _evaluated(folder: Path) -> list[Record]:
    """Return the runs in `folder` that have an evaluated round. Raises UserError if there is no
    such run."""
    runs = [run for run in record.records(folder) if done(run)]
    if not runs:
        raise UserError(
            f"{folder.name} has no evaluated round yet. Wait for the first round ({CONTINUES})"
        )
    return runs


def _best(run: Record) -> int:
    """Return the number of the round with the highest accuracy at temperature 0. In a tie the
    earliest round wins."""
    best: Round = max(
        done(run), key=lambda each: (each["evaluated"]["accuracy"]["value"], -each["round"])
    )
    return int(best["round"])


def _notes(runs: Sequence[Record], folder: Path) -> str:
    return "\n".join(f"note: {note}" for note in (*LEGEND, *_warnings(runs, folder)))


def _warnings(runs: Sequence[Record], folder: Path) -> list[str]:
    warnings = [
        f"{run.label} is not complete ({CONTINUES})" for run in runs if not run.head["complete"]
    ]
    for run in runs:
        if (rounds := done(run, "collected")) and (words := malformed(rounds[-1]["collected"])):
            warnings.append(f"{run.label}, round {rounds[-1]['round']}: {words}")
    head = _first(runs, folder)
    return warnings + [one_line(warning) for warning in head.warnings if "card" in head.model]


def malformed(collected: dict[str, Any]) -> str:
    """Count the right samples that a round dropped for their form, with known remedies. Return ""
    if there are none."""
    counts = collected["malformed"].items()
    words = [
        f"{count} {why}" + (f" ({REMEDIES[why]})" if why in REMEDIES else "")
        for why, count in counts
    ]
    return f"right samples dropped for their form: {', '.join(words)}" if words else ""


def _first(runs: Sequence[Record], folder: Path) -> Head:
    """Return the head of the runs' first results. Raises UserError if they can't be read."""
    return stored.read(folder / f"{runs[0].rounds[0]['evaluated']['greedy']}.json")[0]


# The tables


def tables(runs: Sequence[Record]) -> list[Table]:
    """Return the tables of each run (rounds, samples, dropped samples). For several runs, a summary
    comes first."""
    shown = [_summary(runs)] if len(runs) > 1 else []
    for run in runs:
        shown += [_rounds(run), *_collections(run), *_dropped(run)]
    return shown


def _table(
    title: str, rows: Sequence[dict[str, str]], opens: Sequence[dict[str, str]] = (), **more: Any
) -> Table:
    """Return a table of `rows`, which map columns to cells. The first row has all columns. Columns
    without a value are left out."""
    meanings = GAIN | EVALUATED | COLLECTED | dict.fromkeys(WAYS, COLLECTED["kept"])
    columns = []
    for place, head in enumerate(rows[0]):
        cells = [row.get(head, NONE) for row in rows]
        if set(cells) != {NONE}:
            columns.append(
                Column(head, cells, meanings.get(head, ""), 0 if head in FIXED else place)
            )
    return Table(title, columns, opens, **more)


def _summary(runs: Sequence[Record]) -> Table:
    opens = [{"last": done(run)[-1]["evaluated"]["greedy"]} for run in runs]
    title = "all runs at temperature 0, after their last round"
    return _table(title, list(map(_in_all, runs)), opens, about=ABOUT)


def _in_all(run: Record) -> dict[str, str]:
    """Return the cells of a run."""
    rounds = done(run)
    first, last = rounds[0]["evaluated"], rounds[-1]["evaluated"]
    collected = [each["collected"] for each in rounds[1:]]
    trained = [each["trained"] for each in rounds[1:]]
    sampled = [*collected, *(each["evaluated"] for each in rounds)]
    unsound, kept = (
        sum(sum(of[name].values()) for of in collected) for name in ("unsound", "kept")
    )
    return {
        "run": run.label,
        "round 0": interval(first["accuracy"]),
        "last": str(rounds[-1]["round"]),
        "right at t=0": interval(last["accuracy"]),
        "minus round 0": _gain(last["gain"]),
        "best": str(_best(run)),
        "unsound of kept": f"{unsound} of {kept}",
        "sampled tokens": _tokens(*sampled),
        "trained on": _tokens(*trained),
        "s": _seconds(*sampled, *trained),
    }


def _rounds(run: Record) -> Table:
    rounds, best = done(run), _best(run)
    last, votes = rounds[-1]["round"], run.head["config"]["VOTES"]
    rows = [
        {"round": str(each["round"])} | _evaluation(each["evaluated"], votes) for each in rounds
    ]
    marks = [
        ", ".join(["best"] * (each["round"] == best) + ["last"] * (each["round"] == last))
        for each in rounds
    ]
    opens = [{"evaluation": each["evaluated"]["greedy"]} | _samples(each) for each in rounds]
    about = (
        f"{rounds[0]['evaluated']['accuracy']['n']} problems of "
        f"{one_line(run.head['data']['held_out_name'], 60)}"
    )
    so_far = "last" if run.head["complete"] else "last so far"
    title = f"{run.label}: evaluated on {about} (best: round {best}, {so_far}: round {last})"
    return _table(title, rows, opens, marks=marks, about=ABOUT)


def _evaluation(of: dict[str, Any], votes: int) -> dict[str, str]:
    """Return the cells of an evaluation."""
    return {
        "right at t=0": interval(of["accuracy"]),
        "minus round 0": _gain(of["gain"]),
        "sampled": interval(of["sampled_accuracy"]) if of["sampled_accuracy"] else NONE,
        "vote": interval(of["vote"]) if votes > 1 and of["vote"] else NONE,
        "format": f"{100 * of['format']['value']:.1f}",
        "steps": NONE if of["steps"] is None else f"{of['steps']:.1f}",
        "truncated": str(of["truncated"]),
        "failed": str(of["failed"]),
        "timed out": str(of["timed_out"]),
        "tokens": _tokens(of),
        "s": _seconds(of),
    }


def _collections(run: Record) -> list[Table]:
    rounds = done(run, "collected")
    rows = [_collection(each) for each in rounds]
    title = f"{run.label}: samples and training in each round"
    return [_table(title, rows, list(map(_samples, rounds)))] if rows else []


def _collection(each: Round) -> dict[str, str]:
    """Return the cells of a round's samples, and of its training if it has ended."""
    of, trained = each["collected"], each.get("trained")
    cells = {
        "round": str(each["round"]),
        "samples": str(of["samples"]),
        **{way: str(count) for way, count in of["kept"].items()},
        "dropped": str(sum(sum(reasons.values()) for reasons in of["dropped"].values())),
        "malformed": str(sum(of["malformed"].values())),
        "unsound": str(sum(of["unsound"].values())),
        "tokens": _tokens(of),
        "s": _seconds(of),
        "rows": str(of["rows"]),
    }
    if trained:
        loss = f"{trained['first_loss']:.4f} to {trained['last_loss']:.4f}"
        cells |= {"trained on": _tokens(trained), "training s": _seconds(trained), "loss": loss}
    return cells


def _dropped(run: Record) -> list[Table]:
    rounds = {
        f"round {each['round']}": each["collected"]["dropped"] for each in done(run, "collected")
    }
    total = Counter[tuple[str, str]]()
    for dropped in rounds.values():
        total.update({(way, why): n for way in dropped for why, n in dropped[way].items()})
    rows = [
        {
            "dropped": f"{way}: {one_line(why, 60)}",
            **{name: str(dropped.get(way, {}).get(why, 0)) for name, dropped in rounds.items()},
            "in all": str(total[way, why]),
        }
        for way, why in sorted(total, key=lambda row: (WAYS.index(row[0]), -total[row]))
    ]
    return [_table(f"{run.label}: dropped samples, by try and reason", rows)] if rows else []


def _samples(each: Round) -> dict[str, str]:
    """Return the link to a round's samples, or {} if the round collected none."""
    return {"samples": name} if (name := each.get("collected", {}).get("results")) else {}


def _gain(gain: dict[str, Any] | None) -> str:
    return shift(gain["difference"], gain["low"], gain["high"]) if gain else NONE


def _tokens(*stages: dict[str, Any]) -> str:
    counts = [of["tokens"] for of in stages]
    return "unknown" if None in counts else short(sum(counts))


def _seconds(*stages: dict[str, Any]) -> str:
    return f"{sum(of['seconds'] for of in stages):,.0f}"
