"""Self-check (arXiv 2507.15855, github.com/lyang36/IMO25): solve, improve, then review and correct until reviews pass.

The loop is from QED-Nano's evaluation. Each round reviews the solution once. A second request, which sees only the
review, says whether the review accepts the solution. Without a clear yes, the solution is corrected from the review's
list of flaws. PASSES in a row accept the solution. After FAILURES in a row, or ROUNDS, the newest solution is the
answer. With 5, 10 and 30: 12 completions (accepted at once), 32 (never passed), at most 92.

With CLASSIFY = 0, which is ours, the review's last line is its verdict: 7 completions, 22, at most 62.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from core.constants import Carrying, constant
from core.scaffolds import common, prompts
from core.scaffolds.verification import read_verdict
from core.types import Ask, Completion, Member, Message, Population, Problem, Scaffold, Stage, Wording, carried

REVIEW = """Problem:
{problem}

Solution to be reviewed:
{solution}

Review the solution as a strict examiner: check it step by step and repair nothing. First list every flaw that you \
find: quote the place, say what is wrong with it, and call it an error (the argument breaks or a figure is wrong) or a \
gap (the step may hold but is not justified). After an error, go on with the parts that do not depend on it; after a \
gap, take the step for granted and go on. Then, under a line "Details:", justify what you say of each step. End with \
one line: "Verdict: True" if there is no error and no serious gap, else "Verdict: False"."""

ACCEPTED = """A solution was reviewed. The review:

{review}

Does the review say that the solution is correct, or at least that it has no error and no serious gap? Answer with one \
word: "yes" or "no"."""

CORRECT = Wording(
    answer="""Problem:
{problem}

A solution of it:
{solution}

A reviewer reports:
{report}

The reviewer may be mistaken. Where the report is right, repair the solution; where it is not, explain the step so \
that nobody can misread it. Write the complete improved solution and put the final answer in \\boxed{{}}.""",
    proof="""Problem:
{problem}

A proof of it:
{solution}

A reviewer reports:
{report}

The reviewer may be mistaken. Where the report is right, repair the proof; where it is not, explain the step so that \
nobody can misread it. Write the complete improved proof, which can be read without the report.""",
)

# The beginning of a classification whose thinking was cut off.
ANSWER = "Answer:"

_DETAILS = re.compile(r"^[ \t>*_#`+\-]*+details[ \t*_`]*+(?::|$)", re.IGNORECASE | re.MULTILINE)
_WORDS = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_FIRST = re.compile(r"\W*+(yes|no)\b", re.IGNORECASE)
_LAST = re.compile(r"\b(yes|no)\W*+$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Constants(Carrying):
    CLASSIFY: int = constant(
        1, "1: a second request says whether a review accepts; 0: the review's last line does", 0, 1
    )
    ROUNDS: int = constant(30, "reviews at most, each followed by a correction if it fails", 0, 1000)
    PASSES: int = constant(5, "reviews passed in a row that accept a solution", 1, 1000)
    FAILURES: int = constant(10, "reviews failed in a row that end the attempt", 1, 1000)
    VERIFY_TOKENS: int = constant(8192, "cap of one review, and of its classification, thinking included", 1, 1_000_000)


async def selfcheck(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
    """Correct a solution until its reviews pass.

    An unreadable verdict or classification counts as a failure. A solution without text fails without a review, and is
    written anew. An empty review fails the solution, which is then improved without a report.

    Yields:
        The first solution, the improved one, and the current one after each round."""

    async def rewritten(before: Member, messages: list[Message], *names: str | int) -> Member:
        if not common.has_text(before, config):
            return common.latest_with_text(before, await common.candidate(ask, config, prompts.solve(problem), *names))
        return common.latest_with_text(before, await common.candidate(ask, config, messages, *names, parents=[0]))

    async def judged(text: str, number: int) -> tuple[bool, str, list[Completion], list[str]]:
        """Review a solution. Return whether the review accepts it, its summary, the completions and notes."""
        cap = config.VERIFY_TOKENS
        check = await ask(review(problem, text), "verify", number, max_tokens=cap, answer_opening=prompts.VERDICT)
        report, checks = check.text.strip(), [check]
        if not report:
            return False, "", checks, [common.EMPTY_REPORT]
        if config.CLASSIFY:
            checks.append(await ask(classify(report), "classify", number, max_tokens=cap, answer_opening=ANSWER))
            accepts = read_answer(checks[1].text)
        else:
            verdict = read_verdict(report)
            accepts = None if verdict is None else verdict == 1.0
        notes = [common.UNREADABLE] * (accepts is None) + [common.CUT_REPORT] * check.truncated
        return accepts is True, summary(report), checks, notes

    member = await common.candidate(ask, config, prompts.solve(problem), 0, 0)
    yield Stage("solution", [member])
    member = await rewritten(member, prompts.aggregate(problem, [carried(member.completion, config)]), 1, 0)
    yield Stage("improved", [member])
    passes = failures = 0
    for number in range(config.ROUNDS):
        text = carried(member.completion, config).strip()
        accepts, report, checks, notes = await judged(text, number) if text else (False, "", [], [])
        if accepts:
            passes, failures = passes + 1, 0
            member = Member(member.completion, [0], carried_over=True)
        else:
            passes, failures = 0, failures + 1
            messages = correct(problem, text, report) if report else prompts.aggregate(problem, [text])
            member = await rewritten(member, messages, "correct", number)
        is_over = failures == config.FAILURES or number == config.ROUNDS - 1
        notes += [common.UNACCEPTED] if is_over and passes < config.PASSES else []
        checked = replace(member, side_calls=[*checks, *member.side_calls], notes=[*notes, *member.notes])
        yield Stage(f"check {number + 1}", [checked])
        if is_over or passes == config.PASSES:
            return


def review(problem: Problem, solution: str) -> list[Message]:
    """Ask for a report on `solution`: flaws, "Details:", and a last line "Verdict: True" or "Verdict: False"."""
    return prompts.request(REVIEW, problem, solution=solution)


def classify(report: str) -> list[Message]:
    """Ask whether a review accepts its solution, which is not shown: "yes" or "no"."""
    return [{"role": "user", "content": ACCEPTED.format(review=report)}]


def correct(problem: Problem, solution: str, report: str) -> list[Message]:
    return prompts.request(CORRECT, problem, solution=solution, report=report)


def summary(report: str) -> str:
    """Return the part of a review before its details; all of it if that is empty."""
    return _DETAILS.split(report, maxsplit=1)[0].strip() or report


def read_answer(text: str) -> bool | None:
    """Return True for yes, False for no, else None: the word at an end of `text`, or the only one of both within."""
    text = text.strip()
    ends = [match[1].lower() for match in (_FIRST.match(text), _LAST.search(text)) if match]
    words = set(ends) or {word.lower() for word in _WORDS.findall(text)}
    return words == {"yes"} if len(words) == 1 else None


SELFCHECK = Scaffold(
    selfcheck,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.REFINE, prompts.VERDICT, REVIEW, ACCEPTED, ANSWER, CORRECT),
    # A review, its classification and a correction in every round; a few less if ROUNDS is more than FAILURES.
    max_completions=lambda config: 2 + (3 if config.CLASSIFY else 2) * config.ROUNDS,
    texts_shown=lambda config: 2,  # a solution and the report on it
)
