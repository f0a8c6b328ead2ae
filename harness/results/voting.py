"""Score a vote over members whose groups of equal answers are stored."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from harness.results.model import MemberResult


def vote_score(members: Sequence[MemberResult], scores: Sequence[float]) -> float:
    """Return the mean score of the answers with the most votes of `members`, which have these
    `scores`. Without a vote, it is 0."""
    by_group = defaultdict[int, list[float]](list)
    for member, own_score in zip(members, scores, strict=True):
        if member.group is not None:
            by_group[member.group].append(own_score)
    most = max(map(len, by_group.values()), default=0)
    winners = [fmean(group) for group in by_group.values() if len(group) == most]
    return fmean(winners) if winners else 0.0
