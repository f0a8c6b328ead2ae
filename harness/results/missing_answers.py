"""Count the replies of a run that state no answer in the form that the run reads, and warn if
nearly all lack it."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.base.errors import one_line
from core.types import Member
from harness.results.model import is_unread
from harness.results.records import SILENCES

FIRST = 20  # replies before the first warning
SHARE = 0.8  # a smaller share of such replies causes no warning
CUT = 0.5  # if a larger share of replies hit the token cap, the cap is the problem
QUOTED = 200  # characters of a reply to quote, from its end


def is_unstated(member: Mapping[str, Any]) -> bool:
    """Return whether the member has a reply that lacks an answer in the form that the run reads."""
    if SILENCES.keys() & member.keys():
        return False  # there is no reply
    return is_unread(member) or member["doubt"] == "unboxed"


class MissingAnswers:
    """The numbers of replies so far (`replies`) and of replies without such an answer (`unstated`).
    `quote` is the end of such a reply, or ""."""

    def __init__(self, quote: str = "") -> None:
        self.replies = 0
        self.unstated = 0
        self.truncated = 0
        self.quote = quote

    def add(self, record: Mapping[str, Any], population: Sequence[Member] = ()) -> bool:
        """Count the replies of a step's record. Without a quote yet, keep one from the
        `population`, if it is given. Return whether these are the first FIRST replies of a run that
        needs a warning."""
        if "partial" in record:
            return False
        members = record["members"]
        if not self.quote:
            self.quote = _quote(population, members)
        before = self.replies
        for member in members:
            if "carried_over" not in member:
                self.replies += 1
                self.unstated += int(is_unstated(member))
                self.truncated += int(member["finish_reason"] == "length")
        return before < FIRST <= self.replies and bool(self.metrics())

    def metrics(self) -> dict[str, Any]:
        """Return the field of the metrics, or {} if the run needs no warning."""
        are_few = self.replies < FIRST or self.unstated < SHARE * self.replies
        if are_few or self.truncated > CUT * self.replies:
            return {}
        counts = {"replies": self.replies, "unstated": self.unstated, "quote": self.quote}
        return {"unstated": counts}


def _quote(population: Sequence[Member], members: Sequence[Mapping[str, Any]]) -> str:
    """Return the end of the first reply without such an answer, or "" if there is none."""
    for candidate, member in zip(population, members, strict=False):
        if is_unstated(member):
            return one_line(candidate.completion.text[-QUOTED:], QUOTED)
    return ""


def warning(figures: Mapping[str, Any], is_boxed: bool) -> str:
    """Return the warning for the field `unstated` of the metrics."""
    counts = f"{figures['unstated']:,} of {figures['replies']:,} replies"
    if is_boxed:
        remedies = "ANSWER=text (Reasoning Gym ignores it), SHOTS=4 or ELICIT=1"
        text = f"{counts} state no answer in the form that prompts ask for. Try {remedies}"
    else:
        text = f"{counts} state no answer. Try SHOTS=4 or ELICIT=1"
    if figures["quote"]:
        text += f'. The end of one: "{one_line(str(figures["quote"]), QUOTED)}"'
    return text
