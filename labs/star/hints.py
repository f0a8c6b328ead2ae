"""Check traces that were sampled with the right answer in the prompt: does one begin with it, or state another?

A trace must read as if the answer had been found. There is no end of words for a confession, so words are not searched.
One thing is checked: whether a trace states the answer before any step has it. docs/star.md says how much that
finds and misses."""

import re

from core.grading.answers import judge
from core.grading.boxed import canonical, stated
from core.types import Problem
from labs.star.statements import normalised

MAX_STATED = 20  # answers in one trace that are compared; a trace with more counts as stating another

# Before an answer that a step has: "6*7 = ", "6*7 pens = ", "x = ", "6*7 gives ", "6*7: ";
# not "the answer = ", "Step 1: ".
_STEP = re.compile(
    r"(?:(?:[0-9)\]}!%](?:[ /]?[a-z]+){0,3}|(?<!\w)\w)(?:=|≈|≡|\\approx|\\equiv)"
    r"|[0-9)\]}!%] ?(?:gives|is(?: equal to)?|equals|leaves|makes|→)|[-+*/]\(?[0-9.]+[)\]}]*:)"
    r" ?(?:\\boxed|\\fbox)?[({\[ *]*\Z"
)
_REACH = 60  # characters of a step that are looked at


def is_stated_first(text: str, answer: str, statement: str) -> bool:
    """Return whether a well-formed `text` states its `answer` before a step has it (after an equals sign or a word for
    it). The last line, which must state it, does not count. False if the answer is a number of the `statement`, for
    then a step may begin with it. Takes time linear in `text`."""
    value = normalised(answer)
    if not value:
        return False
    alone = re.compile(rf"(?<![\w.]){re.escape(value)}(?!\w|[.,/][0-9])")
    if alone.search(normalised(statement)):
        return False
    for line in map(normalised, text.rstrip().split("\n")[:-1]):
        if first := alone.search(line):
            return not _STEP.search(line[max(0, first.start() - _REACH) : first.start()])
    return False


def states_another(text: str, problem: Problem) -> bool:
    """Return whether `text` (thinking and answer) states another final value, in a box or a `Final:` line, than the
    problem's. Spellings of one answer are the same; a value that can't be compared in time is another. False for a
    problem without an answer. For "math" this may block, as core.grading.answers.judge does."""
    if problem.answer is None:
        return False
    kind, found = problem.answer_type, dict.fromkeys(stated(text, problem.answer_type))
    if None in found or len(found) > MAX_STATED:
        return True
    others = (v for v in found if v is not None and canonical(v, kind) != canonical(problem.answer, kind))
    return not all(judge(value, problem.answer, kind) is True for value in others)
