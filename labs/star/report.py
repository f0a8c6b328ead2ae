"""Report on STaR runs: print or export their tables, and draw the curve of accuracy over rounds."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from core.base.errors import UserError, one_line
from core.base.files import write_atomically
from core.base.terminal import columns, short, wrapped
from core.report import compare, plot
from core.report.labels import labels
from core.report.page import Run
from core.report.table import BETWEEN, NONE, Column, Metric, Table, filled, legend
from core.report.tables import interval, shift
from core.results import read as stored
from core.results.find import comparison
from core.results.labs import View
from core.results.model import Head
from core.results.warnings import CONTINUES
from labs.star import record as record
from labs.star.record import WAYS, Record

WEB = Path(__file__).resolve().parent / "web"
Round = dict[str, Any]  # the outcomes of one round's stages, by stage
REMEDIES = {  # a change of the constants that may keep right samples with this fault of form
    "too few steps": "lower MIN_STEPS",
    "too many steps": "raise MAX_STEPS",
    "no final line": "FEWSHOT=none also accepts a box, and FEWSHOT=math shows examples",
    "text after it": "FEWSHOT=format cuts this text off",
}

records = record.paths


def is_folder(folder: Path) -> bool:
    """Return whether `folder` contains the records of STaR runs."""
    return bool(records(folder))


def results(folder: Path) -> list[Path]:
    """List the results files of all runs in `folder`: run by run, then round by round."""
    return [path for run in record.records(folder) for path in record.results(run)]


def answers(args: Namespace, folder: Path) -> bool:
    """Print Markdown tables for `--markdown` if all arguments name folders of STaR runs. Return whether it did."""
    if not args.markdown or args.live or args.jsonl is not None:
        return False
    folders = [found for name in args.results if (found := comparison([name], folder)) and is_folder(found)]
    if not folders or len(folders) < len(args.results):
        return False
    print("\n\n".join(map(markdown, folders)))
    return True


def tables(runs: Sequence[Record]) -> list[Table]:
    """Return the tables of each run (rounds, samples, dropped samples). For several runs, a summary comes first."""
    shown = [_summary(runs)] if len(runs) > 1 else []
    for run in runs:
        if done(run):
            shown += [_rounds(run), *([_collections(run)] if done(run, "collected") else []), *_dropped(run)]
    return shown


def show(folder: Path) -> str:
    """Write table.txt and rounds.png into `folder`, and return the text for the terminal.
    If the terminal's width is known and there are several runs, the text has only the summary table and the notes."""
    runs, width = _evaluated(folder), columns()
    shown, notes, path = tables(runs), _notes(runs, folder), folder / "table.txt"
    every = [table.text() for table in shown]
    write_atomically(path, "\n\n".join([*every, f"{notes}\n"]).encode())
    curves(runs, folder, folder / "rounds.png")
    if not width:
        return "\n\n".join([*every, notes])
    fits = [table.text(width) for table in (shown[:1] if len(runs) > 1 else shown)]
    more = "" if fits == every else f"\nall figures: {path}"
    return "\n\n".join([*fits, wrapped(notes, "  ")]) + more


def markdown(folder: Path) -> str:
    """Return the tables and notes of `folder` in Markdown. Raises UserError if no round is evaluated yet."""
    runs = _evaluated(folder)
    return "\n\n".join([*(table.markdown() for table in tables(runs)), _notes(runs, folder)])


def page(folder: Path, runs: Sequence[Run]) -> View:
    """Return the view that draws the rounds of `folder`. `runs` are the folder's results. Raises UserError."""
    shown = data(folder, [run.name for run in runs])
    return View(shown, _between_rounds(runs, shown), (WEB / "rounds.js",), (WEB / "star.css",))


def data(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the page's data about the runs in `folder`. `names` lists the results on the page, in order."""
    runs = _evaluated(folder)
    numbers = {name: number for number, name in enumerate(names)}
    return {
        "name": one_line(folder.name, 80),
        "view": "rounds",
        "heading": "Rounds",
        "warnings": _warnings(runs, folder),
        "legend": [LEGEND[-1]],
        "tables": [table.page(numbers) for table in tables(runs)],
        "runs": [_on_page(run, numbers) for run in runs],
    }


def _on_page(run: Record, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the page's data about a run. `numbers` maps the name of a results file to its number on the page."""
    start, data = run.head["start"], run.head["data"]
    about = (
        f"from {one_line(start['name'], 60)} ({start['digest'][:12]}), trained on problems of "
        f"{one_line(data['name'], 60)} ({data['train']:,}), evaluated on {one_line(data['held_out_name'], 60)} "
        f"({data['held_out']:,})"
    )
    evaluated = [(each["round"], each["evaluated"]) for each in done(run)]
    collected = {str(each["round"]): numbers.get(each["collected"]["results"]) for each in done(run, "collected")}
    return {
        "label": run.label,
        "arm": arm(run.label),
        "about": about,
        "best": _best(run),
        "complete": run.head["complete"],
        "rounds": [
            {
                "round": number,
                "accuracy": stage["accuracy"],
                "sampled": stage["sampled_accuracy"],
                "gain": _gain(stage["gain"]),
                "results": numbers.get(stage["greedy"]),
            }
            for number, stage in evaluated
        ],
        "collected": {number: place for number, place in collected.items() if place is not None},
    }


def _between_rounds(runs: Sequence[Run], shown: dict[str, Any]) -> dict[str, Any] | None:
    """Compare each evaluation at temperature 0 with round 0 of its run. Return None if there is no pair.
    Only the mean accuracy is compared, because the vote over one sample equals it. The field `groups` has the
    numbers of each run's results on the page."""
    notes: list[str] = []
    pairs: list[compare.Pair] = []
    names, metric = labels(runs), compare.METRICS[0]
    groups = [
        [each["results"] for each in run["rounds"] if each["results"] is not None]
        for run in shown["runs"]
        if run["rounds"][0]["results"] is not None
    ]
    for first, *others in groups:
        start = compare.read(str(runs[first].path), runs[first].path.parent)
        for other in others:
            path = runs[other].path
            try:
                pair = compare.pair(start, compare.read(str(path), path.parent), anyway=True, is_trained=True)
            except UserError as error:
                notes.append(str(error))
                continue
            notes += pair.notes
            pairs.append(replace(pair, name=names[other], metrics={metric: pair.metrics[metric]}))
    if not pairs:
        return None
    return {"table": compare.differences(pairs, "round 0 of its run").page(), "notes": notes, "groups": groups}


def _evaluated(folder: Path) -> list[Record]:
    """Return the runs in `folder` that have an evaluated round. Raises UserError if there is no such run."""
    runs = [run for run in record.records(folder) if done(run)]
    if not runs:
        raise UserError(f"{folder.name} has no evaluated round yet. Wait for the first round ({CONTINUES})")
    return runs


def _notes(runs: Sequence[Record], folder: Path) -> str:
    return "\n".join(f"note: {note}" for note in (*LEGEND, *_warnings(runs, folder)))


def done(run: Record, stage: str = "evaluated") -> list[Round]:
    """Return the rounds that have `stage`, up to the run's last round. A longer run may have recorded later rounds."""
    last = run.head.get("last") if run.head["complete"] else None
    return [each for each in run.rounds[: None if last is None else last + 1] if stage in each]


def _best(run: Record) -> int:
    """Return the number of the round with the highest accuracy at temperature 0. In a tie the earliest round wins."""
    best: Round = max(done(run), key=lambda each: (each["evaluated"]["accuracy"]["value"], -each["round"]))
    return int(best["round"])


def _warnings(runs: Sequence[Record], folder: Path) -> list[str]:
    warnings = [f"{run.label} is not complete ({CONTINUES})" for run in runs if not run.head["complete"]]
    for run in runs:
        newest = [
            f"round {each['round']}: {words}"
            for each in done(run, "collected")
            if (words := malformed(each["collected"]))
        ]
        warnings += [f"{run.label}, {words}" for words in newest[-1:]]
    head = _first(runs, folder)
    return warnings + ([one_line(warning) for warning in head.warnings if "card" in head.model] if head else [])


def _first(runs: Sequence[Record], folder: Path) -> Head | None:
    names = (each["evaluated"]["greedy"] for run in runs for each in done(run))
    path = next((path for name in names if (path := folder / f"{name}.json").exists()), None)
    return stored.read(path)[0] if path else None


def _rounds(run: Record) -> Table:
    rounds = done(run)
    best, last = _best(run), rounds[-1]["round"]
    numbers = [each["round"] for each in rounds]
    marks = [", ".join(["best"] * (number == best) + ["last"] * (number == last)) for number in numbers]
    about = one_line(run.head["data"]["held_out_name"], 60)
    n = rounds[0]["evaluated"]["accuracy"]["n"]
    so_far = "last" if run.head["complete"] else "last so far"
    title = f"{run.label}: evaluated on {n} problems of {about} (best: round {best}, {so_far}: round {last})"
    if with_shots := rounds[0]["evaluated"].get("with_shots"):
        rounds = [{"round": "0 with SHOTS", "evaluated": rounds[0]["evaluated"] | UNSAMPLED | with_shots}, *rounds]
        marks = ["", *marks]
    opens = [{"evaluation": each["evaluated"]["greedy"]} | _samples(each) for each in rounds]
    return Table(title, filled((*ACCURACIES, ON_SHOTS, *REPLIES), rounds, run), opens, marks, ABOUT)


def _collections(run: Record) -> Table:
    rounds = done(run, "collected")
    title = f"{run.label}: samples and training in each round"
    return Table(title, filled(COLLECTIONS, rounds), [_samples(each) for each in rounds])


def _samples(each: Round) -> dict[str, str]:
    """Return the link to a round's samples, or {} if the round collected none."""
    return {"samples": name} if (name := each.get("collected", {}).get("results")) else {}


def malformed(collected: dict[str, Any]) -> str:
    """Count the right samples that a round dropped for their form, with known remedies. Return "" if there are none."""
    words = []
    for why, count in collected.get("malformed", {}).items():
        words.append(f"{count} {one_line(why, 60)}" + (f" ({REMEDIES[why]})" if why in REMEDIES else ""))
    return f"right samples dropped for their form: {', '.join(words)}" if words else ""


def _dropped(run: Record) -> list[Table]:
    rounds = [each for each in done(run, "collected") if not each["collected"]["repeats"]]
    counts: dict[tuple[str, str], list[int]] = {}
    for place, each in enumerate(rounds):
        for way, reasons in each["collected"]["dropped"].items():
            for reason, count in reasons.items():
                counts.setdefault((way, one_line(reason, 60)), [0] * len(rounds))[place] = count
    if not counts:
        return []
    rows = sorted(counts, key=lambda key: (WAYS.index(key[0]), -sum(counts[key])))
    shown = [Column("dropped", [f"{way}: {reason}" for way, reason in rows])]
    for place, each in enumerate(rounds):
        shown.append(Column(f"round {each['round']}", [str(counts[row][place]) for row in rows], rank=1))
    shown.append(Column("in all", [str(sum(counts[row])) for row in rows]))
    return [Table(f"{run.label}: dropped samples, by try and reason", shown)]


def arm(label: str) -> str:
    """Return the label of a run without its seed, or "star" if nothing is left."""
    return label.rpartition("seed")[0].rstrip("-") or "star"


def _summary(runs: Sequence[Record]) -> Table:
    metrics = (
        Metric("run", "", lambda run: run.label),
        Metric("round 0", "", lambda run: interval(done(run)[0]["evaluated"]["accuracy"]), rank=3),
        *([WITH_SHOTS] if any(map(_shots, runs)) else []),
        Metric("last", "", lambda run: str(done(run)[-1]["round"]), rank=1),
        Metric("right at t=0", "", lambda run: interval(done(run)[-1]["evaluated"]["accuracy"])),
        Metric("minus round 0", "", lambda run: _gain(done(run)[-1]["evaluated"]["gain"])),
        Metric("best", "", lambda run: str(_best(run)), rank=2),
        Metric("unsound of kept", "", _unsound, rank=4),
        Metric("sampled tokens", "", _sampled_tokens, rank=5),
        Metric("trained on", "", lambda run: _tokens(sum(each["trained"]["tokens"] for each in done(run)[1:])), rank=5),
        Metric("s", "", _seconds, rank=6),
    )
    opens = [{"last": done(run)[-1]["evaluated"]["greedy"]} for run in runs]
    return Table("all runs at temperature 0, after their last round", filled(metrics, runs), opens, about=LEGEND[0])


def _shots(run: Record) -> dict[str, Any] | None:
    """Return the evaluation of round 0 with SHOTS, or None."""
    found: dict[str, Any] | None = run.rounds[0]["evaluated"].get("with_shots")
    return found


WITH_SHOTS = Metric("0 with SHOTS", "", lambda run: _rate((_shots(run) or {}).get("accuracy")), rank=3)


def _evaluations(run: Record) -> list[dict[str, Any]]:
    return [*([shots] if (shots := _shots(run)) else []), *(each["evaluated"] for each in done(run))]


def _collected(run: Record) -> list[dict[str, Any]]:
    return [each["collected"] for each in done(run)[1:] if not each["collected"]["repeats"]]


def _unsound(run: Record) -> str:
    unsound, kept = (sum(sum(each[name].values()) for each in _collected(run)) for name in ("unsound", "kept"))
    return f"{unsound} of {kept}"


def _sampled_tokens(run: Record) -> str:
    counts = [each["tokens"] for each in (*_collected(run), *_evaluations(run))]
    return _tokens(None if None in counts else sum(counts))


def _seconds(run: Record) -> str:
    stages = [each[stage] for each in done(run) for stage in ("collected", "trained") if stage in each]
    return f"{sum(stage.get('seconds', 0) for stage in (*stages, *_evaluations(run))):,.0f}"


def curves(runs: Sequence[Record], folder: Path, path: Path) -> None:
    """Draw each run's accuracy at temperature 0 over the rounds, and a single run's sampled accuracy, if any."""
    lines = [(run.label, [(each["round"], each["evaluated"]["accuracy"]) for each in done(run)]) for run in runs]
    if len(runs) == 1 and _has_samples(runs[0]):
        rates = [(each["round"], each["evaluated"]["sampled_accuracy"]) for each in done(runs[0])]
        sampled = [(number, rate) for number, rate in rates if rate]
        lines = [("temperature 0", lines[0][1]), ("sampled, mean over seeds", sampled)]
    if not (head := _first(runs, folder)):
        raise UserError(f"{folder.name} lacks its results files, so nothing can be drawn. Run the experiment again")
    complete = all(run.head["complete"] for run in runs)
    document = head.document | {"experiment": folder.name, "config": {}, "complete": complete}
    document["model"] = document["model"] | {"name": runs[0].head["start"]["name"]}
    plot.rounds(document, lines, path)


def figures(folder: Path, to: Path) -> list[Path]:
    """Draw the curve of the runs in `folder` into the folder `to`, as PNG and SVG. Return their paths."""
    runs, paths = _evaluated(folder), [to / "rounds.png", to / "rounds.svg"]
    for path in paths:
        curves(runs, folder, path)
    return paths


def _gain(gain: dict[str, Any] | None) -> str:
    return shift(gain["difference"], gain["low"], gain["high"]) if gain else NONE


def _rate(rate: dict[str, Any] | None) -> str:
    return interval(rate) if rate else NONE


def _sum(counts: Mapping[str, int]) -> str:
    return str(sum(counts.values()))


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else short(count)


def _has_samples(run: Record, votes: int = 1) -> bool:
    is_sampled = any(each["evaluated"]["sampled_accuracy"] for each in done(run))
    return is_sampled and run.head["config"]["VOTES"] >= votes


# The columns of a run's tables. Each row is a round.


def _cell(stage: str, head: str, meaning: str, read: Callable[[dict[str, Any]], str], **more: Any) -> Metric:
    """Return a column about one stage. A cell is NONE if the round lacks the stage, or only repeats it (REPEAT=1)."""

    def cell(each: Round) -> str:
        outcome = each.get(stage)
        return read(outcome) if outcome and not outcome.get("repeats") else NONE

    return Metric(head, meaning, cell, **more)


_evaluation, _collection, _training = (partial(_cell, stage) for stage in ("evaluated", "collected", "trained"))


def _way(way: str) -> Metric:
    meaning = "samples kept from the first try, a retry, or rationalisation (with the reference answer in the prompt)"
    return _collection(way, meaning if way == WAYS[0] else "", lambda of: str(of["kept"][way]), named="kept")


LOSSES = "{first_loss:.4f} to {last_loss:.4f}"
ACCURACIES = (
    Metric("round", "", lambda of: str(of["round"])),
    _evaluation("right at t=0", "", lambda of: interval(of["accuracy"])),
    _evaluation("minus round 0", "change since round 0, paired by problem", lambda of: _gain(of["gain"])),
)
ON_SHOTS = _evaluation(
    "minus 0 with SHOTS", "", lambda of: _gain(of.get("gain_on_shots")), when=lambda run: bool(_shots(run))
)
UNSAMPLED = {"sampled_accuracy": None, "vote": None}
REPLIES = (
    _evaluation(
        "sampled", "mean accuracy over SEEDS", lambda of: _rate(of["sampled_accuracy"]), when=_has_samples, rank=1
    ),
    _evaluation(
        "vote", "majority of VOTES samples", lambda of: _rate(of["vote"]), when=partial(_has_samples, votes=2), rank=2
    ),
    _evaluation(
        "format", "% of replies at t=0 in the form to train on", lambda of: f"{100 * of['format']['value']:.1f}", rank=3
    ),
    _evaluation(
        "steps", "lines before the answer", lambda of: NONE if of["steps"] is None else f"{of['steps']:.1f}", rank=4
    ),
    _evaluation("truncated", "replies at t=0 cut off at MAX_TOKENS", lambda of: str(of["truncated"]), rank=2),
    _evaluation("failed", "", lambda of: str(of["failed"]), rank=2),
    _evaluation("timed out", "requests at t=0 over TIMEOUT or STALL_SECONDS", lambda of: str(of["timed_out"]), rank=2),
    _evaluation("tokens", "", lambda of: _tokens(of["tokens"]), rank=5),
    _evaluation("s", "", lambda of: f"{of['seconds']:,.0f}", rank=6),
)
COLLECTIONS = (
    Metric("round", "", lambda of: str(of["round"])),
    _collection("samples", "", lambda of: str(of["samples"])),
    *map(_way, WAYS),
    _collection("dropped", "", lambda of: str(sum(sum(reasons.values()) for reasons in of["dropped"].values()))),
    _collection("malformed", "right samples with a wrong form", lambda of: _sum(of.get("malformed", {})), rank=1),
    _collection("unsound", "samples kept with a false equation", lambda of: _sum(of["unsound"]), rank=2),
    _collection("tokens", "", lambda of: _tokens(of["tokens"]), rank=3),
    _collection("s", "", lambda of: f"{of['seconds']:,.0f}", rank=5),
    Metric("rows", "traces to train on, one for each problem", lambda of: str(of["collected"]["rows"]), rank=1),
    _training("trained on", "", lambda of: _tokens(of["tokens"]), rank=3),
    _training("training s", "", lambda of: f"{of['seconds']:,.0f}", rank=5),
    _training("loss", "mean over the first tenth of the updates, and over the last tenth", LOSSES.format_map, rank=4),
)
ABOUT = "accuracies in % of the held-out problems, with 95% confidence intervals"
LEGEND = (
    f"{ABOUT}{BETWEEN}{legend(ACCURACIES)}",
    legend(REPLIES),
    legend(COLLECTIONS),
    "the best round was chosen on the held-out problems, so its accuracy may be slightly too high. This does not apply "
    "to the last round",
)
