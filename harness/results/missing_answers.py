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
    has_reply = not SILENCES.keys() & member.keys()
    return has_reply and (is_unread(member) or member["doubt"] == "unboxed")


class Unstated:
    """The numbers of replies so far (`replies`) and of replies without such an answer (`unstated`).
    `quote` is the end of such a reply, or ""."""

    def __init__(self, quote: str = "") -> None:
        self.replies = self.unstated = self.truncated = 0
        self.quote = quote

    def add(self, record: Mapping[str, Any], population: Sequence[Member] = ()) -> bool:
        """Count the replies of a step's record. Without a quote yet, keep one from the
        `population`, if it is given. Return whether these are the first FIRST replies of a run that
        needs a warning."""
        if "partial" in record:
            return False
        if not self.quote:
            both = zip(population, record["members"], strict=False)
            text = next((one.completion.text for one, m in both if is_unstated(m)), "")
            self.quote = one_line(text[-QUOTED:], QUOTED)
        new = [member for member in record["members"] if "carried_over" not in member]
        before, self.replies = self.replies, self.replies + len(new)
        self.unstated += sum(map(is_unstated, new))
        self.truncated += sum(member["finish_reason"] == "length" for member in new)
        return before < FIRST <= self.replies and bool(self.metrics())

    def metrics(self) -> dict[str, Any]:
        """Return the field of the metrics, or {} if the run needs no warning."""
        is_cut = self.truncated > CUT * self.replies
        if self.replies < FIRST or self.unstated < SHARE * self.replies or is_cut:
            return {}
        return {
            "unstated": {"replies": self.replies, "unstated": self.unstated, "quote": self.quote}
        }


def warning(figures: Mapping[str, Any], is_boxed: bool) -> str:
    """Return the warning for the field `unstated` of the metrics."""
    where, more = (" in a box", "ANSWER=text, ") if is_boxed else ("", "")
    shown = (
        f'. The end of one: "{one_line(str(figures["quote"]), QUOTED)}"' if figures["quote"] else ""
    )
    counts = f"{figures['unstated']:,} of {figures['replies']:,} replies"
    return f"{counts} state no answer{where}. Try {more}SHOTS=4 or ELICIT=1{shown}"
