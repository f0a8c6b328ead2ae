"""Count the samples of a round by their way, and by the reasons to drop them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from core.types import Completion
from labs.star.collect import Sample
from labs.star.record import OF_STAR, Way

# how the errors of requests that took too long begin
TIMED_OUT = ("no answer within", "silent for")


def reasons_in(outcome: dict[str, Any]) -> str:
    """List the reasons for which a round dropped samples, with their counts."""
    dropped = Counter[str]()
    for counts in outcome["dropped"].values():
        dropped.update(counts)
    words = [f"{count} {reason}" for reason, count in dropped.most_common()]
    return ", ".join(words) or "no sample"


def counted(samples: Sequence[Sample], ways: Sequence[Way] = OF_STAR) -> dict[str, Any]:
    """Count a round's samples by `ways`: kept, dropped, right but `malformed`, and kept with a
    false equation (`unsound`)."""
    kept = [sample for sample in samples if not sample.dropped]
    unsound = [sample for sample in kept if sample.false]
    malformed = [sample for sample in samples if sample.malformed]
    dropped = {}
    for way in ways:
        reasons = _reasons(sample for sample in samples if sample.way == way)
        if reasons:
            dropped[way] = reasons
    steps = [sample.steps for sample in kept]
    counts = {
        "samples": len(samples),
        "kept": _by_way(kept, ways),
        "dropped": dropped,
        "malformed": _reasons(malformed),
        "unsound": _by_way(unsound, ways),
        "steps": fmean(steps) if steps else None,
    }
    return counts | broken([sample.completion for sample in samples])


def _reasons(samples: Iterable[Sample]) -> dict[str, int]:
    """Count the dropped samples by reason, the most frequent first."""
    counts = Counter(sample.dropped for sample in samples if sample.dropped)
    return dict(counts.most_common())


def _by_way(samples: Sequence[Sample], ways: Sequence[Way]) -> dict[str, int]:
    counts = Counter(sample.way for sample in samples)
    return {way: counts[way] for way in ways}


def broken(completions: Sequence[Completion]) -> dict[str, int]:
    """Count the completions that were truncated, failed or timed out."""
    truncated = [completion for completion in completions if completion.truncated]
    errors = [completion.error for completion in completions if completion.error is not None]
    timed_out = [error for error in errors if error.startswith(TIMED_OUT)]
    return {
        "truncated": len(truncated),
        "failed": len(errors),
        "timed_out": len(timed_out),
    }


def spent(document: dict[str, Any]) -> dict[str, Any]:
    """Return the completion tokens and the seconds of a results file. Tokens are None if a count is
    unknown."""
    metrics = document["metrics"]
    return {"tokens": metrics["tokens"]["completion"], "seconds": metrics["seconds"]}
