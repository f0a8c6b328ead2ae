"""Compare the readings of replies by several programs (benchmarks/agreement.py)."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LM_EVAL, INSPECT = "lm_eval", "inspect_ai"
OURS = "ANSWER=text", "ANSWER=number"
MATCH = f"{INSPECT} match"
THEIRS = f"{LM_EVAL} strict-match", f"{LM_EVAL} flexible-extract", MATCH
END = 160  # most characters of a reply's end that a difference shows
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Reading:
    """The answer that a reader found in a reply (None: no answer), and its verdict."""

    answer: str | None
    right: bool


@dataclass(frozen=True)
class Case:
    """A problem with our reply, the reference answer, and the readings by the names of their
    readers. `others` contains the replies of the other programs by their names."""

    id: str
    reference: str
    reply: str
    readings: Mapping[str, Reading]
    others: Mapping[str, str] = field(default_factory=dict)


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
    """Return the category of a difference between two readings of `reply`, or "" if both read the
    same answer."""
    if ours.answer is None and theirs.answer is None:
        return ""
    if theirs.answer is None:
        return "only we read an answer"
    if ours.answer is None:
        return "only they read an answer"
    our_number = number(ours.answer)
    is_same_number = our_number is not None and our_number == number(theirs.answer)
    if ours.answer == theirs.answer or is_same_number:
        return "" if ours.right == theirs.right else "the same answer, compared differently"
    our_position = last_position(reply, ours.answer)
    their_position = last_position(reply, theirs.answer)
    if their_position < 0:
        return "they read a number in another form"
    if our_position < 0:
        return "we read an answer in another form"
    which = "an earlier" if their_position < our_position else "a later"
    return f"they read {which} number"


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


def differences(cases: Sequence[Case], ours: str, theirs: str) -> list[tuple[Case, str]]:
    """Return the cases in which the readers `ours` and `theirs` differ, each with its category."""
    program = theirs.split()[0]
    different = []
    for case in cases:
        reason = category(case.reply, case.readings[ours], case.readings[theirs])
        if reason and case.others.get(program, case.reply) != case.reply:
            reason = "their reply is another text"
        if reason:
            different.append((case, reason))
    return different


def table(cases: Sequence[Case]) -> str:
    """Return a Markdown table with a row for each pair of another program's reader and our
    reader."""
    heads = [
        "their reader",
        "our reader",
        "right: theirs, ours",
        "equal verdicts",
        "equal answers",
        "unequal verdicts",
    ]
    rows = [heads, ["---", "---", "--:", "---", "--:", "---"]]
    rows += [_row(cases, ours, theirs) for theirs in THEIRS for ours in OURS]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(cases: Sequence[Case], ours: str, theirs: str) -> list[str]:
    different = differences(cases, ours, theirs)
    reasons = Counter(
        reason for case, reason in different if not _is_same_verdict(case, ours, theirs)
    )
    words = [f"{count}: {reason}" for reason, count in reasons.most_common()]
    return [
        theirs,
        ours,
        f"{_count_right(cases, theirs)}, {_count_right(cases, ours)}",
        format_share(len(cases) - reasons.total(), len(cases)),
        str(len(cases) - len(different)),
        "; ".join(words) or "none",
    ]


def _count_right(cases: Sequence[Case], reader: str) -> int:
    right = [case for case in cases if case.readings[reader].right]
    return len(right)


def _is_same_verdict(case: Case, ours: str, theirs: str) -> bool:
    return case.readings[ours].right == case.readings[theirs].right


def explained(cases: Sequence[Case]) -> str:
    """Return a text about each case with a difference: all readings, the categories and the end of
    the reply."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for theirs in THEIRS:
        for ours in OURS:
            for case, reason in differences(cases, ours, theirs):
                same = " (equal verdicts)" if _is_same_verdict(case, ours, theirs) else ""
                reasons[case.id].append(f"  {theirs}, {ours}: {reason}{same}")
    lines = []
    for case in cases:
        if case.id in reasons:
            lines += [f"{case.id}, reference {case.reference}", f"  {_readings(case)}"]
            lines += reasons[case.id]
            lines.append(f"  reply: {_end(case.reply)}")
    return "\n".join(lines)


def _readings(case: Case) -> str:
    words = []
    for reader, reading in case.readings.items():
        verdict = "right" if reading.right else "wrong"
        words.append(f"{reader} {reading.answer!r} ({verdict})")
    return ", ".join(words)


def _end(reply: str) -> str:
    end = reply[-END:]
    return repr(end) if end == reply else f"…{end!r}"
