"""Warnings on the figures of a run."""

import re
from collections.abc import Mapping
from typing import Any

from core.base.errors import one_line
from core.grading.answers import by_answer

# If a server draws the same for every seed, nearly all members after the first repeat it, and a population has about
# one text. Honest draws of short solutions repeat too, most of them if many are drawn, but have several texts.
MANY_IDENTICAL = 0.85
FEW_TEXTS = 1.5
CONTINUES = "if it has stopped, the same command continues it"  # true while a run is on, too
MANY_TRUNCATED = 0.1  # a share of truncated completions above this makes accuracy a figure about the cap

# Counts of completions in `metrics`: from the journal by their origins, from the journal by what alone connects them
# with the server (Server.rests_on), and all by the model that their replies name.
COUNTS = ("reused", "reused_by", "models")
SHOWN_MODELS = 3  # in a warning
# Behind a model's name: gpt-4o-2024-08-06, claude-sonnet-4-20250514, gpt-4-0613, gemini-1.5-pro-002, qwen3:latest.
_RELEASE = re.compile(r"(?:[-@:](?:latest|preview|0|\d{4}-\d\d-\d\d|\d{8}|\d{3,4}))+$")


def of_run(document: dict[str, Any], commonest_error: str | None) -> list[str]:
    """Return the warnings of a results document. `commonest_error`: of the completions that failed."""
    steps = document["metrics"]["steps"]
    completions = sum(s["completions"] for s in steps)
    found = of_card(document["model"])
    if is_ungraded(document):
        found.append(
            "not graded: nobody has said yet what these proofs are worth, so that there are no accuracies "
            "(scripts/grade.sh has a model say it)"
        )
    if document["engine"].get("seeds") is False:
        found.append(
            "the server ignores seeds: SEED decides which candidates are drawn, not what the model answers, so that "
            "another run gives other answers (SGLang honours seeds when it is started with DETERMINISTIC=1)"
        )
    if places := document["metrics"].get("no_reference"):
        found.append(
            f"{len(places)} references can't be read as one answer (problem {places[0]} of the set is the first): an "
            "answer to them is right only if it is spelled alike"
        )
    voted = [s["majority_accuracy"]["value"] for s in steps if s["majority_accuracy"]["n"]]
    single = any(s["mean_accuracy"]["value"] for s in steps)
    if voted and not any(voted) and not single and document.get("grader") == by_answer.__name__:
        unread = sum(s["unread"] for s in steps)
        found.append(
            f"no vote of the run equals its reference ({unread} of {completions} replies are unread): compare a few "
            "replies with the references before you believe it"
        )
    if not document["complete"]:
        done = sum(s["problems"] for s in steps)
        found.append(f"partial run: {done} populations so far; {CONTINUES}")
    for count, words in (("truncated", "hit the token cap"), ("failed", "failed"), ("forced", "were forced to answer")):
        share = sum(s[count] for s in steps) / completions if completions else 0
        if share > (MANY_TRUNCATED if count != "failed" else 0):
            why = f"; most often: {one_line(str(commonest_error), 300)}" if count == "failed" else ""
            found.append(f"{share:.1%} of {completions} completions {words}{why}")
    for count, words in (("empty", "are empty: the server sent no text"), ("filtered", "were ended by a filter")):
        some = sum(s.get(count, 0) for s in steps)
        if some > (MANY_TRUNCATED * completions if count == "empty" else 0):  # single ones are a model's own
            found.append(f"{some / completions:.1%} of {completions} completions {words}")
    if uncounted := sum(s.get("uncounted", 0) for s in steps):
        found.append(
            f"the server did not report the tokens of {uncounted} completions and side calls: figures lack them"
        )
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
    for what in ("truncated", "failed", "empty", "filtered"):
        if count := document["metrics"].get("checks", {}).get(what):
            why = f"; most often: {one_line(str(commonest_error), 300)}" if what == "failed" else ""
            words = "hit the token cap" if what == "truncated" else what
            found.append(f"{count} of {document['metrics']['checks']['completions']} side calls {words}{why}")
    found += of_server(document, document["metrics"])
    for name, words in (
        ("not_forced", "answers could not be opened for the model, so that its own words stand"),
        ("not_waited", "completions did not wait as often as WAITS says, and stand as they were"),
    ):
        if reasons := document["metrics"].get(name):
            why = one_line(max(reasons, key=lambda each: reasons[each]), 300)
            found.append(f"{sum(reasons.values())} {words}; most often: {why}")
    checked = document["metrics"].get("verification")
    if noted := document["metrics"].get("notes"):
        counts = ", ".join(f"{count} {note}" for note, count in noted.items())
        found.append(f"handled on purpose, and counted: {counts}")
    if checked and checked["uniform_selections"] and "TAU" in document["config"]:
        found.append(
            f"selection was uniform here: in {checked['uniform_selections']} of {checked['selections']} scored "
            "populations all scores were equal"
        )
    if checked and checked["unreadable"]:
        found.append(f"{checked['unreadable']} of {checked['verdicts']} verdicts could not be read")
    return found


def _repeats(document: Mapping[str, Any]) -> bool:
    """Tell whether members of step 0 are so alike that their seeds can't have mattered."""
    step = document["metrics"]["steps"][0]
    members, problems, identical = (step[name] for name in ("completions", "problems", "identical"))
    if document["engine"].get("seeds") and document["config"].get("TEMPERATURE", 1):
        return False  # an engine known to honour seeds: the model is that sure
    return bool(identical > MANY_IDENTICAL * (members - problems) and members - identical < FEW_TEXTS * problems)


def is_ungraded(document: Mapping[str, Any]) -> bool:
    """Return whether there are steps, and no population of them is graded."""
    steps = document["metrics"]["steps"]
    return bool(steps) and all(step["mean_accuracy"]["n"] == 0 for step in steps)


def of_card(model: Mapping[str, Any]) -> list[str]:
    """Return the note of a model's card, and the constants that its server is never sent."""
    card = model.get("card") or {}
    found = [card["note"]] if card.get("note") else []
    if unsent := card.get("never"):
        found.append(
            f"{', '.join(name.upper() for name in unsent)} of the configuration said nothing to the model: its card "
            f"({card['name']}) says that they are never sent"
        )
    return found


def of_server(document: Mapping[str, Any], counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the warnings that completions may come from other models than the one in the `document` of results.
    `counts`: of completions, those of COUNTS."""
    found, ours = list[str](), document["engine"].get("origin")
    asked = one_line(str(document["model"]["name"]), 300)  # as names in replies are kept
    others = {origin: n for origin, n in counts.get("reused", {}).items() if origin != ours}
    if others and ours:
        makers = "; ".join(f"{n:,} by {origin}" for origin, n in sorted(others.items(), key=lambda each: -each[1]))
        found.append(
            f"{sum(others.values()):,} completions from the journal were not made by this run's {ours}: {makers}"
        )
    for rests_on, n in counts.get("reused_by", {}).items():
        found.append(
            f"{n:,} completions from the journal were matched by {rests_on} alone: whether the same weights made them "
            "is not known"
        )
    models = counts.get("models", {})
    names = sorted(models, key=lambda name: -models[name])
    if len({name.lower() for name in names}) > 1:
        shown = ", ".join(f"{models[name]:,} {one_line(name, 100)}" for name in names[:SHOWN_MODELS])
        found.append(f"the replies name {len(names)} models ({shown}): the figures mix them")
    elif names and not is_spelling(asked, names[0]):
        found.append(f"the run asked for the model {asked}, and the replies name {one_line(names[0], 100)}")
    return found


def is_spelling(asked: str, replied: str) -> bool:
    """Return whether `replied` is a usual name of the model that was `asked` for: without its path or maker and the
    file's ending, with another release of the name, or without the route that a gateway takes ("model:free")."""
    names = [name.lower().replace("\\", "/").rstrip("/").removesuffix(".gguf") for name in (asked, replied)]
    one, other = (_RELEASE.sub("", re.sub(r":[a-z]+$", "", name)) for name in names)
    if one.count("/") == other.count("/") == 1 and one[0] != "/" != other[0]:  # two makers, each with a name
        return one == other
    return one.rpartition("/")[2] == other.rpartition("/")[2]
