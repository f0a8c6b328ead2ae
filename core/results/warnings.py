"""Write the warnings about the figures of a run."""

import re
from collections.abc import Mapping
from typing import Any

from core.base.errors import one_line
from core.grading.answers import by_answer

# If a server ignores seeds, nearly all members repeat the first one, and a population has about one text. Short
# solutions may repeat too, but in several texts.
MANY_IDENTICAL = 0.85
FEW_TEXTS = 1.5
CONTINUES = "if it has stopped, the same command continues it"  # also correct while a run is on
MANY_TRUNCATED = 0.1  # above this share of truncated completions, accuracy depends on the cap

# Counts of completions in `metrics`: from the journal by origin, from the journal by the only link to the server
# (Server.rests_on), and all by the model that replies name.
COUNTS = ("reused", "reused_by", "models")
SHOWN_MODELS = 3  # in a warning
# At the end of names: gpt-4o-2024-08-06, claude-sonnet-4-20250514, gpt-4-0613, gemini-1.5-pro-002, qwen3:latest.
_RELEASE = re.compile(r"(?:[-@:](?:latest|preview|0|\d{4}-\d\d-\d\d|\d{8}|\d{3,4}))+$")


def of_run(document: dict[str, Any], commonest_error: str | None) -> list[str]:
    """Return the warnings of a results document. `commonest_error` is the one of failed completions."""
    metrics, steps = document["metrics"], document["metrics"]["steps"]
    completions = sum(s["completions"] for s in steps)
    most_often = f"; most often: {one_line(str(commonest_error), 300)}"
    found = of_card(document["model"])
    if is_ungraded(document):
        found.append("not graded: these proofs have no points yet, so there are no accuracies. Run scripts/grade.sh")
    if document["engine"].get("seeds") is False:
        found.append("the server ignores seeds: another run gives other answers (SGLang: start with DETERMINISTIC=1)")
    if places := metrics.get("no_reference"):
        first = f"{len(places)} references can't be read as one answer (the first is problem {places[0]} of the set)"
        found.append(f"{first}: an answer to these is right only if it has the same spelling")
    voted = [s["majority_accuracy"]["value"] for s in steps if s["majority_accuracy"]["n"]]
    single = any(s["mean_accuracy"]["value"] for s in steps)
    if voted and not any(voted) and not single and document.get("grader") == by_answer.__name__:
        unread = f"{sum(s['unread'] for s in steps)} of {completions} replies are unread"
        found.append(f"no vote of the run equals its reference ({unread}): compare a few replies with the references")
    if not document["complete"]:
        found.append(f"partial run: {sum(s['problems'] for s in steps)} populations so far; {CONTINUES}")
    for count, words in (("truncated", "hit the token cap"), ("failed", "failed"), ("forced", "were forced to answer")):
        share = sum(s[count] for s in steps) / completions if completions else 0
        if share > (MANY_TRUNCATED if count != "failed" else 0):
            found.append(f"{share:.1%} of {completions} completions {words}{most_often if count == 'failed' else ''}")
    for count, words in (("empty", "are empty: the server sent no text"), ("filtered", "were ended by a filter")):
        some = sum(s.get(count, 0) for s in steps)
        if some > (MANY_TRUNCATED * completions if count == "empty" else 0):  # a model may write a few itself
            found.append(f"{some / completions:.1%} of {completions} completions {words}")
    if uncounted := sum(s.get("uncounted", 0) for s in steps):
        found.append(f"figures lack the tokens of {uncounted} completions and side calls: the server reported none")
    if steps and _repeats(document):
        found.append(
            f"step 0: {steps[0]['identical']} of {steps[0]['completions']} members repeat another of their population "
            "word for word although their seeds differ; does the server ignore seeds, or is TEMPERATURE 0?"
        )
    undecided, pairs = (sum(s.get(what, 0) for s in steps) for what in ("undecided", "undecided_pairs"))
    if undecided or pairs:
        found.append(
            f"math-verify gave no verdict in time: {undecided} answers are undecided and count as wrong, {pairs} pairs "
            "of answers count as different in votes; the same command grades all again, from the journal"
        )
    checks = metrics.get("checks", {})
    for what in ("truncated", "failed", "empty", "filtered"):
        if count := checks.get(what):
            words = "hit the token cap" if what == "truncated" else what
            why = most_often if what == "failed" else ""
            found.append(f"{count} of {checks['completions']} side calls {words}{why}")
    found += of_server(document, metrics)
    for name, words in (
        ("not_forced", "answers could not be forced, so the model's own replies count"),
        ("not_waited", "completions waited less often than WAITS, and count as they are"),
    ):
        if reasons := metrics.get(name):
            why = one_line(max(reasons, key=lambda each: reasons[each]), 300)
            found.append(f"{sum(reasons.values())} {words}; most often: {why}")
    if noted := metrics.get("notes"):
        counts = ", ".join(f"{count} {note}" for note, count in noted.items())
        found.append(f"handled by the scaffold: {counts}")
    checked = metrics.get("verification")
    if checked and checked["uniform_selections"] and "TAU" in document["config"]:
        uniform = f"{checked['uniform_selections']} of {checked['selections']}"
        found.append(f"selection was uniform in {uniform} scored populations: all scores were equal")
    if checked and checked["unreadable"]:
        found.append(f"{checked['unreadable']} of {checked['verdicts']} verdicts could not be read")
    return found


def _repeats(document: Mapping[str, Any]) -> bool:
    """Return whether members of step 0 are so similar that their seeds can't have mattered."""
    step = document["metrics"]["steps"][0]
    members, problems, identical = (step[name] for name in ("completions", "problems", "identical"))
    if document["engine"].get("seeds") and document["config"].get("TEMPERATURE", 1):
        return False  # the engine honours seeds, so the model is certain
    return bool(identical > MANY_IDENTICAL * (members - problems) and members - identical < FEW_TEXTS * problems)


def is_ungraded(document: Mapping[str, Any]) -> bool:
    """Return whether there are steps, and none of their populations is graded."""
    steps = document["metrics"]["steps"]
    return bool(steps) and all(step["mean_accuracy"]["n"] == 0 for step in steps)


def of_card(model: Mapping[str, Any]) -> list[str]:
    """Return the note of a model's card, and the constants that are never sent to its server."""
    card = model.get("card") or {}
    found = [card["note"]] if card.get("note") else []
    if unsent := card.get("never"):
        names = ", ".join(name.upper() for name in unsent)
        found.append(f"{names} had no effect on the model: its card ({card['name']}) says that they are never sent")
    return found


def of_server(document: Mapping[str, Any], counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the warnings that completions, by their COUNTS, may come from other models than the `document` names."""
    found, ours = list[str](), document["engine"].get("origin")
    asked = one_line(str(document["model"]["name"]), 300)  # as names in replies are kept
    others = {origin: n for origin, n in counts.get("reused", {}).items() if origin != ours}
    if others and ours:
        origins = "; ".join(f"{n:,} by {origin}" for origin, n in sorted(others.items(), key=lambda each: -each[1]))
        total = sum(others.values())
        found.append(f"{total:,} completions from the journal were not made by this run's {ours}: {origins}")
    for rests_on, n in counts.get("reused_by", {}).items():
        why = "they may come from other weights"
        found.append(f"{n:,} completions from the journal were matched by {rests_on} alone: {why}")
    models = counts.get("models", {})
    names = sorted(models, key=lambda name: -models[name])
    if len({name.lower() for name in names}) > 1:
        shown = ", ".join(f"{models[name]:,} {one_line(name, 100)}" for name in names[:SHOWN_MODELS])
        found.append(f"the replies name {len(names)} models ({shown}): the figures mix them")
    elif names and not is_spelling(asked, names[0]):
        found.append(f"the run asked for the model {asked}, but the replies name {one_line(names[0], 100)}")
    return found


def is_spelling(asked: str, replied: str) -> bool:
    """Return whether both name one model: path, maker, file ending, release and a gateway's route may differ."""
    names = [name.lower().replace("\\", "/").rstrip("/").removesuffix(".gguf") for name in (asked, replied)]
    one, other = (_RELEASE.sub("", re.sub(r":[a-z]+$", "", name)) for name in names)
    if one.count("/") == other.count("/") == 1 and one[0] != "/" != other[0]:  # two makers, each with a name
        return one == other
    return one.rpartition("/")[2] == other.rpartition("/")[2]
