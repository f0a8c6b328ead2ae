"""Self-check (arXiv 2507.15855, github.com/lyang36/IMO25): solve, self-improve, then review and correct until the
reviews keep passing. The loop is that of QED-Nano's evaluation.

Each round reviews the solution once, and a second request, which sees nothing but the review, says whether that accepts
the solution. Anything but a clear yes is a failure, and the solution is corrected in the same round from the review's
summary, the list of flaws before the details. PASSES in a row accept the solution; FAILURES in a row, or the end of
ROUNDS, give up, and the newest solution is the answer. With 5, 10 and 30: 12 completions (accepted at once), 32 (never
passed), never more than 92.

CLASSIFY = 0 is ours, not the source's: the last line of the review is its verdict. 7 completions, 22, at most 62.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from core.constants import Carrying, constant
from core.scaffolds import prompts
from core.scaffolds.common import CUT_REPORT, EMPTY_REPORT, UNACCEPTED, UNREADABLE, has_text, latest_with_text, notes_on
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

# What the classification begins with where its thinking was cut off.
ANSWER = "Answer:"

_DETAILS = re.compile(r"^[ \t>*_#`+\-]*+details[ \t*_`]*+(?::|$)", re.IGNORECASE | re.MULTILINE)
_WORDS = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_FIRST = re.compile(r"\W*+(yes|no)\b", re.IGNORECASE)
_LAST = re.compile(r"\b(yes|no)\W*+$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Constants(Carrying):
    CLASSIFY: int = constant(1, "1: one more request says whether a review accepts; 0: its own verdict does", 0, 1)
    ROUNDS: int = constant(30, "reviews at most, each followed by a correction where it fails", 0, 1000)
    PASSES: int = constant(5, "reviews passed in a row that accept a solution", 1, 1000)
    FAILURES: int = constant(10, "reviews failed in a row that end the attempt", 1, 1000)
    VERIFY_TOKENS: int = constant(8192, "cap of one review, and of its classification, thinking included", 1, 1_000_000)


async def selfcheck(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
    """Populations of one member: the first solution, the improved one, and what stands after each round.

    A verdict or classification that can't be read fails the solution, and is noted. A candidate with nothing to look at
    fails without a review, and is made afresh; a review with nothing to read fails without a classification, and the
    solution is improved without a report. A correction without an answer leaves the solution as it was."""

    async def rewritten(before: Member, messages: list[Message], *names: str | int) -> Member:
        is_there = has_text(before, config)
        made = await ask(messages if is_there else prompts.solve(problem), *names)
        return latest_with_text(before, Member(made, [0] if is_there else [], notes=notes_on(made, config)))

    async def judged(text: str, number: int) -> tuple[bool, str, list[Completion], list[str]]:
        """Whether a review accepts a solution, what it hands on, the requests spent, notes."""
        cap = config.VERIFY_TOKENS
        check = await ask(review(problem, text), "verify", number, max_tokens=cap, answer_opening=prompts.VERDICT)
        said, checks = check.text.strip(), [check]
        if not said:
            return False, "", checks, [EMPTY_REPORT]
        if config.CLASSIFY:
            checks.append(await ask(classify(said), "classify", number, max_tokens=cap, answer_opening=ANSWER))
            accepts = read_answer(checks[1].text)
        else:
            verdict = read_verdict(said)
            accepts = None if verdict is None else verdict == 1.0
        notes = [UNREADABLE] * (accepts is None) + [CUT_REPORT] * check.truncated
        return accepts is True, summary(said), checks, notes

    def correction(text: str, report: str) -> list[Message]:
        return correct(problem, text, report) if report else prompts.aggregate(problem, [text])

    made = await ask(prompts.solve(problem), 0, 0)
    member = Member(made, notes=notes_on(made, config))
    yield Stage("solution", [member])
    member = await rewritten(member, prompts.aggregate(problem, [carried(made, config)]), 1, 0)
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
            member = await rewritten(member, correction(text, report), "correct", number)
        is_over = failures == config.FAILURES or number == config.ROUNDS - 1
        notes += [UNACCEPTED] if is_over and passes < config.PASSES else []
        checked = replace(member, side_calls=[*checks, *member.side_calls], notes=[*notes, *member.notes])
        yield Stage(f"check {number + 1}", [checked])
        if is_over or passes == config.PASSES:
            return


def review(problem: Problem, solution: str) -> list[Message]:
    """Messages that ask for a report on `solution`: its flaws, a line "Details:" and what was checked, and a last line
    "Verdict: True" or "Verdict: False"."""
    return prompts.request(REVIEW, problem, solution=solution)


def classify(said: str) -> list[Message]:
    """Messages that ask whether a review, of which nothing else is shown, accepts its solution: "yes" or "no"."""
    return [{"role": "user", "content": ACCEPTED.format(review=said)}]


def correct(problem: Problem, solution: str, report: str) -> list[Message]:
    """Messages that ask for `solution` to be corrected after a reviewer's `report`."""
    return prompts.request(CORRECT, problem, solution=solution, report=report)


def summary(said: str) -> str:
    """What stands before the details of a review; all of it where it has none, or nothing before them."""
    return _DETAILS.split(said, maxsplit=1)[0].strip() or said


def read_answer(text: str) -> bool | None:
    """True for yes, False for no: the word with which `text` begins or ends, or else the only one of both in it. None
    where there is none, or both."""
    text = text.strip()
    ends = [match[1].lower() for match in (_FIRST.match(text), _LAST.search(text)) if match]
    said = set(ends) or {word.lower() for word in _WORDS.findall(text)}
    return said == {"yes"} if len(said) == 1 else None


SELFCHECK = Scaffold(
    selfcheck,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.REFINE, prompts.VERDICT, REVIEW, ACCEPTED, ANSWER, CORRECT),
    # A review, its classification and a correction in every round. A run of more than FAILURES rounds stays a few
    # below, as only passes between the failures let it go on.
    max_completions=lambda config: 2 + (3 if config.CLASSIFY else 2) * config.ROUNDS,
    texts_shown=lambda config: 2,  # a solution and the report on it
)
