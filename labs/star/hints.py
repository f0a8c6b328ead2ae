"""Check rationalised traces, which were sampled with the reference answer in the prompt.

Such a trace must read as if the model had found the answer itself. A model can mention the hint in
countless words, so no such words are searched for. The check is whether the trace states the answer
before a step computes it, or states another answer. docs/star.md reports how much this check finds
and misses."""

import re
from collections.abc import Iterable

from core.grading.boxed import stated
from core.grading.kinds import kind_of
from core.types import Problem
from labs.star.statements import normalised

# maximum number of different answers to compare. More count as stating another answer
MAX_STATED = 20

# The text before an answer that a step computes: "6*7 = ", "6*7 pens = ", "x = ", "6*7 gives " or
# "6*7: ", but not "the answer = " or "Step 1: ".
_STEP = re.compile(
    r"(?:(?:[0-9)\]}!%](?:[ /]?[a-z]+){0,3}|(?<!\w)\w)(?:=|≈|≡|\\approx|\\equiv)"
    r"|[0-9)\]}!%] ?(?:gives|is(?: equal to)?|equals|leaves|makes|→)|[-+*/]\(?[0-9.]+[)\]}]*:)"
    r" ?(?:\\boxed|\\fbox)?[({\[ *]*\Z"
)
_REACH = 60  # characters to search before the answer
_CANDIDATE = re.compile(r"\bcandidates?\b", re.IGNORECASE)
_DIGIT = re.compile("[0-9]")
_NUMBER = re.compile(r"[-+−]?[0-9][0-9.,/]*")


def is_stated_first(text: str, answer: str, statement: str) -> bool:
    """Return whether the first place with `answer` in a well-formed `text` is not the result of a
    step (see _STEP). The last line, which must state the answer, is not searched. Return False for
    an empty `answer`, or if the `statement` contains it, because a step may then begin with it. The
    time is linear in the length of `text`."""
    alone = _alone(answer, statement)
    if alone is None:
        return False
    for line in map(normalised, text.rstrip().split("\n")[:-1]):
        if first := alone.search(line):
            return not _STEP.search(line[max(0, first.start() - _REACH) : first.start()])
    return False


def is_copied(text: str, problem: Problem) -> bool:
    """Return whether an aggregation `text` states the answer without a step of its own. Lines that
    mention a candidate quote the prompt, so they are no steps, and no statements either.

    A number needs a line with a number, and the first line with the answer must reach it (see
    is_stated_first). A task's answer may also be a word or a list, which no calculation reaches. It
    needs a line of its own, and is copied if only quotes contain it. The last line of `text` must
    state the answer. If the problem's text contains the answer, return False."""
    alone = _alone(problem.answer or "", problem.statement)
    if alone is None:
        return False
    *lines, last = text.rstrip().split("\n")
    quotes = [line for line in lines if _CANDIDATE.search(line)]
    steps = [line for line in lines if not _CANDIDATE.search(line)]
    if _contains(quotes, alone) and not _contains(steps, alone):
        return True
    if not _is_calculated(problem):
        return not any(map(str.strip, steps))
    before_answer = alone.sub("", normalised(last))
    lines_of_its_own = [*map(normalised, steps), before_answer]
    if not any(map(_DIGIT.search, lines_of_its_own)):
        return True
    unquoted = "\n".join([*steps, last])
    return is_stated_first(unquoted, problem.answer or "", problem.statement)


def mentions_candidate(text: str, problem: Problem) -> bool:
    """Return whether `text` mentions a candidate. Return False if the problem's text does, too."""
    if _CANDIDATE.search(problem.statement):
        return False
    return _CANDIDATE.search(text) is not None


def _is_calculated(problem: Problem) -> bool:
    """Return whether a step can calculate the answer: it is a number, or the problem is no task."""
    is_task = kind_of(problem).places("") is not None
    return not is_task or _NUMBER.fullmatch((problem.answer or "").strip()) is not None


def on_last_line(text: str, problem: Problem) -> str:
    """Return a well-formed `text` with its answer on the last line. A task's answer between tags
    may take several lines."""
    places = kind_of(problem).places(text)
    if not places:
        return text
    start = text.rfind("\n", 0, places[-1][0]) + 1
    return text[:start] + " ".join(text[start:].split())


def _alone(answer: str, statement: str) -> re.Pattern[str] | None:
    """Return a pattern that finds the normalised answer, but not inside another number. Return None
    for an empty `answer`, or if the `statement` contains it."""
    value = normalised(answer)
    if not value:
        return None
    # a minus is a sign behind a word, but not behind a number or a variable
    before = r"(?<![0-9)\]}!%.])(?<!\b\w)" if value.startswith("-") else r"(?<![\w.])"
    alone = re.compile(rf"{before}{re.escape(value)}(?!\w|[.,/][0-9])")
    return None if alone.search(normalised(statement)) else alone


def _contains(lines: Iterable[str], alone: re.Pattern[str]) -> bool:
    return any(alone.search(normalised(line)) for line in lines)


def states_another(text: str, problem: Problem) -> bool:
    """Return whether an answer that `text` (thinking and reply) states differs from the problem's
    answer. Answers are in boxes and `Final:` lines, and in the statements that the problem's way of
    reading finds (core/grading/text.py). Equal values in other spellings do not differ. Unreadable
    values, more than MAX_STATED values, and values that can't be compared in time count as
    different. Return False if the problem has no answer. May block, as is_equal does."""
    if problem.answer is None:
        return False
    kind = kind_of(problem)
    extraction = kind.read(text, problem.answer_form)
    found = dict.fromkeys([*stated(text, kind), *extraction.others])
    if None in found or len(found) > MAX_STATED:
        return True
    others = (
        v for v in found if v is not None and kind.canonical(v) != kind.canonical(problem.answer)
    )
    return not all(kind.is_equal(value, problem.answer) is True for value in others)
