"""Judge answers: whether one is right, which of several say the same, what a population votes for.

`by_answer` is the default grader: it reads the box (or the `Final:` line) of each candidate and compares it with the
reference.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.base.errors import UserError
from core.grading.boxed import NOTHING, NUMBER, WORDS, canonical, clean, extract, is_aime
from core.grading.judge import math_equal, math_readable
from core.types import Ask, Completion, Grade, Graded, Population, Problem

# Doubts about a wrong math answer: math-verify can't read it, or its reference, so that their spelling was compared.
NO_MATHEMATICS, NO_REFERENCE = "not mathematics", "reference not read"
MAX_COMPARISONS = 600  # that one vote asks of the judge: enough for 35 answers of which no two are equal
NEUTRAL = r"\sqrt{2}"  # quickly compared with any answer that is quickly compared with others


@dataclass(frozen=True)
class Groups:
    """Which answers say the same. `names`: for each answer the name of its group, None where there is no answer;
    `spelled`: by name, an answer as it was given, to judge the group by; `undecided`: pairs of spellings that the judge
    gave no verdict on."""

    names: tuple[str | None, ...]
    spelled: dict[str, str]
    undecided: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Votes by name, most votes first; among equals, shortest first, then alphabetically."""
        counts = Counter(name for name in self.names if name is not None)
        return {name: counts[name] for name in sorted(counts, key=lambda name: (-counts[name], len(name), name))}


@dataclass(frozen=True)
class Vote:
    """A majority vote. `answer`: the winner; of several, the first of `tied`; None when nobody voted. `tied`: all
    answers with the most votes, shortest first, then alphabetically, so that integers stand in order. `score`: the mean
    correctness of the tied answers, in [0, 1]. `counts`: votes by answer, most votes first; an answer goes by the name
    of its group. `undecided`, `names`: as in Groups."""

    answer: str | None
    tied: tuple[str, ...]
    score: float
    counts: dict[str, int]
    undecided: int = 0
    names: tuple[str | None, ...] = field(default=(), compare=False)


def judge(answer: str | None, truth: str, answer_type: str = "integer") -> bool | None:
    """Whether `answer` is right; None when there was no verdict in time. For "math" this blocks, up to
    judge.DEADLINE_S (from asyncio, call it in a thread). Raises UserError where math-verify is not installed."""
    if answer is None:
        return False
    mine, theirs = canonical(answer, answer_type), canonical(truth, answer_type)
    if answer_type == "integer":
        return is_aime(mine) and mine == theirs
    if mine == theirs:
        return True
    if WORDS.fullmatch(mine) or WORDS.fullmatch(theirs):  # words are no products: star is not rats
        return mine in NOTHING and theirs in NOTHING
    return math_equal(clean(answer, "math") or "", clean(truth, "math") or "")


def is_reference(answer: str, answer_type: str = "integer") -> bool:
    """Whether answers can be compared with `answer` by what they say, and not only by how they are spelled: words
    can't, but for those that say that there is nothing. Blocks and raises as judge does."""
    text = canonical(answer, answer_type)
    if answer_type == "integer":
        return is_aime(text)
    if NUMBER.fullmatch(text) or text in NOTHING:
        return True
    read = clean(answer, "math")
    return bool(read) and not WORDS.fullmatch(text) and math_readable(read or "") is True


def is_correct(answer: str | None, truth: str, answer_type: str = "integer") -> bool:
    """Whether `answer` is right. No answer is wrong, and so is one that the judge could not decide (see judge)."""
    return judge(answer, truth, answer_type) is True


def vote(answers: Sequence[str | None], truth: str, answer_type: str = "integer") -> Vote:
    """Majority vote (self-consistency, Wang et al. 2022, arXiv 2203.11171) over extracted answers; None does not vote.
    Votes are counted on what answers say, not on how they are written: see groups(), also for how long it blocks.

    Ties are not broken by order or luck: they score the mean of the tied answers. A group is right when its commonest
    spelling is. Nobody voting scores 0.
    """
    found = groups(answers, answer_type)
    counts = found.counts
    tied = tuple(a for a in counts if counts[a] == max(counts.values()))
    score = sum(is_correct(found.spelled[a], truth, answer_type) for a in tied) / len(tied) if tied else 0.0
    return Vote(tied[0] if tied else None, tied, score, counts, found.undecided, found.names)


def tally(answers: Sequence[str | None], answer_type: str = "integer") -> dict[str, int]:
    """Votes by answer, most votes first; among equals, shortest first, then alphabetically. None does not vote."""
    return groups(answers, answer_type).counts


def groups(answers: Sequence[str | None], answer_type: str = "integer") -> Groups:
    """The answers by what they say. A group is named by the canonical form of its commonest spelling (of several, the
    shortest, then the first by alphabet).

    Answers of one canonical form say the same. Of type "math", forms are then compared by the judge. They come in
    order, the commonest first, and each joins the first group whose name it equals, or begins one. So where verdicts
    do not chain (5 m = 5 and 5 = 5 cm), the commoner spelling decides, and the order of `answers` never does. What
    stays undecided stays apart.

    The judge is asked MAX_COMPARISONS times at most, never for "integer" and never about two numbers; what is left
    then, the rarest spellings, stays apart. Where a pair stays undecided, each of the two is compared with NEUTRAL, and
    no more where that stays undecided too, so that one answer that hangs costs two deadlines. Like judge(), this
    blocks: call it in a thread.
    """
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    forms = [None if answer is None else canonical(answer, answer_type) for answer in answers]
    for answer, form in zip(answers, forms, strict=True):
        if answer is not None and form is not None:
            spellings[form].append(answer)
    ranked = sorted(spellings, key=lambda form: (-len(spellings[form]), len(form), form))
    spelled = {form: min(spellings[form], key=lambda answer: (len(answer), answer)) for form in ranked}
    names, undecided = _joined(spelled) if answer_type == "math" else ({form: form for form in ranked}, 0)
    return Groups(
        tuple(None if form is None else names[form] for form in forms),
        {form: spelled[form] for form in ranked if names[form] == form},
        undecided,
    )


def _joined(spelled: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Canonical forms, in order, each with the name of its group; and the pairs that stayed undecided. `spelled`: an
    answer of each form."""
    names: dict[str, str] = {}
    hard: set[str] = set()
    undecided, left = 0, MAX_COMPARISONS
    for form in spelled:
        for name in [name for name in names if names[name] == name]:
            if form in hard or left < 3:
                break
            if name in hard or (NUMBER.fullmatch(form) and NUMBER.fullmatch(name)):
                continue
            one, other = sorted((spelled[form], spelled[name]))  # as in other votes: verdicts are kept
            verdict = judge(one, other, "math")
            left -= 1
            if verdict:
                names[form] = name
                break
            if verdict is None:
                undecided += 1
                left -= 2
                hard |= {each for each in (form, name) if judge(spelled[each], NEUTRAL, "math") is None}
        names.setdefault(form, form)
    return names, undecided


# The default grader


async def by_answer(problem: Problem, population: Population, ask: Ask) -> Graded:
    """Answers in boxes, or `Final:` lines, against the reference, and the population's vote. It asks no model. In a
    thread: judging a hard answer may take seconds, and requests must not wait for it. Raises UserError for a problem
    without an answer."""
    return await asyncio.to_thread(grade_answers, problem, population)


def grade_answers(problem: Problem, population: Population) -> Graded:
    """What by_answer gives, in this thread."""
    if problem.answer is None:
        raise UserError(f"problem {problem.id} has no answer to compare with. Give it one, or another grader")
    grades = []
    for member in population:
        made = member.completion
        unforced = _grade(problem, made, made.answer) if made.forced is not None else None
        ended = replace(made, finish_reason="stop")  # as it was before each wait
        before = tuple(_grade(problem, ended, answer) for answer in made.before_waits)
        grades.append(replace(_grade(problem, made, made.text, unforced), before_waits=before))
    voted = vote([grade.answer for grade in grades], problem.answer, problem.answer_type)
    ranks = {name: rank for rank, name in enumerate(voted.counts)}
    ranked = tuple(None if name is None else ranks[name] for name in voted.names)
    return Graded(grades, voted.score, voted.answer, voted.tied, ranked, voted.undecided)


def _grade(problem: Problem, made: Completion, text: str, unforced: Grade | None = None) -> Grade:
    """One reading of a completion, forced or not. A comparison that math-verify could not decide counts as wrong, and
    has that for its doubt if there is no other. So has a wrong answer, or its reference, that only its spelling can be
    compared by; words against words are no such case, nor are words as a reference."""
    read = extract(text, problem.answer_type, truncated=made.truncated)
    verdict = judge(read.answer, problem.answer or "", problem.answer_type)
    doubt = read.doubt
    if read.others and len(groups([read.answer, *read.others], problem.answer_type).counts) == 1:
        doubt = None  # several spellings of one answer
    if verdict is None:
        return Grade(0.0, read.answer, doubt or "undecided", is_undecided=True, unforced=unforced)
    if not verdict and read.answer and not doubt and problem.answer_type == "math":
        unread = [not is_reference(text, "math") for text in (read.answer, problem.answer or "")]
        words = [WORDS.fullmatch(canonical(text, "math")) for text in (read.answer, problem.answer or "")]
        doubt = NO_MATHEMATICS if unread[0] and not all(words) else None
        doubt = NO_REFERENCE if unread[1] and not words[1] else doubt
    return Grade(float(verdict), read.answer, doubt, unforced=unforced)
