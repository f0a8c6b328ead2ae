"""Self-check (arXiv 2507.15855): solve, self-improve, then review and correct until the reviews keep passing.

Each round reviews the solution once. A failed review is a bug report, from which the solution is corrected in the same
round; a passed one is repeated. PASSES in a row accept the solution, FAILURES in a row give up, and so does the end
of ROUNDS; the solution as it then stands is the answer, for in these experiments something has to be. With 5, 10 and
30: 7 completions (accepted at once), 22 (never passed), never more than 62.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

from core import prompts
from core.config import Config
from core.generate import Ask, Completion
from core.problems import Problem
from core.prompts import Message
from core.rsa import Member, Population, carried
from core.scaffolds.common import CUT_REPORT, UNACCEPTED, UNREADABLE, doubts, is_spoken, latest_spoken
from core.verification import read_verdict

REVIEW = """Problem:
{problem}

Solution to be reviewed:
{solution}

Review the solution as a strict examiner: check it step by step and repair nothing. List every flaw that you find: \
quote the place, say what is wrong with it, and call it an error (the argument breaks or a figure is wrong) or a gap \
(the step may hold but is not justified). After an error, go on with the parts that do not depend on it; after a gap, \
take the step for granted and go on. End with one line: "Verdict: True" if there is no error and no serious gap, else \
"Verdict: False"."""

CORRECT = """Problem:
{problem}

A solution of it:
{solution}

A reviewer reports:
{report}

The reviewer may be mistaken. Where the report is right, repair the solution; where it is not, explain the step so \
that nobody can misread it. Write the complete improved solution and put the final answer in \\boxed{{}}."""


async def selfcheck(problem: Problem, ask: Ask, config: Config) -> AsyncIterator[Population]:
    """Populations of one member: the first solution, the improved one, and what stands after each round.

    A verdict that can't be read is neither a pass nor a failure: it is noted, and the next round reviews again. A
    candidate with nothing to look at fails without a review, and is made afresh; a correction without an answer leaves
    the solution as it was.
    """

    async def rewritten(before: Member, messages: list[Message], *names: str | int) -> Member:
        is_there = is_spoken(before, config)
        made = await ask(messages if is_there else prompts.solve(problem.statement), *names)
        return latest_spoken(before, Member(made, [0] if is_there else [], notes=doubts(made, config)))

    made = await ask(prompts.solve(problem.statement), 0, 0)
    member = Member(made, notes=doubts(made, config))
    yield [member]
    member = await rewritten(member, prompts.aggregate(problem.statement, [carried(made, config)]), 1, 0)
    yield [member]
    passes = failures = 0
    for number in range(config.ROUNDS):
        text, report = carried(member.completion, config).strip(), ""
        verdict: float | None = 0.0
        checks: list[Completion] = []
        notes: list[str] = []
        if text:
            messages = review(problem.statement, text)
            check = await ask(
                messages, "verify", number, max_tokens=config.VERIFY_TOKENS, answer_opening=prompts.VERDICT
            )
            verdict, report = read_verdict(check.text), check.text.strip()
            checks.append(check)
            notes += [UNREADABLE] if verdict is None else [CUT_REPORT] if check.truncated else []
        if verdict == 0.0:
            passes, failures = 0, failures + 1
            member = await rewritten(member, correct(problem.statement, text, report), "correct", number)
        else:
            passes, failures = (passes, failures) if verdict is None else (passes + 1, 0)
            member = Member(member.completion, [0], again=True)
        is_over = failures == config.FAILURES or number == config.ROUNDS - 1
        notes += [UNACCEPTED] if is_over and passes < config.PASSES else []
        yield [replace(member, checks=[*checks, *member.checks], notes=[*notes, *member.notes])]
        if is_over or passes == config.PASSES:
            return


def review(problem: str, solution: str) -> list[Message]:
    """Messages that ask for a report on `solution`, with a last line "Verdict: True" or "Verdict: False"."""
    return [{"role": "user", "content": REVIEW.format(problem=problem, solution=solution)}]


def correct(problem: str, solution: str, report: str) -> list[Message]:
    """Messages that ask for `solution` to be corrected after a reviewer's `report`."""
    return [{"role": "user", "content": CORRECT.format(problem=problem, solution=solution, report=report)}]


def generations(config: Config) -> int:
    """The most completions that a problem takes: a review and a correction in every round. Passes between the failures
    make it a few less."""
    rounds: int = config.ROUNDS
    return 2 + 2 * rounds


def shown(_: Config) -> int:
    """The most texts that one prompt shows: a solution and the report on it."""
    return 2
