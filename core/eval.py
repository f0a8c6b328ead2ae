r"""Read an answer, compare it with the reference answer, vote, and estimate pass@k.

    >>> answer = extract_answer(r"6 * 7 = 42, so the answer is \boxed{42}.")
    >>> is_correct(answer, "42.0")
    True
    >>> majority_vote(["42", r"\frac{84}{2}", "41"])
    '42'
    >>> pass_at_k(n=8, c=4, k=1)
    0.5

Runs grade populations by `by_answer`, the default grader. It also records doubts and ties. The
details are in core/grading: boxes, sentences, units, and mathematics with sympy."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb

from core.base.errors import UserError
from core.grading.canonical import NUMBER
from core.grading.extraction import Extraction
from core.grading.kind import Kind
from core.grading.kinds import kind_of, named
from core.grading.text import text_read
from core.types import Ask, Completion, Grade, Graded, Population, Problem

# comparisons by sympy in one vote, enough for 35 different answers, if none is undecided
MAX_COMPARISONS = 600
UNDECIDED_COST = 3  # comparisons that an undecided pair may need: itself and two with NEUTRAL
NEUTRAL = r"\sqrt{2}"  # comparing it with an answer is quick unless the answer makes sympy hang


# --- read ---


def extract_answer(text: str, answer_type: str = "math") -> str | None:
    r"""Read the answer that a model's output states.

    The last complete \boxed{} counts. Without a box, the last line such as `Final: 42` counts, or
    else the last sentence such as "The answer is 42." Thinking is ignored. Digits are never guessed
    out of an expression.

    Args:
        text: the output, with or without thinking.
        answer_type: "math", "integer" for whole numbers from 0 to 999 (AIME), which lose units,
            "choice" for the letter of an option, or another kind in core/grading/kinds.

    Returns:
        The cleaned answer (of "math", in LaTeX), or None if the text states none.

    Raises:
        UserError: if the answer type is unknown.

    Example:
        >>> extract_answer(r"So the area is \boxed{\dfrac{1}{2}}.")
        '\\frac{1}{2}'
        >>> extract_answer("6 * 7 is 42") is None
        True
    """
    return named(answer_type)().read(text).answer


# --- compare ---


def is_correct(answer: str | None, reference: str, answer_type: str = "math") -> bool:
    r"""Compare an answer, or the answer of a model's output, with the reference answer.

    Args:
        answer: an answer such as "1/2", or an output that states one. None is wrong.
        reference: the reference answer.
        answer_type: "math" compares values with sympy. "integer" compares whole numbers from 0 to
            999, and "choice" letters. Other kinds are in core/grading/kinds.

    Returns:
        Whether they are equal. If sympy cannot decide, the answer counts as wrong.

    Raises:
        UserError: if the answer type is unknown, or sympy's process does not start.

    Example:
        >>> is_correct("0.5", r"\frac{1}{2}")
        True
        >>> is_correct(r"The answer is \boxed{\sqrt{8}}.", r"2\sqrt{2}")
        True
        >>> is_correct("12 cm", "12 m")
        False
    """
    kind = named(answer_type)()
    if not answer:
        return False
    extracted = kind.read(answer).answer
    if extracted is None:
        extracted = answer
    return kind.is_equal(extracted, reference) is True


def is_equal(answer: str | None, truth: str, answer_type: str = "math") -> bool | None:
    """Return whether `answer` equals `truth`, or None without a verdict (see Math.is_equal in
    core/grading/kinds/math.py, which may block for seconds). A missing answer is wrong. Raises
    UserError if the answer type is unknown, or sympy's process does not start."""
    kind = named(answer_type)()
    if answer is None:
        return False
    return kind.is_equal(answer, truth)


# --- vote ---


def majority_vote(answers: Sequence[str | None], answer_type: str = "math") -> str | None:
    r"""Choose the answer that occurs most often (self-consistency, arXiv 2203.11171).

    Equal values vote together, whatever their spelling. If answers tie, the shortest one wins, and
    of equally short ones the first in alphabetical order. Metrics do not depend on this choice: a
    tie scores the share of right answers among the tied ones (Groups.score).

    Args:
        answers: the answers of the samples, None for a missing one, which does not vote.
        answer_type: "math", "integer" or another kind, as in extract_answer.

    Returns:
        The winning answer in its shortest spelling (of "task", the most frequent one), or None
        without votes.

    Raises:
        UserError: if the answer type is unknown, or sympy's process does not start.

    Example:
        >>> majority_vote(["0.5", r"\frac{1}{2}", "3", None])
        '0.5'
    """
    kind = named(answer_type)()
    vote = groups(answers, kind)
    if not vote.tied:
        return None
    return vote.spelled[vote.tied[0]]


@dataclass(frozen=True)
class Groups:
    """Groups of equal answers. A group's name is a canonical form (core/grading/canonical.py).
    `names` has each answer's group or None for a missing answer. `spelled` has one answer of each
    group. `undecided` counts undecided comparisons."""

    names: tuple[str | None, ...] = field(compare=False)
    spelled: dict[str, str]
    undecided: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The votes of each group, most votes first. Of groups with equal votes, shorter names come
        first."""
        counts = Counter(name for name in self.names if name is not None)
        return {name: counts[name] for name in _ranked(counts)}

    @property
    def tied(self) -> tuple[str, ...]:
        """The groups that share the most votes, in the order of `counts`. The first group is the
        vote's answer."""
        counts = self.counts
        largest = max(counts.values(), default=0)
        return tuple(name for name in counts if counts[name] == largest)

    def score(self, kind: Kind) -> float:
        """Score the majority vote: the mean score of the tied answers, so that a tie scores the
        share of its right answers. Without votes, the score is 0."""
        scores = [kind.score(self.spelled[name]) or 0.0 for name in self.tied]
        return sum(scores) / len(scores) if scores else 0.0


def _ranked(counts: Mapping[str, int]) -> list[str]:
    """Return the names with the most votes first. Of equal counts, shorter names come first."""
    return sorted(counts, key=lambda name: (-counts[name], len(name), name))


def groups(answers: Sequence[str | None], kind: Kind) -> Groups:
    """Group equal answers. Answers with the same canonical form are equal.

    Some kinds also compare answers of different forms (math, by sympy). Comparison starts with the
    most frequent form. Of equally frequent forms, shorter forms come first. Each form joins the
    first group whose name it equals, or starts a new group under its own name. Equality is not
    transitive (5 km = 5 and 5 = 5 cm), but the order of `answers` has no effect.

    Sympy compares at most MAX_COMPARISONS pairs, and never two numbers. Pairs without a verdict
    count as different. After an undecided pair, both answers are compared with NEUTRAL. If that is
    undecided too, the answer is not compared again. So an answer that hangs costs two deadlines.
    Like is_equal, this function blocks: use a thread."""
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    forms: list[str | None] = []
    for answer in answers:
        form = None if answer is None else kind.canonical(answer)
        forms.append(form)
        if answer is not None and form is not None:
            spellings[form].append(answer)
    ranked = _ranked({form: len(same) for form, same in spellings.items()})
    spelled = {form: kind.spelling(spellings[form]) for form in ranked}
    names = {form: form for form in ranked}
    undecided = 0
    if kind.compares:
        names, undecided = _joined(spelled, kind)
    return Groups(
        tuple(None if form is None else names[form] for form in forms),
        {name: spelled[name] for name in ranked if name == names[name]},
        undecided,
    )


def _joined(spelled: Mapping[str, str], kind: Kind) -> tuple[dict[str, str], int]:
    """Return the group's name for each canonical form, and the number of undecided pairs.
    `spelled` maps each form to one answer."""
    names: dict[str, str] = {}
    hanging: set[str] = set()
    undecided = 0
    budget = MAX_COMPARISONS
    for form in spelled:
        is_number = NUMBER.fullmatch(form)
        first_forms = [name for name in names if name == names[name]]
        for name in first_forms:
            if form in hanging or budget < UNDECIDED_COST:
                break
            if name in hanging or (is_number and NUMBER.fullmatch(name)):
                continue
            # sorted, because verdicts are cached by order
            first, second = sorted((spelled[form], spelled[name]))
            verdict = kind.is_equal(first, second)
            budget -= 1
            if verdict:
                names[form] = name
                break
            if verdict is None:
                undecided += 1
                budget -= 2
                for suspect in (form, name):
                    if kind.is_equal(spelled[suspect], NEUTRAL) is None:
                        hanging.add(suspect)
        names.setdefault(form, form)
    return names, undecided


# --- pass@k ---


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate the chance that at least one of `k` samples is correct, without bias (Chen et al.
    2021, arXiv 2107.03374).

    Args:
        n: number of samples.
        c: number of correct samples.
        k: number of samples that are drawn.

    Returns:
        pass@k, the share of draws of `k` out of `n` samples that contain a correct one.

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.

    Example:
        >>> pass_at_k(4, 2, 2)
        0.8333333333333334
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, not n={n} c={c} k={k}")
    draws = comb(n, k)
    return (draws - comb(n - c, k)) / draws


# --- grade a population ---


async def by_answer(problem: Problem, population: Population, ask: Ask) -> Graded:
    """Compare each member's answer with the reference answer, and vote, without a model. This runs
    in a thread, because a hard answer takes seconds and requests must not wait. Raises UserError if
    the answer or sympy's process is missing."""
    return await asyncio.to_thread(grade_answers, problem, population)


def grade_answers(problem: Problem, population: Population) -> Graded:
    """Grade as by_answer does, but in the calling thread."""
    if problem.answer is None:
        raise UserError(
            f"problem {problem.id} has no reference answer. Add one to its row, or use another "
            "grader"
        )
    kind = kind_of(problem)
    grades = [_grade_reply(kind, problem, member.completion) for member in population]
    vote = groups([grade.answer for grade in grades], kind)
    ranks: dict[str | None, int] = {name: rank for rank, name in enumerate(vote.counts)}
    tied = vote.tied
    return Graded(
        grades,
        vote.score(kind),
        tied[0] if tied else None,
        tied,
        tuple(map(ranks.get, vote.names)),
        vote.undecided,
    )


def read_reply(problem: Problem, reply: Completion, text: str | None = None) -> Extraction:
    """Read the answer of a `reply`, or of its `text` before a forced answer or wait, as the
    problem's `answer_form` says. The form "whole" also reads the thinking."""
    way = problem.answer_form
    if text is None:
        text = reply.text
    kind = kind_of(problem)
    return kind.read(text_read(reply, text, way), way, reply.truncated)


def _grade_reply(kind: Kind, problem: Problem, reply: Completion) -> Grade:
    """Grade a reply, and its texts before a forced answer and before each wait."""
    grade = _grade(kind, problem, reply, reply.text)
    if reply.forced is not None:
        grade = replace(grade, unforced=_grade(kind, problem, reply, reply.answer))
    # thinking ended before each wait, so it was not truncated
    ended = replace(reply, finish_reason="stop")
    before_waits = tuple(_grade(kind, problem, ended, answer) for answer in reply.before_waits)
    return replace(grade, before_waits=before_waits)


def _grade(kind: Kind, problem: Problem, reply: Completion, text: str) -> Grade:
    """Grade a `text` of the reply. An undecided answer counts as wrong, with a doubt. The kind may
    add a doubt about the verdict."""
    extraction = _with_one_answer(kind, read_reply(problem, reply, text), problem)
    answer = extraction.answer
    if answer and extraction.name and "=" in (problem.answer or ""):
        answer = f"{extraction.name} = {answer}"
    score = kind.score(answer)
    doubt = extraction.doubt
    if score is None:
        doubt = doubt or "undecided"
        return Grade(0.0, extraction.answer, doubt, is_undecided=True)
    if answer and not doubt:
        doubt = kind.doubt(answer, score)
    return Grade(score, extraction.answer, doubt)


def _with_one_answer(kind: Kind, extraction: Extraction, problem: Problem) -> Extraction:
    """Return the extraction without its doubt if its answers are several spellings of one answer.
    If the sentence in the box equals the reference answer, the sentence is the answer, and not its
    number."""
    sentence = extraction.sentence
    if sentence and kind.is_equal(sentence, problem.answer or ""):
        return replace(extraction, answer=sentence)
    others = extraction.others
    if not others:
        return extraction
    is_list = extraction.doubt == "list"
    answer = others[-1] if is_list else extraction.answer
    vote = groups([answer, *others], kind)
    if len(vote.counts) > 1:
        return extraction
    return replace(extraction, answer=answer, doubt=None)
