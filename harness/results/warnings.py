"""Write the warnings about the figures of a run, by a list of rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.base.errors import one_line
from core.constants import BOXED, WHOLE
from core.eval import by_answer
from harness.results import missing_answers
from harness.results.model import has_scores
from harness.results.server_warnings import (
    of_card,
    of_seeds,
    of_server,
    of_template,
    of_thinking,
)

# If a server ignores seeds, nearly all members repeat the first member, so a population has about
# one distinct text. Short solutions may also repeat, but a population then has several distinct
# texts.
MANY_IDENTICAL = 0.85
FEW_TEXTS = 1.5
CONTINUES = "if the run has stopped, the same command continues it"  # also correct during a run
# A larger share of truncated, forced or empty completions, or of such SILENT_REPLIES, causes a
# warning.
MANY_TRUNCATED = 0.1
FULL_CONTEXT = 0.9  # a reply that ends at a smaller share of the context met another cap
SILENT_REPLIES = {
    "only_thinks": "have text only in the reasoning field, and no answer. The server's parser may "
    "have taken the answer for thinking. Check its reasoning parser",
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


class Run:
    """The results document of a run, with sums over its steps."""

    def __init__(self, document: Mapping[str, Any], commonest_error: str | None = None) -> None:
        self.document = document
        self.metrics = document["metrics"]
        self.steps = self.metrics["steps"]
        self.completions = self.count("completions")
        self.most_often = f", most often: {one_line(str(commonest_error), 300)}"

    def count(self, name: str) -> int:
        """Return the sum of a count over all steps."""
        return sum(step.get(name, 0) for step in self.steps)

    def share(self, name: str) -> float:
        """Return a count as a share of all completions."""
        return self.count(name) / self.completions if self.completions else 0.0


def _of_card(run: Run) -> list[str]:
    return of_card(run.document["model"])


def _not_graded(run: Run) -> list[str]:
    if not is_ungraded(run.document):
        return []
    return ["these proofs are not graded, so there are no accuracies. Run scripts/grade.sh"]


def _seeds_ignored(run: Run) -> list[str]:
    return of_seeds(run.document["engine"])


def _no_template(run: Run) -> list[str]:
    return of_template(run.document["engine"])


def _thinking_not_off(run: Run) -> list[str]:
    return of_thinking(run.document["engine"])


def _references_unread(run: Run) -> list[str]:
    numbers = run.metrics.get("no_reference")
    if not numbers:
        return []
    return [
        f"{len(numbers)} reference answers can't be read (the first belongs to problem "
        f"{numbers[0]} of the set). Answers to these problems are right only if they are spelled "
        "like the reference answer"
    ]


def _nothing_right(run: Run) -> list[str]:
    if run.document.get("grader") != by_answer.__name__:
        return []
    votes = [step["majority_accuracy"] for step in run.steps]
    is_voted = any(vote["n"] for vote in votes)
    if not is_voted or _is_any_right(run):
        return []
    unread = f"{run.count('unread')} of {run.completions} replies have no readable answer"
    result = "has the full score" if has_scores(run.document) else "is right"
    return [
        f"no reply of the run {result} ({unread}). Compare a few replies with the reference answers"
    ]


def _is_any_right(run: Run) -> bool:
    """Return whether a vote or a reply is right. Of scores, only the full score of a reply
    counts."""
    if has_scores(run.document):
        return any(step["pass_at_k"].get("1", {}).get("value") for step in run.steps)
    votes = [step["majority_accuracy"] for step in run.steps]
    is_any_vote_right = any(vote["value"] for vote in votes if vote["n"])
    return is_any_vote_right or any(step["mean_accuracy"]["value"] for step in run.steps)


def _answers_missing(run: Run) -> list[str]:
    counts = run.metrics.get("unstated")
    if not counts:
        return []
    is_boxed = run.document["config"].get("ANSWER", BOXED) in (BOXED, WHOLE)
    return [missing_answers.warning(counts, is_boxed)]


def _partial(run: Run) -> list[str]:
    if run.document["complete"]:
        return []
    return [f"partial run: {run.count('problems')} populations so far ({CONTINUES})"]


def _ended_by_context(run: Run) -> list[str]:
    # The server truncated these replies before their token cap.
    replies = run.count("context_ended")
    if not replies or run.share("truncated") <= MANY_TRUNCATED:
        return []
    tokens = max(map(int, run.metrics["context"]))
    context = run.document["engine"].get("context")
    ended = (
        f"(about {tokens:,} tokens of prompt and reply) ended {replies} of {run.completions} "
        "replies before MAX_TOKENS"
    )
    if context and tokens < FULL_CONTEXT * context:
        return [
            f"a cap of the server {ended}, although its context has {context:,} tokens. Raise "
            "this cap"
        ]
    remedy = "Serve a longer context (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx)"
    return [f"the server's context {ended}. {remedy}"]


def _ended_by_cap(run: Run) -> list[str]:
    replies = run.count("truncated") - run.count("context_ended")
    if not replies or run.share("truncated") <= MANY_TRUNCATED:
        return []
    share = replies / run.completions
    return [f"{share:.1%} of {run.completions} completions hit the token cap"]


def _failed(run: Run) -> list[str]:
    share = run.share("failed")
    if not share:
        return []
    return [f"{share:.1%} of {run.completions} completions failed{run.most_often}"]


def _forced(run: Run) -> list[str]:
    share = run.share("forced")
    if share <= MANY_TRUNCATED:
        return []
    return [f"{share:.1%} of {run.completions} completions were forced to answer"]


def _empty(run: Run) -> list[str]:
    share = run.share("empty")
    if share <= MANY_TRUNCATED:  # a model may send a few empty replies
        return []
    return [f"{share:.1%} of {run.completions} completions are empty (the server sent no text)"]


def _filtered(run: Run) -> list[str]:
    share = run.share("filtered")
    if not share:
        return []
    return [f"{share:.1%} of {run.completions} completions were ended by a filter"]


def _silent(run: Run) -> list[str]:
    warnings = []
    for name, words in SILENT_REPLIES.items():
        if run.share(name) > MANY_TRUNCATED:  # a model may send a few of them
            warnings.append(f"{run.count(name)} of {run.completions} replies {words}")
    return warnings


def _uncounted(run: Run) -> list[str]:
    calls = run.count("uncounted")
    if not calls:
        return []
    return [
        f"the server reported no tokens of {calls} completions and side calls. The sums lack them"
    ]


def _repeated(run: Run) -> list[str]:
    # If seeds have no effect, nearly all members of step 0 are identical.
    if not run.steps:
        return []
    step = run.steps[0]
    members = step["completions"]
    problems = step["problems"]
    identical = step["identical"]
    uses_seeds = run.document["engine"].get("seeds")
    if uses_seeds and run.document["config"].get("TEMPERATURE", 1):
        return []  # the repetitions come from the model
    are_many = identical > MANY_IDENTICAL * (members - problems)
    if not are_many or members - identical >= FEW_TEXTS * problems:
        return []
    return [
        f"step 0: {identical} of {members} members repeat another member word for word although "
        "their seeds differ. Check whether the server ignores seeds or TEMPERATURE is 0"
    ]


def _undecided(run: Run) -> list[str]:
    answers = run.count("undecided")
    pairs = run.count("undecided_pairs")
    if not answers and not pairs:
        return []
    return [
        f"{answers} undecided answers count as wrong, and {pairs} pairs of answers count as "
        "different in votes, because math-verify or a task's scorer failed or took too long. Run "
        "the same command again to grade all replies from the journal"
    ]


def _of_side_calls(run: Run) -> list[str]:
    counts = run.metrics.get("side_calls", {})
    warnings = []
    for name, words in OF_SIDE_CALLS.items():
        if counts.get(name):
            reason = run.most_often if name == "failed" else ""
            calls = f"{counts[name]} of {counts['completions']} side calls"
            warnings.append(f"{calls} {words}{reason}")
    return warnings


def _of_server(run: Run) -> list[str]:
    return of_server(run.document, run.metrics)


def _of_scorer(run: Run) -> list[str]:
    if "scorer" not in run.metrics:
        return []
    warnings = of_server(run.document["scorer"], run.metrics["scorer"])
    return [f"scorer: {warning}" for warning in warnings]


def _not_forced(run: Run) -> list[str]:
    words = "answers could not be forced, so the model's own replies count"
    return _by_reason(run.metrics.get("not_forced"), words)


def _not_waited(run: Run) -> list[str]:
    words = "completions have fewer waits than WAITS, and count as they are"
    return _by_reason(run.metrics.get("not_waited"), words)


def _by_reason(reasons: Mapping[str, int] | None, words: str) -> list[str]:
    if not reasons:
        return []
    commonest = max(reasons, key=lambda reason: reasons[reason])
    return [f"{sum(reasons.values())} {words}, most often: {one_line(commonest, 300)}"]


def _notes(run: Run) -> list[str]:
    notes = run.metrics.get("notes")
    if not notes:
        return []
    counts = ", ".join(f"{count} {note}" for note, count in notes.items())
    return [f"handled by the scaffold: {counts}"]


def _selected_at_random(run: Run) -> list[str]:
    counts = run.metrics.get("verification")
    if not counts or "TAU" not in run.document["config"] or not counts["uniform_selections"]:
        return []
    uniform = f"{counts['uniform_selections']} of {counts['selections']}"
    return [
        f"selection was uniform in {uniform} scored populations, because no two readable scores "
        "differed"
    ]


def _verdicts_unread(run: Run) -> list[str]:
    counts = run.metrics.get("verification")
    if not counts or not counts["unreadable"]:
        return []
    return [f"{counts['unreadable']} of {counts['verdicts']} verdicts could not be read"]


@dataclass(frozen=True)
class Rule:
    """A rule: `warn` returns its warnings about a run. It warns about a run without other faults if
    the parts `document` and the fields `step` of its first step are replaced
    (tests/harness/results/test_warnings.py)."""

    warn: Callable[[Run], list[str]]
    document: Mapping[str, Any] = field(default_factory=dict)
    step: Mapping[str, Any] = field(default_factory=dict)


NOT_GRADED = {"value": None, "low": 0.0, "high": 1.0, "n": 0}
ALL_WRONG = {"value": 0.0, "low": 0.0, "high": 0.5, "n": 3}
VERIFIED = {
    **{"auc": None, "auc_within": NOT_GRADED, "right": 0, "wrong": 0},
    **{"verdicts": 9, "unreadable": 0, "selections": 3, "uniform_selections": 0},
}

SCORER_MODEL = {"name": "judge", "revision": None, "sha256": None, "embedded": False}
SCORER_ENGINE = {"kind": "vllm", "version": "1", "context": 9, "concurrency": 9, "why": "set"}

# In the order of the warnings. The step of an example has 30 completions of 3 problems.
RULES = (
    Rule(_of_card, document={"model": {"card": {"name": "mine", "note": "It thinks briefly."}}}),
    Rule(_not_graded, step={"mean_accuracy": NOT_GRADED, "majority_accuracy": NOT_GRADED}),
    Rule(_seeds_ignored, document={"engine": {"seeds": False}}),
    Rule(_no_template, document={"engine": {"templated": False}}),
    Rule(_thinking_not_off, document={"engine": {"ignores": "enable_thinking=false"}}),
    Rule(_references_unread, document={"metrics": {"no_reference": [2]}}),
    Rule(_nothing_right, step={"mean_accuracy": ALL_WRONG, "majority_accuracy": ALL_WRONG}),
    Rule(
        _answers_missing,
        document={"metrics": {"unstated": {"replies": 30, "unstated": 29, "quote": "It is so."}}},
    ),
    Rule(_partial, document={"complete": False}),
    Rule(
        _ended_by_context,
        document={"metrics": {"context": {"4096": 6}}},
        step={"truncated": 6, "context_ended": 6},
    ),
    Rule(_ended_by_cap, step={"truncated": 6}),
    Rule(_failed, step={"failed": 1}),
    Rule(_forced, step={"forced": 6}),
    Rule(_empty, step={"empty": 6}),
    Rule(_filtered, step={"filtered": 1}),
    Rule(_silent, step={"only_thinks": 6}),
    Rule(_uncounted, step={"uncounted": 1}),
    Rule(_repeated, step={"identical": 27}),
    Rule(_undecided, step={"undecided": 1}),
    Rule(_of_side_calls, document={"metrics": {"side_calls": {"completions": 9, "failed": 1}}}),
    Rule(_of_server, document={"metrics": {"models": {"m": 20, "another": 10}}}),
    Rule(
        _of_scorer,
        document={
            "scorer": {"model": SCORER_MODEL, "engine": SCORER_ENGINE},
            "metrics": {
                "scorer": {
                    "completions": 30,
                    "failed": 0,
                    "tokens": {"prompt": 90, "cached": 0, "completion": 60},
                    "models": {"judge": 20, "another": 10},
                }
            },
        },
    ),
    Rule(_not_forced, document={"metrics": {"not_forced": {"the server refused": 2}}}),
    Rule(_not_waited, document={"metrics": {"not_waited": {"the model did not think": 2}}}),
    Rule(_notes, document={"metrics": {"notes": {"invalid selection": 2}}}),
    Rule(
        _selected_at_random,
        document={
            "config": {"TAU": 0.2},
            "metrics": {"verification": VERIFIED | {"uniform_selections": 1}},
        },
    ),
    Rule(_verdicts_unread, document={"metrics": {"verification": VERIFIED | {"unreadable": 1}}}),
)


def of_run(document: Mapping[str, Any], commonest_error: str | None) -> list[str]:
    """Return the warnings of a results document. `commonest_error` is the commonest error of failed
    completions."""
    run = Run(document, commonest_error)
    warnings = []
    for rule in RULES:
        warnings += rule.warn(run)
    return warnings


def is_ungraded(document: Mapping[str, Any]) -> bool:
    """Return whether a document has steps, but no graded populations."""
    steps = document["metrics"]["steps"]
    return bool(steps) and all(step["mean_accuracy"]["n"] == 0 for step in steps)
