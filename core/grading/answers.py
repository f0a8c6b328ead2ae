"""Judge answers: compare one with the reference, group equal ones, and vote. `by_answer` is the default grader."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.base.errors import UserError
from core.grading.boxed import NOTHING, NUMBER, WORDS, canonical, clean, extract, is_aime
from core.grading.judge import math_equal, math_readable
from core.types import Ask, Completion, Grade, Graded, Population, Problem

# Doubts about a wrong math answer if math-verify cannot read it, or its reference: then spellings were compared.
NO_MATHEMATICS, NO_REFERENCE = "not mathematics", "reference not read"
MAX_COMPARISONS = 600  # by the judge for one vote: enough for 35 different answers
NEUTRAL = r"\sqrt{2}"  # the comparison with it is quick for every answer that does not hang


@dataclass(frozen=True)
class Groups:
    """Groups of equal answers, named by a canonical form: the group of each answer (`names`; None: no answer), one
    answer of each as it was `spelled`, and the number of pairs that the judge left `undecided`."""

    names: tuple[str | None, ...] = field(compare=False)
    spelled: dict[str, str]
    undecided: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The votes by name, most votes first; among equals, shortest first, then alphabetically."""
        counts = Counter(name for name in self.names if name is not None)
        return {name: counts[name] for name in sorted(counts, key=lambda name: (-counts[name], len(name), name))}

    @property
    def tied(self) -> tuple[str, ...]:
        """The names with the most votes, in the order of `counts`: the first is the vote's answer."""
        counts = self.counts
        return tuple(name for name in counts if counts[name] == max(counts.values()))

    def score(self, truth: str, answer_type: str = "integer") -> float:
        """Score the majority vote (self-consistency, Wang et al. 2022, arXiv 2203.11171) in [0, 1]; 0 without votes.
        A tie is not broken by order or luck: it scores the mean of its answers."""
        right = [is_correct(self.spelled[name], truth, answer_type) for name in self.tied]
        return sum(right) / len(right) if right else 0.0


def judge(answer: str | None, truth: str, answer_type: str = "integer") -> bool | None:
    """Return whether `answer` is right, or None without a verdict in time. For "math" it blocks for up to
    judge.DEADLINE_S (in asyncio, use a thread), and raises UserError if the judge does not start."""
    if answer is None:
        return False
    mine, theirs = canonical(answer, answer_type), canonical(truth, answer_type)
    if answer_type == "integer":
        return is_aime(mine) and mine == theirs
    if mine == theirs:
        return True
    if WORDS.fullmatch(mine) or WORDS.fullmatch(theirs):  # words are not products: star is not rats
        return mine in NOTHING and theirs in NOTHING
    return math_equal(clean(answer, "math") or "", clean(truth, "math") or "")


def is_reference(answer: str, answer_type: str = "integer") -> bool:
    """Return whether answers can be compared with `answer` by meaning, not only by spelling, as words are (except those
    like "no solution"). Blocks and raises as judge does."""
    text = canonical(answer, answer_type)
    if answer_type == "integer":
        return is_aime(text)
    if NUMBER.fullmatch(text) or text in NOTHING:
        return True
    read = clean(answer, "math")
    return bool(read) and not WORDS.fullmatch(text) and math_readable(read or "") is True


def is_correct(answer: str | None, truth: str, answer_type: str = "integer") -> bool:
    """Return whether `answer` is right. No answer is wrong, and so is an undecided one (see judge)."""
    return judge(answer, truth, answer_type) is True


def groups(answers: Sequence[str | None], answer_type: str = "integer") -> Groups:
    """Group answers by meaning. A group is named by its commonest canonical form (else the shortest, then the first).

    Answers of one canonical form are equal. For "math", the judge then compares forms, the commonest first: each joins
    the first group whose name it equals, or begins one. So if equality is not transitive (5 m = 5 and 5 = 5 cm), the
    commoner spelling decides, and the order of `answers` never does.

    The judge compares at most MAX_COMPARISONS pairs, and never two numbers; other pairs, and undecided ones, stay
    apart. Both of an undecided pair are compared with NEUTRAL, and no more if that is undecided too: an answer that
    hangs costs two deadlines. Like judge(), this blocks: call it in a thread."""
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
    """Return the group's name of each canonical form, and the number of undecided pairs.
    `spelled` has an answer of each form."""
    names: dict[str, str] = {}
    hard: set[str] = set()
    undecided, left = 0, MAX_COMPARISONS
    for form in spelled:
        for name in [name for name in names if names[name] == name]:
            if form in hard or left < 3:
                break
            if name in hard or (NUMBER.fullmatch(form) and NUMBER.fullmatch(name)):
                continue
            one, other = sorted((spelled[form], spelled[name]))  # the same order in all votes: verdicts are cached
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


async def by_answer(problem: Problem, population: Population, ask: Ask) -> Graded:
    """Grade boxes, or `Final:` lines, against the reference, and vote. No model is asked. Raises UserError for a
    problem without an answer. It runs in a thread: a hard answer takes seconds, and requests must not wait."""
    return await asyncio.to_thread(grade_answers, problem, population)


def grade_answers(problem: Problem, population: Population) -> Graded:
    """Grade as by_answer does, in this thread."""
    if problem.answer is None:
        raise UserError(f"problem {problem.id} has no answer to compare with. Give it one, or use another grader")
    grades = []
    for member in population:
        reply = member.completion
        unforced = _grade(problem, reply, reply.answer) if reply.forced is not None else None
        ended = replace(reply, finish_reason="stop")  # as before each wait
        before = tuple(_grade(problem, ended, answer) for answer in reply.before_waits)
        grades.append(replace(_grade(problem, reply, reply.text, unforced), before_waits=before))
    voted = groups([grade.answer for grade in grades], problem.answer_type)
    ranks = {name: rank for rank, name in enumerate(voted.counts)}
    ranked = tuple(None if name is None else ranks[name] for name in voted.names)
    score = voted.score(problem.answer, problem.answer_type)
    return Graded(grades, score, next(iter(voted.tied), None), voted.tied, ranked, voted.undecided)


def _grade(problem: Problem, reply: Completion, text: str, unforced: Grade | None = None) -> Grade:
    """Grade one reading of a completion, forced or not. An undecided comparison counts as wrong. It is a doubt, if
    there is no other, and so is a wrong answer or its reference if only spellings could be compared, except words."""
    read = extract(text, problem.answer_type, truncated=reply.truncated)
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
