"""Report on STaR runs: print or export their tables, and draw the curve of accuracy over rounds."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError, one_line
from core.base.files import write_atomically
from core.base.terminal import columns, wrapped
from harness.report import compare, plot
from harness.report.data import Results
from harness.results import read as stored
from harness.results.model import Head
from harness.results.registry import View
from harness.results.warnings import CONTINUES
from labs.star import record
from labs.star.aggregation import tables as learnt
from labs.star.record import Record, Round, best, done, headline
from labs.star.tables import gain_text, legend, page_notes, tables, words

WEB = Path(__file__).resolve().parent / "web"
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
    """List the existing results files in `folder`, by run and round: collected samples, then
    evaluations."""
    names = []
    for run in record.records(folder):
        for round_ in run.rounds:
            names.append(round_.get("collected", {}).get("results"))
            evaluated = round_.get("evaluated", {})
            names.append(evaluated.get("greedy"))
            if "rsa" in evaluated:
                names += learnt.results(round_).values()
    files = [folder / f"{name}.json" for name in names if name]
    return [file for file in files if file.exists()]


def show(folder: Path) -> str:
    """Write table.txt and rounds.png into `folder`, and return the text for the terminal. If the
    terminal's width is known and there are several runs, the text has only the summary table and
    the notes."""
    runs = _evaluated(folder)
    width = columns()
    shown = tables(runs)
    notes = _notes(runs, folder)
    path = folder / "table.txt"
    every = [table.text() for table in shown]
    write_atomically(path, "\n\n".join([*every, f"{notes}\n"]).encode())
    curves(runs, folder, folder / "rounds.png")
    if width and len(runs) > 1:
        shown = shown[:1]
    fits = [table.text(width) for table in shown]
    more = "" if fits == every else f"\nall figures: {path}"
    return "\n\n".join([*fits, wrapped(notes, "  ")]) + more


def markdown(folder: Path) -> str:
    """Return the tables and notes of `folder` in Markdown. Raises UserError if no round is
    evaluated yet."""
    runs = _evaluated(folder)
    parts = [table.markdown() for table in tables(runs)]
    return "\n\n".join([*parts, _notes(runs, folder)])


def figures(folder: Path, to: Path) -> list[Path]:
    """Draw the curve of the runs in `folder` into the folder `to`, as PNG and SVG. Return their
    paths."""
    runs = _evaluated(folder)
    paths = [to / "rounds.png", to / "rounds.svg"]
    for path in paths:
        curves(runs, folder, path)
    return paths


def curves(runs: Sequence[Record], folder: Path, path: Path) -> None:
    """Draw each run's accuracy over the rounds, and a single run's sampled accuracy, if any (see
    record.Headline)."""
    names = words(runs)
    axis = f"right at {names['accuracy']}, %"
    lines = [(run.label, _curve(run, "accuracy")) for run in runs]
    sampled = _curve(runs[0], "sampled")
    if len(runs) == 1 and sampled:
        axis = "right, %"
        mean = f"{names['sampled']}, mean over seeds"
        lines = [(names["accuracy"], lines[0][1]), (mean, sampled)]
    document = dict(_first(runs, folder).document)
    document["experiment"] = folder.name
    document["config"] = {}
    document["complete"] = all(run.head["complete"] for run in runs)
    document["model"] = document["model"] | {"name": runs[0].head["start"]["name"]}
    plot.curves([document], lines, path, "round", axis)


def _curve(run: Record, figure: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the rounds' numbers and this `figure` of their headlines, if any."""
    points = []
    for round_ in done(run):
        rate = vars(headline(round_))[figure]
        if rate:
            points.append((round_["round"], rate))
    return points


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
        "words": words(shown),
        "legend": page_notes(shown),
        "tables": [table.page(numbers) for table in tables(shown)],
        "runs": on_page,
    }
    return View(data, _between_rounds(runs, on_page), (WEB / "rounds.js",), (WEB / "star.css",))


def _on_page(run: Record, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the page's data about a run. `numbers` maps the name of a results file to its number
    on the page."""
    start = run.head["start"]
    data = run.head["data"]
    measure = f" at {words([run])['accuracy']}" if learnt.is_learnt(run) else ""
    collected = {}
    for round_ in done(run, "collected"):
        name = round_["collected"]["results"]
        if name in numbers:
            collected[round_["round"]] = numbers[name]
    return {
        "label": run.label,
        "arm": run.label.rpartition("seed")[0],  # without the seed
        "about": (
            f"from {one_line(start['name'], 60)}, trained on problems of "
            f"{one_line(data['name'], 60)} ({data['train']:,}), evaluated on "
            f"{one_line(data['held_out_name'], 60)} ({data['held_out']:,}){measure}"
        ),
        "best": best(run),
        "complete": run.head["complete"],
        "rounds": [_round(round_, numbers) for round_ in done(run)],
        "collected": collected,
    }


def _round(round_: Round, numbers: Mapping[str, int]) -> dict[str, Any]:
    figures = headline(round_)
    return {
        "round": round_["round"],
        "accuracy": figures.accuracy,
        "sampled": figures.sampled,
        "gain": gain_text(figures.gain),
        "results": numbers.get(figures.results),
    }


def _between_rounds(
    runs: Sequence[Results], on_page: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """Compare each evaluation with round 0 of its run. Return None if there is no pair. Only the
    mean accuracy is compared, by which rounds are ranked. The field `groups` has the numbers of
    each run's results on the page."""
    groups: list[list[int]] = []
    for run in on_page:
        numbers = [round_["results"] for round_ in run["rounds"]]
        if numbers[0] is not None:
            groups.append([number for number in numbers if number is not None])
    pairs: list[compare.Pair] = []
    for group in groups:
        first, *others = (compare.result(runs[number]) for number in group)
        pairs += [compare.pair(first, other, anyway=True) for other in others]
    if not pairs:
        return None
    metric = compare.METRICS[0]
    means = [replace(pair, metrics={metric: pair.metrics[metric]}) for pair in pairs]
    table = compare.differences(means, "round 0 of its run")
    return {"table": table.page(), "notes": [], "groups": groups}


# The rounds


def _evaluated(folder: Path) -> list[Record]:
    """Return the runs in `folder` that have an evaluated round. Raises UserError if there is no
    such run."""
    runs = [run for run in record.records(folder) if done(run)]
    if not runs:
        raise UserError(
            f"{folder.name} has no evaluated round yet. Wait for the first round ({CONTINUES})"
        )
    return runs


def _notes(runs: Sequence[Record], folder: Path) -> str:
    return "\n".join(f"note: {note}" for note in (*legend(runs), *_warnings(runs, folder)))


def _warnings(runs: Sequence[Record], folder: Path) -> list[str]:
    warnings = [
        f"{run.label} is not complete ({CONTINUES})" for run in runs if not run.head["complete"]
    ]
    labels = defaultdict[str, list[str]](list)  # arms may share their first samples
    for run in runs:
        for round_ in done(run, "collected")[-1:]:
            words = malformed(round_["collected"])
            if words:
                labels[f"round {round_['round']}: {words}"].append(run.label)
    for words, names in labels.items():
        warnings.append(f"{', '.join(names)}, {words}")
    head = _first(runs, folder)
    if "card" in head.model:
        warnings += map(one_line, head.warnings)
    return warnings


def malformed(collected: dict[str, Any]) -> str:
    """Count the right samples that a round dropped for their form, with known remedies. Return ""
    if there are none."""
    words = []
    for reason, count in collected["malformed"].items():
        remedy = f" ({REMEDIES[reason]})" if reason in REMEDIES else ""
        words.append(f"{count} {reason}{remedy}")
    return f"right samples dropped for their form: {', '.join(words)}" if words else ""


def _first(runs: Sequence[Record], folder: Path) -> Head:
    """Return the head of the runs' first results. Raises UserError if they can't be read."""
    return stored.read(folder / f"{runs[0].rounds[0]['evaluated']['greedy']}.json")[0]
