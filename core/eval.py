"""Compare answers with the reference answer, group equal answers, and vote. `by_answer` is the
default grader."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.base.errors import UserError
from core.grading.boxed import NOTHING, NUMBER, WORDS, Extraction, canonical, clean, is_aime
from core.grading.doubts import (
    NO_MATHEMATICS,
    NO_REFERENCE,
    NOTATION,
    VERDICTS,
    doubt_of_kinds,
    doubt_of_options,
    doubt_of_words,
)
from core.grading.judge import math_difference, math_equal, math_readable
from core.grading.numerals import in_digits, with_point
from core.grading.sentence import is_prose, is_sentence
from core.grading.text import read_reply
from core.grading.units import compound
from core.types import Ask, Completion, Grade, Graded, Population, Problem

# comparisons by the judge in one vote, enough for 35 different answers, if none is undecided
MAX_COMPARISONS = 600
NEUTRAL = r"\sqrt{2}"  # comparing it with an answer is quick unless the answer makes sympy hang


@dataclass(frozen=True)
class Groups:
    """Groups of equal answers. A group's name is a canonical form (boxed.canonical). `names` has
    each answer's group or None for a missing answer. `spelled` has one answer of each group.
    `undecided` counts undecided comparisons."""

    names: tuple[str | None, ...] = field(compare=False)
    spelled: dict[str, str]
    undecided: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The votes of each group, most votes first. Of groups with equal votes, shorter names come
        first."""
        counts = Counter(name for name in self.names if name is not None)
        return {
            name: counts[name]
            for name in sorted(counts, key=lambda name: (-counts[name], len(name), name))
        }

    @property
    def tied(self) -> tuple[str, ...]:
        """The groups that share the most votes, in the order of `counts`. The first group is the
        vote's answer."""
        counts = self.counts
        return tuple(name for name in counts if counts[name] == max(counts.values()))

    def score(self, truth: str, answer_type: str = "integer") -> float:
        """Score the majority vote (self-consistency, Wang et al. 2022, arXiv 2203.11171): 1 if it
        is right, else 0. A tie scores the share of its answers that are right. Without votes, the
        score is 0."""
        right = [is_correct(self.spelled[name], truth, answer_type) for name in self.tied]
        return sum(right) / len(right) if right else 0.0


def judge(answer: str | None, truth: str, answer_type: str = "integer") -> bool | None:
    """Return whether `answer` equals `truth`, or None without a verdict (see judge.math_equal). A
    missing answer is wrong. For "math", it may block for seconds: in asyncio, use a thread. Raises
    UserError if the judge won't start."""
    if answer is None:
        return False
    mine, theirs = canonical(answer, answer_type), canonical(truth, answer_type)
    if answer_type == "integer":
        return is_aime(mine) and mine == theirs
    if mine == theirs:
        return True
    if NUMBER.fullmatch(mine) and NUMBER.fullmatch(theirs):
        return False
    # words are not products of letters: star is not rats
    if WORDS.fullmatch(mine) or WORDS.fullmatch(theirs):
        return mine in NOTHING and theirs in NOTHING
    one, other = _readable(answer), _readable(truth)
    verdict = math_equal(one, other)
    point = _in_point_form(one, other) or _in_point_form(other, one)
    return judge(*point, "math") if verdict is False and point else verdict


def _readable(answer: str) -> str:
    """Return the text of a math answer that the judge compares."""
    return in_digits(clean(answer, "math") or "")


def _in_point_form(answer: str, other: str) -> tuple[str, str] | None:
    """Return both texts with the decimal comma of `answer` as a point, or None if the `other` has
    commas."""
    number = with_point(answer)
    return None if number is None or "," in other else (number, other)


def doubt_of(answer: str, truth: str, verdict: bool) -> str | None:
    """Return why the `verdict` on two math answers may be mistaken (DOUBTS_OF_WRONG), or None.

    A right verdict has a doubt only if the reference answer may be a list: 12,5 for 12.5. Like
    judge(), this function may block for seconds."""
    mine, theirs = canonical(answer, "math"), canonical(truth, "math")
    one, other = _readable(answer), _readable(truth)
    if verdict:
        needs_point = mine != theirs and _in_point_form(other, one) and not math_equal(one, other)
        return NOTATION if needs_point else None
    if (doubt := doubt_of_options(one, other)) is not None:
        return doubt or None
    are_words = [_is_words(each) and each not in NOTHING for each in (mine, theirs)]
    if all(are_words):
        return doubt_of_words(mine, theirs)
    unread = [not is_reference(text, "math") for text in (answer, truth)]
    if unread[1] and not are_words[1]:
        return NO_REFERENCE
    if unread[0] and not are_words[0]:
        return NO_MATHEMATICS
    if any(are_words) or NOTHING & {mine, theirs}:
        doubt = doubt_of_kinds(mine, theirs)
        return NO_MATHEMATICS if doubt and unread[0] else doubt
    return math_difference(one, other)


def _is_words(text: str) -> bool:
    """Return whether a canonical text is a word or some words, such as "odd" or "true", and no
    sentence."""
    is_phrase = WORDS.fullmatch(text) is not None and not is_sentence(text)
    return is_phrase or text.lower() in VERDICTS


def is_reference(answer: str, answer_type: str = "integer") -> bool:
    """Return whether an "integer" answer is from 0 to 999, or a "math" answer can be compared by
    meaning, not only by spelling. Words cannot, except phrases such as "no solution". It may block
    or raise UserError, like judge()."""
    text = canonical(answer, answer_type)
    if answer_type == "integer":
        return is_aime(text)
    if NUMBER.fullmatch(text) or text in NOTHING:
        return True
    read = _readable(answer)
    # The letters of words are no variables, but a quantity such as "2 hours and 15 minutes" is
    # read.
    is_words = WORDS.fullmatch(text) or (is_prose(read) and compound(read) is None)
    return bool(read) and not is_words and math_readable(read) is True


def is_correct(answer: str | None, truth: str, answer_type: str = "integer") -> bool:
    """Return whether `answer` is right. A missing answer and an answer without a verdict (see
    judge) are wrong."""
    return judge(answer, truth, answer_type) is True


def groups(answers: Sequence[str | None], answer_type: str = "integer") -> Groups:
    """Group equal answers. Answers with the same canonical form are equal.

    For "math", the judge also compares forms. It starts with the most frequent form. Of equally
    frequent forms, shorter forms come first. Each form joins the first group whose name it equals,
    or starts a new group under its own name. Equality is not transitive (5 km = 5 and 5 = 5 cm),
    but the order of `answers` has no effect.

    The judge compares at most MAX_COMPARISONS pairs, and never two numbers. Pairs without a verdict
    count as different. After an undecided pair, both answers are compared with NEUTRAL. If that is
    undecided too, the answer is not compared again. So an answer that hangs costs two deadlines.
    Like judge(), this function blocks: use a thread."""
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    forms = [None if answer is None else canonical(answer, answer_type) for answer in answers]
    for answer, form in zip(answers, forms, strict=True):
        if answer is not None and form is not None:
            spellings[form].append(answer)
    ranked = sorted(spellings, key=lambda form: (-len(spellings[form]), len(form), form))
    spelled = {
        form: min(spellings[form], key=lambda answer: (len(answer), answer)) for form in ranked
    }
    names, undecided = (
        _joined(spelled) if answer_type == "math" else ({form: form for form in ranked}, 0)
    )
    return Groups(
        tuple(None if form is None else names[form] for form in forms),
        {form: spelled[form] for form in ranked if names[form] == form},
        undecided,
    )


def _joined(spelled: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Return the group's name for each canonical form, and the number of undecided pairs.
    `spelled` maps each form to one answer."""
    names: dict[str, str] = {}
    hard: set[str] = set()
    undecided, left = 0, MAX_COMPARISONS
    for form in spelled:
        for name in [name for name in names if names[name] == name]:
            if form in hard or left < 3:
                break
            if name in hard or (NUMBER.fullmatch(form) and NUMBER.fullmatch(name)):
                continue
            # sorted, because verdicts are cached by order
            one, other = sorted((spelled[form], spelled[name]))
            verdict = judge(one, other, "math")
            left -= 1
            if verdict:
                names[form] = name
                break
            if verdict is None:
                undecided += 1
                left -= 2
                hard |= {
                    each for each in (form, name) if judge(spelled[each], NEUTRAL, "math") is None
                }
        names.setdefault(form, form)
    return names, undecided


async def by_answer(problem: Problem, population: Population, ask: Ask) -> Graded:
    """Compare each member's answer with the reference answer, and vote, without a model. This runs
    in a thread, because a hard answer takes seconds and requests must not wait. Raises UserError if
    the answer or the judge is missing."""
    return await asyncio.to_thread(grade_answers, problem, population)


def grade_answers(problem: Problem, population: Population) -> Graded:
    """Grade as by_answer does, but in the calling thread."""
    if problem.answer is None:
        raise UserError(
            f"problem {problem.id} has no reference answer. Add one to its row, or use another "
            "grader"
        )
    grades = []
    for member in population:
        reply = member.completion
        unforced = _grade(problem, reply, reply.answer) if reply.forced is not None else None
        # thinking ended before each wait, so it was not truncated
        ended = replace(reply, finish_reason="stop")
        before = tuple(_grade(problem, ended, answer) for answer in reply.before_waits)
        grades.append(replace(_grade(problem, reply, reply.text, unforced), before_waits=before))
    voted = groups([grade.answer for grade in grades], problem.answer_type)
    ranks = {name: rank for rank, name in enumerate(voted.counts)}
    ranked = tuple(None if name is None else ranks[name] for name in voted.names)
    score = voted.score(problem.answer, problem.answer_type)
    return Graded(grades, score, next(iter(voted.tied), None), voted.tied, ranked, voted.undecided)


def _grade(problem: Problem, reply: Completion, text: str, unforced: Grade | None = None) -> Grade:
    """Grade `text`: the reply's text, or its text before a forced answer or wait. An undecided
    answer counts as wrong, with a doubt. A wrong "math" answer has a doubt unless it certainly
    differs from the reference answer."""
    found = _with_one_answer(read_reply(problem, reply, text), problem)
    truth = problem.answer or ""
    answer = found.answer
    if answer and found.name and "=" in truth:
        answer = f"{found.name} = {answer}"
    verdict = judge(answer, truth, problem.answer_type)
    doubt = found.doubt
    if verdict is None:
        return Grade(0.0, found.answer, doubt or "undecided", is_undecided=True, unforced=unforced)
    if answer and not doubt and problem.answer_type == "math":
        doubt = doubt_of(answer, truth, verdict)
    return Grade(float(verdict), found.answer, doubt, unforced=unforced)


def _with_one_answer(found: Extraction, problem: Problem) -> Extraction:
    """Return the extraction without its doubt if its answers are several spellings of one answer.
    If the sentence in the box equals the reference answer, the sentence is the answer, and not its
    number."""
    if found.sentence and judge(found.sentence, problem.answer or "", problem.answer_type):
        return replace(found, answer=found.sentence)
    if found.doubt == "list" and len(groups(found.others, problem.answer_type).counts) == 1:
        return replace(found, answer=found.others[-1], doubt=None)
    is_one = (
        found.others and len(groups([found.answer, *found.others], problem.answer_type).counts) == 1
    )
    return replace(found, doubt=None) if is_one else found
