"""The figures of a run as text, from its results JSON alone."""

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from core.base.errors import one_line
from core.base.prices import shown as dollars
from core.base.terminal import short, wrapped
from core.report.table import NONE, Cell, Column, Metric, Table, filled
from core.results.warnings import is_ungraded
from core.types import GOOD, MAX_POINTS

NOT_GRADED = "not graded"
# What proofs are worth, by the names of core/results/points.py. Nobody votes on proofs, and none is accurate or not.
POINTS = f"mean points / {MAX_POINTS}"
SHARES = {"points": POINTS, "good": f"{GOOD} points or more", "full": f"{MAX_POINTS} points"}


def interval(estimate: dict[str, Any]) -> str:
    """A rate in percent with its 95% interval: "87.5 [78.1, 96.9]"."""
    if estimate["value"] is None:
        return "-"
    return f"{100 * estimate['value']:.1f} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"


def numbers(document: dict[str, Any]) -> list[int]:
    """By step, over how many problems its accuracies are, where that is not all problems at each step: of a partial
    run, those that got so far. Else nothing."""
    if is_ungraded(document):
        return []
    found = [step["mean_accuracy"]["n"] for step in document["metrics"]["steps"]]
    return found if set(found) - {document["problem_set"]["n"]} else []


def over(document: dict[str, Any]) -> str:
    """The same in words: "n=6 to 2"; "" where all problems are in each step."""
    counted = numbers(document)
    if is_of_proofs(document):  # steps that nobody graded are not drawn
        counted = [n for n in counted if n]
    if not set(counted) - {document["problem_set"]["n"]}:
        return ""
    return f"n={max(counted)}" + (f" to {min(counted)}" if min(counted) < max(counted) else "")


def shift(difference: float, low: float, high: float) -> str:
    """A difference of rates in points with its interval, where it has one: "+1.5 [-0.3, +3.2]"."""
    if math.isnan(low):
        return f"{100 * difference:+.1f}"
    return f"{100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def spent_tokens(count: int | None, is_partly: bool = False) -> str:
    """A number of tokens; `is_partly`: those of some completions are not in it, for nobody has counted them."""
    return "unknown" if count is None else f"{'≥ ' if is_partly else ''}{count:,}"


def spent_dollars(cost: float | None, is_partly: bool = False) -> str:
    """The same of money."""
    return "unknown" if cost is None else f"{'≥ ' if is_partly else ''}{dollars(cost)}"


def over_runs(over: dict[str, Any]) -> str:
    """A metric of several runs in percent: their mean, and the standard deviation between them: "83.8 ± 2.1"."""
    return f"{100 * over['mean']:.1f} ± {100 * over['std']:.1f}"


def runs_of(document: dict[str, Any]) -> int:
    """From how many runs the results were merged; 1: from none."""
    return len(document["runs"]["seeds"]) if document.get("runs") else 1


def merged(document: dict[str, Any]) -> str:
    """The same in words, "" of a single run: "mean of 3 runs"."""
    words = {"mean": "mean of", "max": "best of each problem in", "min": "worst of each problem in"}
    how = (document.get("runs") or {}).get("by")
    return f"{words.get(how, 'from')} {runs_of(document)} runs" if how and runs_of(document) > 1 else ""


def chance(p: float) -> str:
    """A p-value: "0.012", or "< 0.001"."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def is_of_proofs(document: dict[str, Any]) -> bool:
    """Whether results hold proofs that are graded."""
    return document["metrics"].get("proofs") is not None


def worths(proofs: dict[str, Any]) -> Table:
    """Tabulate the worth of proofs (the metrics' field `proofs`): over all problems, from run to run, and by split,
    level and category."""
    runs = proofs.get("runs")
    rows = [("all", proofs)]
    if runs:
        rows.append((f"{len(runs['points']['values'])} runs", runs))
    for name, groups in proofs["groups"].items():
        rows += [(f"{name} {one_line(group, 40)}", of) for group, of in groups.items()]
    made = [
        Column("", [name for name, _ in rows]),
        Column("problems", ["" if of is runs else str(of["points"]["n"]) for _, of in rows]),
        *(
            Column(head, [over_runs(of[name]) if of is runs else interval(of[name]) for _, of in rows])
            for name, head in SHARES.items()
        ),
    ]
    about = f"in %, with 95% intervals over problems; {POINTS}: of {proofs['proofs']:,} proofs"
    return Table("Points of the last populations", made, about=about + (" of all runs" if runs else ""))


def points_table(proofs: dict[str, Any]) -> str:
    """Format `worths`, then the tokens of right and of wrong proofs. "" if there is no grade."""
    if not proofs["points"]["n"]:
        return ""
    table = worths(proofs)
    return "\n".join([table.body(), "", wrapped(table.about), *of_runs(proofs), *written_by(proofs)])


def of_runs(proofs: dict[str, Any]) -> list[str]:
    """Explain the row of runs, if there is one."""
    return ["runs: mean ± standard deviation over them"] if proofs.get("runs") else []


def written_by(proofs: dict[str, Any]) -> list[str]:
    """The mean tokens of right and of wrong proofs, a line each; nothing where none are known."""
    lines = []
    for kind, few in (("right", f"{GOOD} points or more"), ("wrong", "fewer, and not delivered")):
        of = proofs["written"][kind]
        if of["thinking"] is not None:
            told = f"{of['thinking']:,.0f} thinking + {of['answer']:,.0f} answer, by characters"
            lines.append(f"tokens of the {of['proofs']:,} {kind} ones ({few}): {told}")
    return lines


def lacking(of: dict[str, Any]) -> list[str]:
    """Which proofs have no grade, of those that `of` counts; a line for each kind."""
    lines = []
    if counts := of["not_delivered"]:
        lines.append(f"not graded, and counted as 0 points: {listed(counts)}")
    if counts := of["missing"]:
        lines.append(f"missing, and counted nowhere: {listed(counts)}")
    return lines


def listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {one_line(why, 60)}" for why, count in counts.items())


def is_priced(document: dict[str, Any]) -> bool:
    """Whether results know what tokens cost."""
    return bool(document.get("prices")) and any(s.get("cost") is not None for s in document["metrics"]["steps"])


def final(document: dict[str, Any]) -> str:
    """What a run came to, in a line: "final: majority 88.3 [80.1, 94.0], +22.9 over step 0's vote, 175k tokens, 119 s".
    Of a run of one step, there is nothing to be over; of proofs that nobody has graded, it says so."""
    figures = document["metrics"]
    first, last = figures["steps"][0], figures["steps"][-1]
    name, before = (POINTS, "step 0") if is_of_proofs(document) else ("majority", "step 0's vote")
    voted = f"{name} {interval(last['majority_accuracy'])}"
    said = [f"final: {NOT_GRADED if is_ungraded(document) else voted}"]
    if over := last.get("runs"):
        said.append(f"over {runs_of(document)} runs {over_runs(over['majority_accuracy'])}")
    if last is not first and None not in (first["majority_accuracy"]["value"], last["majority_accuracy"]["value"]):
        gain = last["majority_accuracy"]["value"] - first["majority_accuracy"]["value"]
        said.append(f"{100 * gain:+.1f} over {before}")
    tokens = figures["tokens"]["completion"]
    spent = "unknown tokens" if tokens is None else f"{short(tokens)} tokens"
    said.append(f"{spent} in {runs_of(document)} runs" if runs_of(document) > 1 else spent)
    if is_priced(document):
        partly = any(step.get("uncounted") for step in figures["steps"])
        said.append(spent_dollars(figures.get("cost"), is_partly=partly))
    said.append(f"{figures['seconds']:,.0f} s")
    return ", ".join(said)


# The steps of a run


def _rate(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda step: interval(step[name])


def _runs(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda step: over_runs(step["runs"][name]) if step.get("runs") else NONE


def _counted(head: str, meaning: str, name: str = "", **more: Any) -> Metric:
    """Declare a column that counts completions. The page shows their share of all."""

    def share(step: dict[str, Any]) -> Cell:
        part = (step.get(name or head) or 0) / (step["completions"] or 1)
        return f"{100 * part:.1f}%", f"{step.get(name or head, 0)} of {step['completions']}", part > 0.1

    return Metric(head, meaning, lambda step: str(step.get(name or head, 0)), rank=1, read_page=share, **more)


def _named(document: dict[str, Any]) -> bool:
    return any(step.get("stage") for step in document["metrics"]["steps"])


def _is_partial(document: dict[str, Any]) -> bool:
    return bool(numbers(document))


def _has_answers(document: dict[str, Any]) -> bool:
    return not is_ungraded(document) and not is_of_proofs(document)


def _has_points(document: dict[str, Any]) -> bool:
    return not is_ungraded(document) and is_of_proofs(document)


def _has_runs(document: dict[str, Any]) -> bool:
    steps = document["metrics"]["steps"]
    return bool(steps) and all(step.get("runs") for step in steps) and not is_of_proofs(document)


def _name(step: dict[str, Any]) -> str:
    return f"{step['step']} {one_line(step.get('stage', ''), 40)}".strip()


def _n(step: dict[str, Any]) -> str:
    return str(step["mean_accuracy"]["n"])


def _cost(step: dict[str, Any]) -> str:
    return spent_dollars(step.get("cost"), is_partly=bool(step.get("uncounted")))


def _spent(step: dict[str, Any]) -> str:
    spent = spent_tokens(step["completion_tokens"], is_partly=bool(step.get("uncounted")))
    return spent + (f" + {spent_tokens(step['verification_tokens'])}" if step["verification_tokens"] != 0 else "")


def _best_pass(step: dict[str, Any]) -> str:
    found = step["pass_at_k"]
    return f"{(k := list(found)[-1])}: {interval(found[k])}" if found else NONE


def _is_other_than_n(document: dict[str, Any]) -> bool:
    """Return whether steps have other numbers of problems than their accuracies are over, each in every run."""
    steps = document["metrics"]["steps"]
    n = numbers(document) or [document["problem_set"]["n"]] * len(steps)
    return [step["problems"] for step in steps] != [count * runs_of(document) for count in n]


# A new column of the table of steps is one line here, beside its field in core/results/model.py.
STEPS = (
    Metric("step", "its number, and what the scaffold does in it", _name, _named),
    Metric("t", "the step", _name, lambda of: not _named(of)),
    Metric("n", "problems that got so far", _n, lambda of: not is_of_proofs(of) and _is_partial(of)),
    Metric(
        "graded", "problems whose proofs of that step have grades", _n, lambda of: is_of_proofs(of) and _is_partial(of)
    ),
    Metric("grades", "what proofs are worth, when somebody has graded them", lambda step: NOT_GRADED, is_ungraded),
    Metric(POINTS, "what proofs are worth, of all members", _rate("mean_accuracy"), _has_points),
    Metric(
        "points, runs",
        "mean ± standard deviation of the runs' means",
        _runs("mean_accuracy"),
        lambda of: _has_points(of) and any(step.get("runs") for step in of["metrics"]["steps"]),
    ),
    Metric("mean accuracy", "of all members", _rate("mean_accuracy"), _has_answers),
    Metric("majority accuracy", "of their vote", _rate("majority_accuracy"), _has_answers),
    Metric("mean, runs", "mean ± standard deviation of the runs' mean accuracies", _runs("mean_accuracy"), _has_runs),
    Metric("majority, runs", "the same of their votes", _runs("majority_accuracy"), _has_runs),
    Metric("pass@k", "k, and the share solved by any of k members", _best_pass, _has_answers, is_on_page=True),
    Metric("tokens", "written by solutions (+ by checks on them)", _spent, rank=1),
    Metric("tokens so far", "of all steps up to this", lambda step: spent_tokens(step["so_far"]), is_on_page=True),
    Metric("cost", "of all these tokens, at the prices of the model's card", _cost, is_priced, rank=1),
    Metric(
        "request s",
        "seconds summed over requests",
        lambda step: f"{step['generation_seconds']:,.0f}",
        rank=2,
        is_time=True,
    ),
    _counted("cut", "hit the cap", "truncated"),
    _counted("forced", "closed at the cap, to state an answer", is_on_page=True),
    _counted("unread", "a reply in which no answer could be found or read", when=_has_answers),
    _counted("doubtful", "read with a doubt, which the results name"),
    _counted("failed", "no reply"),
    _counted(
        "undecided",
        "no verdict of the grader, counted as wrong",
        when=lambda of: any(step.get("undecided") for step in of["metrics"]["steps"]),
    ),
    Metric(
        "problems", "with members in that step", lambda step: str(step["problems"]), _is_other_than_n, is_on_page=True
    ),
)


def steps_table(document: dict[str, Any]) -> Table:
    """Tabulate the steps of a run: accuracies in percent with 95% intervals over problems, tokens, cost, seconds and
    counts of completions."""
    steps = document["metrics"]["steps"]
    sums = accumulate((plus(step["completion_tokens"], step["verification_tokens"]) for step in steps), plus)
    rows = [step | {"so_far": so_far} for step, so_far in zip(steps, sums, strict=True)]
    unit = "" if is_ungraded(document) else "points" if is_of_proofs(document) else "accuracies"
    about = f"{unit} in %, with 95% intervals over problems" if unit else ""
    return Table(title(document), filled(STEPS, rows, document), about=about)


def plus(a: int | None, b: int | None) -> int | None:
    """Add two counts. None, an unknown count, makes the sum unknown."""
    return None if a is None or b is None else a + b


# The answers after waits
WAITS = (
    Metric("t", "", lambda of: str(of[0]["step"]), lambda steps: len(steps) > 1),
    Metric(
        "waits",
        "the answer after so many, or after the last where thinking waited less often",
        lambda of: str(of[1]["waits"]),
    ),
    Metric("mean accuracy", "", lambda of: interval(of[1]["mean_accuracy"])),
    Metric("gain over none", "paired by problem", lambda of: _gain(of[1].get("gain"))),
    Metric(
        "waited",
        "members that waited as often",
        lambda of: f"{of[1]['waited']:,} of {of[0]['completions']:,}" if of[1]["waits"] else "",
    ),
    Metric(
        "tokens a problem",
        "all written up to there, earlier answers too",
        lambda of: "unknown" if (n := of[1]["completion_tokens"]) is None else f"{n / of[0]['problems']:,.0f}",
    ),
)


def _gain(of: dict[str, Any] | None) -> str:
    return shift(of["value"], of["low"], of["high"]) if of else ""


def waits_table(document: dict[str, Any]) -> str:
    """Format accuracy against waits, of each step in which any member waited: of all members after so many waits at
    most, the gain over none, how many members waited as often, and their tokens by then. "" if no member waited."""
    steps = [step for step in document["metrics"]["steps"] if step.get("waits")]
    if not steps:
        return ""
    table = Table("", filled(WAITS, [(step, after) for step in steps for after in step["waits"]], steps))
    return f"{table.body()}\n\n{wrapped(table.legend())}"


def pass_table(document: dict[str, Any]) -> str:
    """Unbiased pass@k of the last step, one line per k; n, where it is not over all problems."""
    found = document["metrics"]["steps"][-1]["pass_at_k"]
    n = f"  n={counted[-1]}" if (counted := numbers(document)) else ""
    return "\n".join(f"pass@{k}  {interval(estimate)}{n}" for k, estimate in found.items())


def title(document: dict[str, Any]) -> str:
    """What was run on what: stands over every table and plot."""
    model, problems = one_line(document["model"]["name"], 200), one_line(document["problem_set"]["name"], 200)
    engine, n = one_line(document["engine"]["kind"], 200), document["problem_set"]["n"]
    said = f"{one_line(document['experiment'], 200)}: {model} ({engine}) on {problems}, n={n}"
    return ", ".join(filter(None, [said, merged(document)]))
