"""Self-check (arXiv 2507.15855, github.com/lyang36/IMO25): solve, improve, then review and correct
until reviews pass.

The loop follows QED-Nano's evaluation. Each round reviews the solution once. A second request,
which sees only the review, asks whether the review accepts the solution. If the reply is not "yes",
the model corrects the solution from the review's list of flaws. The loop ends after PASSES
accepting reviews in a row, FAILURES rejecting reviews in a row, or ROUNDS rounds. The newest
solution is the answer. CLASSIFY = 0 is our own variant: the verdict stated in the review
decides."""

import re
from dataclasses import replace

from core import prompts
from core.constants import Carrying, constant
from core.types import Ask, Completion, Member, Message, Populations, Problem, Scaffold, Stage
from harness.scaffolds.common import (
    EMPTY_REPORT,
    UNREADABLE,
    again,
    candidate,
    latest_with_text,
    text_of,
)
from harness.scaffolds.stated import read_answer, read_verdict

REVIEW = """Problem:
{problem}

Solution to be reviewed:
{solution}

Review the solution as a strict examiner: check it step by step and repair nothing. First list \
every flaw that you find: quote the place, say what is wrong with it, and call it an error (the \
argument breaks or a figure is wrong) or a gap (the step may hold but is not justified). After an \
error, go on with the parts that do not depend on it; after a gap, take the step for granted and \
go on. Then, under a line "Details:", justify what you say of each step. End with one line: \
"Verdict: True" if there is no error and no serious gap, else "Verdict: False"."""

ACCEPTED = """A solution was reviewed. The review:

{review}

Does the review say that the solution is correct, or at least that it has no error and no serious \
gap? Answer with one word: "yes" or "no"."""

CORRECT = prompts.worded("""Problem:
{problem}

A <solution|proof> of it:
{solution}

A reviewer reports:
{report}

The reviewer may be mistaken. Where the report is right, repair the <solution|proof>; where it is \
not, explain the step so that nobody can misread it. Write the complete improved <solution and \
{form}|proof, which can be read without the report.>""")

# The beginning of the forced answer if the thinking of a classification is cut off.
ANSWER = "Answer:"

_DETAILS = re.compile(r"^[ \t>*_#`+\-]*+details[ \t*_`]*+(?::|$)", re.IGNORECASE | re.MULTILINE)


class Constants(Carrying):
    CLASSIFY: int = constant(
        1,
        "1: a second request decides whether a review accepts, 0: the review's own verdict decides",
        0,
        1,
    )
    ROUNDS: int = constant(
        30, "largest number of reviews, each with a correction if it rejects the solution", 0, 1000
    )
    PASSES: int = constant(5, "number of accepting reviews in a row that end the loop", 1, 1000)
    FAILURES: int = constant(10, "number of rejecting reviews in a row that end the loop", 1, 1000)
    VERIFY_TOKENS: int = constant(
        8192, "token cap of one review or classification, thinking included", 1, 1_000_000
    )


async def selfcheck(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Correct a solution until its reviews accept it, or until a limit is reached.

    An unreadable verdict or classification counts as a rejection. A solution without text is
    rejected without a review, and written anew. An empty review rejects the solution, and the model
    then improves the solution without a report.

    Yields:
        The first solution, the improved solution, and the current solution after each round."""

    async def rewritten(before: Member, report: str, *names: str | int) -> Member:
        text = text_of(before.completion, config)
        messages: list[Message] = prompts.aggregate(problem, [text] if text else [])
        if report:
            messages = prompts.request(CORRECT, problem, solution=text, report=report)
        return latest_with_text(
            before, await candidate(ask, config, messages, *names, parents=[0] if text else [])
        )

    async def judged(text: str, number: int) -> tuple[bool, str, list[Completion], list[str]]:
        """Review a solution. Return whether the review accepts it, the review's summary, the
        completions and notes."""
        if not text:
            return False, "", [], []
        messages, cap = prompts.request(REVIEW, problem, solution=text), config.VERIFY_TOKENS
        check = await ask(
            messages, "verify", number, max_tokens=cap, answer_opening=prompts.VERDICT
        )
        report, checks = check.text.strip(), [check]
        if not report:
            return False, "", checks, [EMPTY_REPORT]
        accepts = read_verdict(report)
        if config.CLASSIFY:
            checks.append(
                await ask(
                    classify(report), "classify", number, max_tokens=cap, answer_opening=ANSWER
                )
            )
            accepts = read_answer(checks[1].text)
        notes = [UNREADABLE] * (accepts is None) + ["truncated report"] * check.truncated
        return bool(accepts), summary(report), checks, notes

    member = await candidate(ask, config, prompts.solve(problem), 0, 0)
    yield Stage("solution", [member])
    member = await rewritten(member, "", 1, 0)
    yield Stage("improved", [member])
    passes = failures = 0
    for number in range(config.ROUNDS):
        accepts, report, checks, notes = await judged(text_of(member.completion, config), number)
        if accepts:
            passes, failures = passes + 1, 0
            member = again(member, 0)
        else:
            passes, failures = 0, failures + 1
            member = await rewritten(member, report, "correct", number)
        is_over = failures == config.FAILURES or number == config.ROUNDS - 1
        notes += ["never accepted"] if is_over and passes < config.PASSES else []
        checked = replace(
            member, side_calls=[*checks, *member.side_calls], notes=[*notes, *member.notes]
        )
        yield Stage(f"check {number + 1}", [checked])
        if is_over or passes == config.PASSES:
            return


def classify(report: str) -> list[Message]:
    """Build a request to answer "yes" if a review accepts its solution, else "no". The prompt lacks
    the solution."""
    return [{"role": "user", "content": ACCEPTED.format(review=report)}]


def summary(report: str) -> str:
    """Return the part of a review before its "Details:", or the whole review if that part is
    empty."""
    return _DETAILS.split(report, maxsplit=1)[0].strip() or report


SELFCHECK = Scaffold(
    selfcheck,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.REFINE, prompts.VERDICT, REVIEW, ACCEPTED, ANSWER, CORRECT),
    # A round takes at most a review, its classification and a correction.
    max_completions=lambda config: 2 + (3 if config.CLASSIFY else 2) * config.ROUNDS,
    texts_shown=lambda config: 2,  # a solution and its report
)
