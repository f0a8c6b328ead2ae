"""Compare the readings of replies by several programs (benchmarks/agreement.py)."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LM_EVAL, INSPECT = "lm_eval", "inspect_ai"
END = 160  # most characters of a reply's end that a difference shows
HEAD = 60  # most characters of an answer in the heads
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


class Readers(NamedTuple):
    """The names of our readings and of the other programs' readings."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]


SHOWN = Readers(
    ("ANSWER=text", "ANSWER=number"),
    (f"{LM_EVAL} strict-match", f"{LM_EVAL} flexible-extract", f"{INSPECT} match"),
)  # if worked examples show the form of the answer
BOXED = Readers(
    ("ANSWER=auto",),
    (f"{LM_EVAL} is_equiv", f"{LM_EVAL} math_verify", f"{INSPECT} math"),
)  # if the prompt asks for a box


@dataclass(frozen=True)
class Reading:
    """The answer that a reader found in a reply (None: no answer), and its verdict."""

    answer: str | None
    right: bool

    @property
    def head(self) -> str | None:
        """The first characters of the answer."""
        return self.answer and self.answer[:HEAD]


@dataclass(frozen=True)
class Case:
    """A problem with its reply, the reference answer, and the readings by their names. If `is_cut`,
    the reply ends at the token cap."""

    id: str
    reference: str
    reply: str
    readings: Mapping[str, Reading]
    is_cut: bool = False

    def cause(self, ours: str, theirs: str) -> str:
        """Return the cause if the verdicts of two readings differ, or else ""."""
        our_reading = self.readings[ours]
        their_reading = self.readings[theirs]
        if our_reading.right == their_reading.right:
            return ""
        return category(self.reply, our_reading, their_reading)


def number(answer: str) -> float | None:
    """Return the value of the only number in `answer`, or None."""
    numbers = _NUMBER.findall(answer)
    return float(numbers[0].replace(",", "")) if len(numbers) == 1 else None


def last_position(reply: str, answer: str) -> int:
    """Return the position of the last number in `reply` that equals `answer`, or -1."""
    wanted = number(answer)
    position = -1
    for occurrence in _NUMBER.finditer(reply):
        if wanted is not None and number(occurrence[0]) == wanted:
            position = occurrence.start()
    return position


def category(reply: str, ours: Reading, theirs: Reading) -> str:
    """Return the category of a difference between the verdicts of two readings of `reply`."""
    if theirs.answer is None:
        return "only we read an answer"
    if ours.answer is None:
        return "only they read an answer"
    if _is_same_answer(ours.answer, theirs.answer):
        return "the same answer, compared differently"
    our_position = last_position(reply, ours.answer)
    their_position = last_position(reply, theirs.answer)
    if their_position < 0 or our_position < 0:
        return "answers in two forms"
    which = "an earlier" if their_position < our_position else "a later"
    return f"they read {which} number"


def _is_same_answer(ours: str, theirs: str) -> bool:
    our_number = number(ours)
    is_same_number = our_number is not None and our_number == number(theirs)
    return is_same_number or "".join(ours.split()) == "".join(theirs.split())


def wilson(count: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95% score interval for the share `count` of `n`."""
    z = 1.96
    share = count / n
    scale = 1 + z * z / n
    variance = share * (1 - share) / n + z * z / 4 / n / n
    middle = (share + z * z / 2 / n) / scale
    half = z * math.sqrt(variance) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


def format_share(count: int, n: int) -> str:
    """Return a share with its interval: 198 of 200 (99.0% [96.4, 99.7])."""
    low, high = wilson(count, n)
    share = count / n
    return f"{count} of {n} ({100 * share:.1f}% [{100 * low:.1f}, {100 * high:.1f}])"


def _readers(cases: Sequence[Case]) -> Readers:
    return BOXED if BOXED.ours[0] in cases[0].readings else SHOWN


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def accuracies(cases: Sequence[Case]) -> str:
    """Return a Markdown table with the share of right replies by each reading."""
    readers = _readers(cases)
    rows = [["reading", "right"], ["---", "---"]]
    for reader in readers.ours + readers.theirs:
        right = sum(case.readings[reader].right for case in cases)
        rows.append([reader, format_share(right, len(cases))])
    return _markdown(rows)


def table(cases: Sequence[Case]) -> str:
    """Return a Markdown table with a row for each pair of another program's reading and our
    reading."""
    readers = _readers(cases)
    heads = ["their reading", "our reading", "equal verdicts", "only theirs right"]
    heads += ["only ours right", "causes"]
    rows = [heads, ["---", "---", "---", "--:", "--:", "---"]]
    for theirs in readers.theirs:
        rows += [_row(cases, ours, theirs) for ours in readers.ours]
    return _markdown(rows)


def _row(cases: Sequence[Case], ours: str, theirs: str) -> list[str]:
    different = [case for case in cases if case.cause(ours, theirs)]
    ours_right = sum(case.readings[ours].right for case in different)
    theirs_right = len(different) - ours_right
    equal = format_share(len(cases) - len(different), len(cases))
    causes = Counter(case.cause(ours, theirs) for case in different)
    words = [f"{count}: {cause}" for cause, count in causes.most_common()]
    return [theirs, ours, equal, str(theirs_right), str(ours_right), "; ".join(words) or "none"]


def explained(cases: Sequence[Case]) -> str:
    """Return a text about each case with unequal verdicts: all readings, the causes and the end of
    the reply."""
    readers = _readers(cases)
    lines = []
    for case in cases:
        causes = _causes(case, readers)
        if causes:
            cut = ", cut off" if case.is_cut else ""
            lines.append(f"{case.id}, reference {case.reference}{cut}")
            lines.append(f"  {_readings(case)}")
            lines += causes
            lines.append(f"  reply: {_end(case.reply)}")
    return "\n".join(lines)


def _causes(case: Case, readers: Readers) -> list[str]:
    causes = []
    for theirs in readers.theirs:
        for ours in readers.ours:
            cause = case.cause(ours, theirs)
            if cause:
                causes.append(f"  {theirs}, {ours}: {cause}")
    return causes


def _readings(case: Case) -> str:
    words = []
    for reader, reading in case.readings.items():
        verdict = "right" if reading.right else "wrong"
        words.append(f"{reader} {reading.answer!r} ({verdict})")
    return ", ".join(words)


def _end(reply: str) -> str:
    end = reply[-END:]
    return repr(end) if end == reply else f"…{end!r}"
