"""Write the warnings about the figures of a run."""

import re
from collections.abc import Mapping
from typing import Any

from core.base.errors import one_line
from core.constants import BOXED, PENALTIES, WHOLE
from core.eval import by_answer
from harness.results import missing_answers

# If a server ignores seeds, nearly all members repeat the first member, so a population has about
# one distinct text. Short solutions may also repeat, but a population then has several distinct
# texts.
MANY_IDENTICAL = 0.85
FEW_TEXTS = 1.5
CONTINUES = "if the run has stopped, the same command continues it"  # also correct during a run
# A larger share of truncated, forced or empty completions, or of such SILENT_REPLIES, causes a
# warning.
MANY_TRUNCATED = 0.1

# Counts of completions in `metrics`: journal completions by the server that made them
# (Server.origin), journal completions whose weights only a name or path shows (Server.rests_on),
# and completions by the model in their replies.
COUNTS = ("reused", "reused_by", "models")
SILENT_REPLIES = {
    "only_thinks": "have text only in the reasoning field, and no answer. The server's parser may have taken the "
    "answer for thinking. Check its reasoning parser",
    "only_calls": "only call a tool, and have no answer. Start the server without its tool parser",
}
OF_SIDE_CALLS = {
    "truncated": "hit the token cap",
    "failed": "failed",
    "empty": "are empty",
    "filtered": "are filtered",
    "only_thinks": "have text only in the reasoning field",
    "only_calls": "only call a tool",
}
SHOWN_MODELS = 3  # maximum number of models in a warning
# At the end of names: gpt-4o-2024-08-06, claude-sonnet-4-20250514, gpt-4-0613, gemini-1.5-pro-002,
# qwen3:latest.
_RELEASE = re.compile(r"(?:[-@:](?:latest|preview|0|\d{4}-\d\d-\d\d|\d{8}|\d{3,4}))+$")


def of_run(document: dict[str, Any], commonest_error: str | None) -> list[str]:
    """Return the warnings of a results document. `commonest_error` is the commonest error of failed
    completions."""
    metrics, steps = document["metrics"], document["metrics"]["steps"]
    completions = sum(s["completions"] for s in steps)
    most_often = f", most often: {one_line(str(commonest_error), 300)}"
    found = of_card(document["model"])
    if is_ungraded(document):
        found.append(
            "these proofs are not graded, so there are no accuracies. Run scripts/grade.sh"
        )
    if document["engine"].get("seeds") is False:
        found.append(
            "the server ignores seeds, so another run gives other answers. With SGLang, set "
            "DETERMINISTIC=1"
        )
    if document["engine"].get("templated") is False:
        found.append(
            "the model's GGUF file has no chat template, so llama.cpp used ChatML. Use a file with "
            "a template"
        )
    if places := metrics.get("no_reference"):
        first = (
            f"{len(places)} reference answers can't be read (the first belongs to problem "
            f"{places[0]} of the set)"
        )
        found.append(
            f"{first}. Answers to these problems are right only if they are spelled like the "
            "reference answer"
        )
    voted = [s["majority_accuracy"]["value"] for s in steps if s["majority_accuracy"]["n"]]
    single = any(s["mean_accuracy"]["value"] for s in steps)
    if voted and not any(voted) and not single and document.get("grader") == by_answer.__name__:
        unread = f"{sum(s['unread'] for s in steps)} of {completions} replies are unread"
        found.append(
            f"no reply of the run is right ({unread}). Compare a few replies with the reference "
            "answers"
        )
    if counts := metrics.get("unstated"):
        found.append(
            missing_answers.warning(
                counts, document["config"].get("ANSWER", BOXED) in (BOXED, WHOLE)
            )
        )
    if not document["complete"]:
        found.append(
            f"partial run: {sum(s['problems'] for s in steps)} populations so far ({CONTINUES})"
        )
    truncated = sum(s["truncated"] for s in steps)
    if truncated > MANY_TRUNCATED * completions:
        by_context = sum(s.get("context_ended", 0) for s in steps)
        if by_context:
            found.append(_of_context(by_context, completions, document))
        if by_cap := truncated - by_context:
            found.append(
                f"{by_cap / completions:.1%} of {completions} completions hit the token cap"
            )
    for count, words in (("failed", "failed"), ("forced", "were forced to answer")):
        share = sum(s[count] for s in steps) / completions if completions else 0
        if share > (MANY_TRUNCATED if count != "failed" else 0):
            found.append(
                f"{share:.1%} of {completions} completions "
                f"{words}{most_often if count == 'failed' else ''}"
            )
    for count, words in (
        ("empty", "are empty (the server sent no text)"),
        ("filtered", "were ended by a filter"),
    ):
        some = sum(s.get(count, 0) for s in steps)
        # a model may send a few empty replies
        if some > (MANY_TRUNCATED * completions if count == "empty" else 0):
            found.append(f"{some / completions:.1%} of {completions} completions {words}")
    for count, words in SILENT_REPLIES.items():
        some = sum(s.get(count, 0) for s in steps)
        if some > MANY_TRUNCATED * completions:  # a model may send a few of them
            found.append(f"{some} of {completions} replies {words}")
    if uncounted := sum(s.get("uncounted", 0) for s in steps):
        found.append(
            f"the server reported no tokens of {uncounted} completions and side calls. The sums "
            "lack them"
        )
    if steps and _repeats(document):
        found.append(
            f"step 0: {steps[0]['identical']} of {steps[0]['completions']} members repeat another "
            "member word for word although their seeds differ. Check whether the server ignores "
            "seeds or TEMPERATURE is 0"
        )
    undecided, pairs = (
        sum(s.get(what, 0) for s in steps) for what in ("undecided", "undecided_pairs")
    )
    if undecided or pairs:
        found.append(
            f"math-verify gave no verdict in time. {undecided} undecided answers count as wrong, "
            f"and {pairs} pairs of answers count as different in votes. Run the same command again "
            "to grade all replies from the journal"
        )
    checks = metrics.get("side_calls", {})
    for what, words in OF_SIDE_CALLS.items():
        if count := checks.get(what):
            why = most_often if what == "failed" else ""
            found.append(f"{count} of {checks['completions']} side calls {words}{why}")
    found += of_server(document, metrics)
    for name, words in (
        ("not_forced", "answers could not be forced, so the model's own replies count"),
        ("not_waited", "completions have fewer waits than WAITS, and count as they are"),
    ):
        if reasons := metrics.get(name):
            why = one_line(max(reasons, key=lambda each: reasons[each]), 300)
            found.append(f"{sum(reasons.values())} {words}, most often: {why}")
    if noted := metrics.get("notes"):
        counts = ", ".join(f"{count} {note}" for note, count in noted.items())
        found.append(f"handled by the scaffold: {counts}")
    checked = metrics.get("verification")
    if checked and checked["uniform_selections"] and "TAU" in document["config"]:
        uniform = f"{checked['uniform_selections']} of {checked['selections']}"
        found.append(
            f"selection was uniform in {uniform} scored populations, because no two readable "
            "scores differed"
        )
    if checked and checked["unreadable"]:
        found.append(f"{checked['unreadable']} of {checked['verdicts']} verdicts could not be read")
    return found


def _of_context(replies: int, completions: int, document: Mapping[str, Any]) -> str:
    """Return the warning about `replies` that the server truncated before their token cap."""
    tokens = max(map(int, document["metrics"]["context"]))
    known = document["engine"].get("context")
    ended = (
        f"(about {tokens:,} tokens of prompt and reply) ended {replies} of {completions} replies "
        "before MAX_TOKENS"
    )
    if known and tokens < 0.9 * known:
        return (
            f"a cap of the server {ended}, although its context has {known:,} tokens. Raise this "
            "cap"
        )
    remedy = "Serve a longer context (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx)"
    return f"the server's context {ended}. {remedy}"


def _repeats(document: Mapping[str, Any]) -> bool:
    """Return whether so many members of step 0 are identical that their seeds seem to have had no
    effect."""
    step = document["metrics"]["steps"][0]
    members, problems, identical = (step[name] for name in ("completions", "problems", "identical"))
    if document["engine"].get("seeds") and document["config"].get("TEMPERATURE", 1):
        return False  # the engine uses seeds, so repetitions come from the model
    return bool(
        identical > MANY_IDENTICAL * (members - problems)
        and members - identical < FEW_TEXTS * problems
    )


def is_ungraded(document: Mapping[str, Any]) -> bool:
    """Return whether a document has steps, but no graded populations."""
    steps = document["metrics"]["steps"]
    return bool(steps) and all(step["mean_accuracy"]["n"] == 0 for step in steps)


def of_card(model: Mapping[str, Any]) -> list[str]:
    """Return warnings from a model card: its note, and the constants that are never sent to the
    server."""
    card = model.get("card") or {}
    found = [card["note"]] if card.get("note") else []
    if unsent := [name for name in card.get("never", ()) if name not in PENALTIES]:
        names = ", ".join(name.upper() for name in unsent)
        found.append(
            f"the model card {card['name']} excludes these constants, so they had no effect: "
            f"{names}"
        )
    return found


def of_server(document: Mapping[str, Any], counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return warnings if the COUNTS show that completions may come from models that `document` does
    not name."""
    found, ours = list[str](), document["engine"].get("origin")
    asked = one_line(str(document["model"]["name"]), 300)  # shortened like names in replies
    others = {origin: n for origin, n in counts.get("reused", {}).items() if origin != ours}
    if others and ours:
        origins = ", ".join(
            f"{n:,} by {origin}" for origin, n in sorted(others.items(), key=lambda each: -each[1])
        )
        total = sum(others.values())
        found.append(
            f"{total:,} completions from the journal come from other servers than {ours}: {origins}"
        )
    for rests_on, n in counts.get("reused_by", {}).items():
        why = "they may come from other weights"
        found.append(f"{n:,} completions from the journal were matched only by {rests_on}: {why}")
    models = counts.get("models", {})
    names = sorted(models, key=lambda name: -models[name])
    if len({name.lower() for name in names}) > 1:
        shown = ", ".join(
            f"{models[name]:,} {one_line(name, 100)}" for name in names[:SHOWN_MODELS]
        )
        found.append(
            f"the replies name {len(names)} models ({shown}). The figures mix these models"
        )
    elif names and not is_spelling(asked, names[0]):
        found.append(
            f"the run asked for the model {asked}, but the replies name {one_line(names[0], 100)}"
        )
    return found


def is_spelling(asked: str, replied: str) -> bool:
    """Return whether two names mean one model. Path, suffix, release and route may differ. One may
    lack the maker."""
    names = [
        name.lower().replace("\\", "/").rstrip("/").removesuffix(".gguf")
        for name in (asked, replied)
    ]
    one, other = (_RELEASE.sub("", re.sub(r":[a-z]+$", "", name)) for name in names)
    # both names begin with a maker
    if one.count("/") == other.count("/") == 1 and one[0] != "/" != other[0]:
        return one == other
    return one.rpartition("/")[2] == other.rpartition("/")[2]
