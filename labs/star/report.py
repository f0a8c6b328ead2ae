"""What runs in rounds (STaR) came to, from their records: tables for people (text, markdown, the page), and a curve."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError, one_line
from core.base.files import write_atomically
from core.base.terminal import columns, short, wrapped
from core.report import compare, plot
from core.report.page import Run, labels_of
from core.report.table import NONE, Column, Metric, Table, filled, legend
from core.report.tables import interval, shift
from core.results import read as stored
from core.results.find import comparison
from core.results.labs import View
from core.results.model import Head
from core.results.warnings import CONTINUES
from labs.star import record as record
from labs.star.record import WAYS, Record

WEB = Path(__file__).resolve().parent / "web"


def is_folder(folder: Path) -> bool:
    """Return whether `folder` belongs to an experiment in rounds."""
    return bool(record.paths(folder))


def results(folder: Path) -> list[Path]:
    """List the results of all runs in `folder`, round by round."""
    return [path for each in record.records(folder) for path in record.results(each)]


records = record.paths


def answers(args: Namespace, folder: Path) -> bool:
    """Print the tables of experiments in rounds for a document, if `--markdown` asks for them."""
    if not args.markdown or args.live or args.jsonl is not None:
        return False
    folders = [comparison([name], folder) for name in args.results]
    if not folders or not all(each and is_folder(each) for each in folders):
        return False
    print("\n\n".join(markdown(each) for each in folders if each))
    return True


def tables(records: Sequence[Record]) -> list[Table]:
    """Of several runs first what each came to; of each its rounds, what they took, and why samples were dropped."""
    made = [_summary(records)] if len(records) > 1 else []
    for each in records:
        if done(each):
            made += [_rounds(each), *([_making(each)] if _begun(each) else []), *_dropped(each)]
    return made


def show(folder: Path) -> str:
    """Write the table and the curve of the runs in `folder`; the table, fit for the terminal, comes back. A terminal
    has, of several runs, what each came to."""
    found, width = _evaluated(folder), columns()
    made, notes, whole = tables(found), _notes(found, folder), folder / "table.txt"
    every = [table.text() for table in made]
    write_atomically(whole, "\n\n".join([*every, f"{notes}\n"]).encode())
    curves(found, folder, folder / "rounds.png")
    if not width:
        return "\n\n".join([*every, notes])
    fits = [table.text(width) for table in (made[:1] if len(found) > 1 else made)]
    more = "" if fits == every else f"\nall figures: {whole}"
    return "\n\n".join([*fits, wrapped(notes, "  ")]) + more


def markdown(folder: Path) -> str:
    """The same tables for a document."""
    found = _evaluated(folder)
    return "\n\n".join([*(table.markdown() for table in tables(found)), _notes(found, folder)])


def page(folder: Path, runs: Sequence[Run]) -> View:
    """Return the view of the rounds in `folder`, whose results are `runs`. Raises UserError, as `show` does."""
    known = data(folder, [run.name for run in runs])
    return View(known, _between_rounds(runs, known), (WEB / "rounds.js",), (WEB / "star.css",))


def data(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return what the page says of the runs in `folder`. `names`: those of the results that it shows, in order."""
    found = _evaluated(folder)
    numbers = {name: number for number, name in enumerate(names)}
    return {
        "name": one_line(folder.name, 80),
        "view": "rounds",
        "heading": "Rounds",
        "warnings": _warnings(found, folder),
        "legend": [LEGEND[-1]],
        "tables": [table.page(numbers) for table in tables(found)],
        "runs": [_on_page(each, numbers) for each in found],
    }


def _on_page(each: Record, numbers: Mapping[str, int]) -> dict[str, Any]:
    """A run as the page takes it. `numbers`, also in what comes back: those of its results."""
    start, data = each.head["start"], each.head["data"]
    about = (
        f"from {one_line(start['name'], 60)} ({start['digest'][:12]}), trained on problems of "
        f"{one_line(data['name'], 60)} ({data['train']:,}), evaluated on {one_line(data['held_out_name'], 60)} "
        f"({data['held_out']:,})"
    )
    return {
        "label": each.label,
        "arm": arm(each.label),
        "about": about,
        "best": _best(each),
        "complete": each.head["complete"],
        "rounds": [
            {
                "round": of["round"],
                "accuracy": of["evaluated"]["accuracy"],
                "sampled": of["evaluated"]["sampled_accuracy"],
                "gain": _gain(of["evaluated"]["gain"]),
                "results": numbers.get(of["evaluated"]["greedy"]),
            }
            for of in done(each)
        ],
        "collected": {
            str(of["round"]): numbers[name] for of in _begun(each) if (name := of["collected"]["results"]) in numbers
        },
    }


def _between_rounds(runs: Sequence[Run], known: dict[str, Any]) -> dict[str, Any] | None:
    """Compare each evaluation at temperature 0 with that of round 0 of the same run. The weights differ on purpose,
    and of one sample the vote is the sample. `groups`: the numbers of the results of a run. None: there is no pair."""
    notes: list[str] = []
    pairs: list[compare.Pair] = []
    names = labels_of(runs)
    groups = [[of["results"] for of in each["rounds"] if of["results"] is not None] for each in known["runs"]]
    groups = [group for group, each in zip(groups, known["runs"], strict=True) if each["rounds"][0]["results"] in group]
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
            metric = compare.METRICS[0]
            pairs.append(replace(pair, name=names[other], metrics={metric: pair.metrics[metric]}))
    if not pairs:
        return None
    return {"table": compare.differences(pairs, "round 0 of its run").page(), "notes": notes, "groups": groups}


def _evaluated(folder: Path) -> list[Record]:
    """The runs in `folder` that have evaluated anything. Raises UserError where there is none."""
    found = [each for each in record.records(folder) if done(each)]
    if not found:
        raise UserError(f"no round of {folder.name} is evaluated yet. Wait for it; {CONTINUES}")
    return found


def _notes(found: Sequence[Record], folder: Path) -> str:
    return "\n".join(f"note: {note}" for note in (*LEGEND, *_warnings(found, folder)))


def _counted(each: Record) -> list[dict[str, Any]]:
    """The rounds of a run up to its last: those behind are of the same run with more ROUNDS, or another PATIENCE."""
    last = each.head.get("last") if each.head["complete"] else None
    return each.rounds if last is None else each.rounds[: last + 1]


def done(each: Record) -> list[dict[str, Any]]:
    """The rounds of a run that are evaluated, up to its last."""
    return [of for of in _counted(each) if "evaluated" in of]


def _begun(each: Record) -> list[dict[str, Any]]:
    """Those that have collected: the last one may not have trained."""
    return [of for of in _counted(each) if "collected" in of]


def _best(each: Record) -> int:
    """The round with the highest accuracy at temperature 0; of equal ones the earliest."""
    best: dict[str, Any] = max(done(each), key=lambda of: (of["evaluated"]["accuracy"]["value"], -of["round"]))
    return int(best["round"])


def _warnings(found: Sequence[Record], folder: Path) -> list[str]:
    told = [f"{each.label} is not complete; {CONTINUES}" for each in found if not _is_whole(each)]
    for each in found:
        newest = [f"round {of['round']}: {words}" for of in _begun(each) if (words := malformed(of["collected"]))]
        told += [f"{each.label}, {words}" for words in newest[-1:]]
    head = _first(found, folder)
    return told + ([one_line(warning) for warning in head.warnings if "card" in head.model] if head else [])


def _is_whole(each: Record) -> bool:
    return each.head["complete"] is True


def _first(found: Sequence[Record], folder: Path) -> Head | None:
    """The head of the first results that are there."""
    names = (of["evaluated"]["greedy"] for each in found for of in done(each))
    path = next((path for name in names if (path := folder / f"{name}.json").exists()), None)
    return stored.read(path)[0] if path else None


def _rounds(each: Record) -> Table:
    """How good the weights of each round are."""
    rounds = done(each)
    best, last = _best(each), rounds[-1]["round"]
    marks = [", ".join([*(["best"] * (n == best)), *(["last"] * (n == last))]) for n in (of["round"] for of in rounds)]
    about = one_line(each.head["data"]["held_out_name"], 60)
    n = rounds[0]["evaluated"]["accuracy"]["n"]
    so_far = "last" if _is_whole(each) else "last so far"
    title = f"{each.label}: evaluated on {n} problems of {about}; best: round {best}; {so_far}: round {last}"
    opens = [{"evaluation": of["evaluated"]["greedy"]} | _samples(of.get("collected", {})) for of in rounds]
    return Table(title, filled((*ACCURACIES, *REPLIES), rounds, each), opens, marks, ABOUT)


def _making(each: Record) -> Table:
    """What each round collected and trained on. One that repeats the first round's traces has collected none."""
    rounds = _begun(each)
    title = f"{each.label}: samples kept by way, tokens of sampling and of training"
    return Table(title, filled(MAKING, rounds), [_samples(_own(of)) for of in rounds])


def _samples(collected: dict[str, Any]) -> dict[str, str]:
    """What a round's samples are opened by; nothing where it collected none."""
    return {"samples": name} if (name := collected.get("results")) else {}


# The constant that would keep a right solution, by the reason for which it was dropped (labs/star/check.py).
KEEPS = {
    "too few steps": "lower MIN_STEPS",
    "too many steps": "raise MAX_STEPS",
    "no final line": "FEWSHOT=math shows one, FEWSHOT=none takes a box",
    "text after it": "FEWSHOT=format cuts it off",
}


def malformed(collected: dict[str, Any]) -> str:
    """Say how many right samples of a round were dropped for their form, and what would keep them; "" if none was."""
    counts: dict[str, int] = collected.get("malformed", {})
    helps = {why: f" ({constant})" for why, constant in KEEPS.items()}
    words = [f"{count} {one_line(why, 60)}{helps.get(why, '')}" for why, count in counts.items()]
    return f"right samples dropped for their form: {', '.join(words)}" if words else ""


def _dropped(each: Record) -> list[Table]:
    """Why samples were dropped, by way; nothing where none was."""
    rounds = [of for of in _begun(each) if not of["collected"]["repeats"]]
    counts: dict[tuple[str, str], list[int]] = {}
    for place, of in enumerate(rounds):
        for way, reasons in of["collected"]["dropped"].items():
            for reason, count in reasons.items():
                counts.setdefault((way, one_line(reason, 60)), [0] * len(rounds))[place] = count
    if not counts:
        return []
    rows = sorted(counts, key=lambda key: (WAYS.index(key[0]), -sum(counts[key])))
    made = [
        Column("dropped", [f"{way}: {reason}" for way, reason in rows]),
        *(
            Column(f"round {of['round']}", [str(counts[row][place]) for row in rows], rank=1)
            for place, of in enumerate(rounds)
        ),
        Column("in all", [str(sum(counts[row])) for row in rows]),
    ]
    return [Table(f"{each.label}: samples dropped, by way and reason", made)]


def arm(label: str) -> str:
    """What a run is called beside its seed."""
    return label.rpartition("seed")[0].rstrip("-") or "star"


def _summary(found: Sequence[Record]) -> Table:
    """Each run in a line."""
    firsts, lasts = [done(each)[0]["evaluated"] for each in found], [done(each)[-1] for each in found]
    ends = [of["evaluated"] for of in lasts]
    own = [[of["collected"] for of in done(each)[1:] if not of["collected"]["repeats"]] for each in found]
    kept = [sum(sum(of["kept"].values()) for of in collected) for collected in own]
    unsound = [sum(sum(of["unsound"].values()) for of in collected) for collected in own]
    asked = [
        [of["tokens"] for of in (*collected, *(of["evaluated"] for of in done(each)))]
        for each, collected in zip(found, own, strict=True)
    ]
    trained = [sum(of["trained"]["tokens"] for of in done(each)[1:]) for each in found]
    seconds = [
        sum(of[stage].get("seconds", 0) for of in done(each) for stage in Record.STAGES if stage in of)
        for each in found
    ]
    made = [
        Column("run", [each.label for each in found]),
        Column("round 0", [interval(of["accuracy"]) for of in firsts], rank=3),
        Column("last", [str(of["round"]) for of in lasts], rank=1),
        Column("right at t=0", [interval(of["accuracy"]) for of in ends]),
        Column("minus round 0", [_gain(of["gain"]) for of in ends]),
        Column("best", [str(_best(each)) for each in found], rank=2),
        Column("unsound of kept", [f"{bad} of {of}" for bad, of in zip(unsound, kept, strict=True)], rank=4),
        Column("sampled tokens", [_tokens(None if None in of else sum(of)) for of in asked], rank=5),
        Column("trained on", [_tokens(of) for of in trained], rank=5),
        Column("s", [f"{of:,.0f}" for of in seconds], rank=6),
    ]
    opens = [{"last": of["greedy"]} for of in ends]
    return Table("all runs, at temperature 0, after their last round", made, opens, about=LEGEND[0])


def curves(found: Sequence[Record], folder: Path, path: Path) -> None:
    """Accuracy at temperature 0 over the rounds, a line for each run; of one run also that of what it sampled."""
    lines = [(each.label, [(of["round"], of["evaluated"]["accuracy"]) for of in done(each)]) for each in found]
    if len(found) == 1 and any(of["evaluated"]["sampled_accuracy"] for of in done(found[0])):
        of_seeds = [(of["round"], rate) for of in done(found[0]) if (rate := of["evaluated"]["sampled_accuracy"])]
        lines = [("temperature 0", lines[0][1]), ("sampled, mean over seeds", of_seeds)]
    if not (head := _first(found, folder)):
        raise UserError(f"the results of {folder.name} are gone, so that there is nothing to draw. Run it again")
    document = head.document | {"experiment": folder.name, "config": {}, "complete": all(map(_is_whole, found))}
    document["model"] = document["model"] | {"name": found[0].head["start"]["name"]}
    plot.rounds(document, lines, path)


def figures(folder: Path, to: Path) -> list[Path]:
    """The curve of the runs in `folder`, in the folder `to`, as PNG and SVG."""
    found, drawn = _evaluated(folder), [to / "rounds.png", to / "rounds.svg"]
    for path in drawn:
        curves(found, folder, path)
    return drawn


def _gain(told: dict[str, Any] | None) -> str:
    return shift(told["difference"], told["low"], told["high"]) if told else NONE


def _rate(told: dict[str, Any] | None) -> str:
    return interval(told) if told else NONE


def _sum(counts: dict[str, int] | None) -> str:
    return NONE if counts is None else str(sum(counts.values()))


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else short(count)


# The columns of the tables of a run. A row is a round of its record.


def _own(of: dict[str, Any]) -> dict[str, Any]:
    """Return what a round collected. A round that repeats the first round's traces has collected nothing."""
    collected: dict[str, Any] = of["collected"]
    return {} if collected["repeats"] else collected


def _has_samples(each: Record) -> bool:
    return any(of["evaluated"]["sampled_accuracy"] for of in done(each))


def _evaluation(head: str, meaning: str, read: Callable[[dict[str, Any]], str], **more: Any) -> Metric:
    return Metric(head, meaning, lambda of: read(of["evaluated"]), **more)


def _collection(head: str, meaning: str, read: Callable[[dict[str, Any]], str], **more: Any) -> Metric:
    return Metric(head, meaning, lambda of: read(own) if (own := _own(of)) else NONE, **more)


def _training(head: str, meaning: str, read: Callable[[dict[str, Any]], str], **more: Any) -> Metric:
    return Metric(head, meaning, lambda of: read(of["trained"]) if of.get("trained") else NONE, **more)


def _way(way: str) -> Metric:
    meaning = "traces of the round by way (first try, retry, rationalised: shown the answer while sampling)"
    return _collection(way, meaning if way == WAYS[0] else "", lambda of: str(of["kept"][way]), named="kept")


ACCURACIES = (
    Metric("round", "", lambda of: str(of["round"])),
    _evaluation("right at t=0", "", lambda of: interval(of["accuracy"])),
    _evaluation("minus round 0", "paired by problem", lambda of: _gain(of["gain"])),
)
REPLIES = (
    _evaluation(
        "sampled", "mean over SEEDS at TEMPERATURE", lambda of: _rate(of["sampled_accuracy"]), when=_has_samples, rank=1
    ),
    _evaluation(
        "vote",
        "of VOTES samples",
        lambda of: _rate(of["vote"]),
        when=lambda each: _has_samples(each) and each.head["config"]["VOTES"] > 1,
        rank=2,
    ),
    _evaluation(
        "format", "passes the guard (MIN_STEPS, MAX_STEPS)", lambda of: f"{100 * of['format']['value']:.1f}", rank=3
    ),
    _evaluation(
        "steps", "lines before the answer", lambda of: NONE if of["steps"] is None else f"{of['steps']:.1f}", rank=4
    ),
    _evaluation("cut", "by MAX_TOKENS", lambda of: str(of["truncated"]), rank=2),
    _evaluation("failed", "", lambda of: str(of["failed"]), rank=2),
    _evaluation("timed out", "no answer within TIMEOUT", lambda of: str(of["timed_out"]), rank=2),
    _evaluation("tokens", "", lambda of: _tokens(of["tokens"]), rank=5),
    _evaluation("s", "", lambda of: f"{of['seconds']:,.0f}", rank=6),
)
MAKING = (
    Metric("round", "", lambda of: str(of["round"])),
    _collection("samples", "", lambda of: str(of["samples"])),
    *map(_way, WAYS),
    _collection("dropped", "", lambda of: str(sum(sum(reasons.values()) for reasons in of["dropped"].values()))),
    _collection("malformed", "right, but dropped for its form", lambda of: _sum(of.get("malformed")), rank=1),
    _collection("unsound", "kept though an equation in them is false", lambda of: _sum(of["unsound"]), rank=2),
    _collection("tokens", "", lambda of: _tokens(of["tokens"]), rank=3),
    _collection("s", "", lambda of: f"{of['seconds']:,.0f}", rank=5),
    Metric("rows", "trained on, one a problem, of all rounds so far", lambda of: str(of["collected"]["rows"]), rank=1),
    _training("trained on", "", lambda of: _tokens(of["tokens"]), rank=3),
    _training("training s", "", lambda of: f"{of['seconds']:,.0f}", rank=5),
    _training(
        "loss",
        "mean of the first and of the last tenth",
        lambda of: f"{of['first_loss']:.4f} to {of['last_loss']:.4f}",
        rank=4,
    ),
)
ABOUT = "accuracies in % of held-out problems, with 95% intervals over them"
LEGEND = (
    f"{ABOUT}; {legend(ACCURACIES)}",
    legend(REPLIES),
    legend(MAKING),
    "the best round is chosen on these very problems, so that its accuracy is a little too high; the last is not",
)
