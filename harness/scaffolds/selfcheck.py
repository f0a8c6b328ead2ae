"""Self-check (arXiv 2507.15855, github.com/lyang36/IMO25): solve, improve, then review and correct
until reviews pass.

The loop follows QED-Nano's evaluation. Each round reviews the solution once. A second request,
which sees only the review, asks whether the review accepts the solution. If the reply is not "yes",
the model corrects the solution from the review's list of flaws. The loop ends after PASSES
accepting reviews in a row, FAILURES rejecting reviews in a row, or ROUNDS rounds. The newest
solution is the answer. CLASSIFY = 0 is our own variant: the verdict stated in the review
decides."""

import re
from dataclasses import dataclass, field, replace

from core import prompts
from core.constants import Carrying, constant
from core.types import (
    Ask,
    Completion,
    Member,
    Message,
    NamedPopulation,
    Populations,
    Problem,
    Scaffold,
)
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
    member = await candidate(ask, config, prompts.solve(problem), 0, 0)
    yield NamedPopulation("solution", [member])
    member = await _rewritten(problem, ask, config, member, "", 1, 0)
    yield NamedPopulation("improved", [member])
    passes = 0
    failures = 0
    for number in range(config.ROUNDS):
        text = text_of(member.completion, config)
        review = await _reviewed(problem, ask, config, text, number)
        if review.accepts:
            passes += 1
            failures = 0
            member = again(member, 0)
        else:
            passes = 0
            failures += 1
            member = await _rewritten(
                problem, ask, config, member, review.report, "correct", number
            )
        is_over = failures == config.FAILURES or number == config.ROUNDS - 1
        if is_over and passes < config.PASSES:
            review.notes.append("never accepted")
        side_calls = [*review.completions, *member.side_calls]
        notes = [*review.notes, *member.notes]
        checked = replace(member, side_calls=side_calls, notes=notes)
        yield NamedPopulation(f"check {number + 1}", [checked])
        if is_over or passes == config.PASSES:
            return


@dataclass
class _Review:
    """A review of a solution: its decision, the `report` for a correction ("" for none), the
    completions, and notes on faults."""

    accepts: bool = False
    report: str = ""
    completions: list[Completion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def _rewritten(
    problem: Problem,
    ask: Ask,
    config: Constants,
    before: Member,
    report: str,
    *names: str | int,
) -> Member:
    """Request a better solution: by `report`, or without one. Without text, solve the problem
    again."""
    text = text_of(before.completion, config)
    messages: list[Message] = prompts.aggregate(problem, [text] if text else [])
    if report:
        messages = prompts.request(CORRECT, problem, solution=text, report=report)
    new = await candidate(ask, config, messages, *names, parents=[0] if text else [])
    return latest_with_text(before, new)


async def _reviewed(
    problem: Problem, ask: Ask, config: Constants, text: str, number: int
) -> _Review:
    """Review a solution, which is rejected without a review if it has no text."""
    review = _Review()
    if not text:
        return review
    messages = prompts.request(REVIEW, problem, solution=text)
    cap = config.VERIFY_TOKENS
    reply = await ask(messages, "verify", number, max_tokens=cap, answer_opening=prompts.VERDICT)
    review.completions.append(reply)
    report = reply.text.strip()
    if not report:
        review.notes.append(EMPTY_REPORT)
        return review
    accepts: float | bool | None = read_verdict(report)
    if config.CLASSIFY:
        messages = classify(report)
        answer = await ask(messages, "classify", number, max_tokens=cap, answer_opening=ANSWER)
        review.completions.append(answer)
        accepts = read_answer(answer.text)
    if accepts is None:
        review.notes.append(UNREADABLE)
    if reply.truncated:
        review.notes.append("truncated report")
    review.accepts = bool(accepts)
    review.report = summary(report)
    return review


def classify(report: str) -> list[Message]:
    """Build a request to answer "yes" if a review accepts its solution, else "no". The prompt lacks
    the solution."""
    return [{"role": "user", "content": ACCEPTED.format(review=report)}]


def summary(report: str) -> str:
    """Return the part of a review before its "Details:", or the whole review if that part is
    empty."""
    head = _DETAILS.split(report, maxsplit=1)[0].strip()
    return head or report


SELFCHECK = Scaffold(
    selfcheck,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.REFINE, prompts.VERDICT, REVIEW, ACCEPTED, ANSWER, CORRECT),
    # A round takes at most a review, its classification and a correction.
    max_completions=lambda config: 2 + (3 if config.CLASSIFY else 2) * config.ROUNDS,
    texts_shown=lambda config: 2,  # a solution and its report
)
