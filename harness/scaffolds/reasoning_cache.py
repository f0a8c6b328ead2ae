"""Reasoning cache (arXiv 2602.03773): solve, summarise the reasoning, solve again with only the
summary.

A summary replaces all attempts so far. The prompt asks for at most two paragraphs. It shows the
previous summary and the newest attempt with its thinking (CARRY = "full"), even if unfinished.
ROUNDS = 3 takes at most 5 completions."""

from core import prompts
from core.constants import Carrying, constant
from core.types import Ask, Completion, Message, NamedPopulation, Populations, Problem, Scaffold
from harness.scaffolds.common import (
    CUT_SUMMARY,
    EMPTY_SUMMARY,
    candidate,
    latest_with_text,
    text_of,
)

SUMMARISE = prompts.worded("""Problem:
{problem}

Summary of earlier attempts:
{summary}

Newest attempt, which may be unfinished:
{attempt}

Write a summary for someone who has to go on without seeing any attempt: the approach of the \
newest attempt, the facts and partial results it reached, what it checked, where it failed or \
stopped, <its answer if there is one|what it proved and what is left to prove>, and how it relates \
to the earlier attempts. Keep what still matters of the earlier summary. Add no reasoning of your \
own. Write in the first person, at most two paragraphs of plain text without headings, beginning \
with "Summary:".""")

SOLVE_AGAIN = prompts.worded("""Problem:
{problem}

Summary of earlier attempts, which may be right or wrong:
{summary}

Let the summary guide you, and do better: check <its result|what it says is proved>, go on where \
it stopped, or take another way. <Reason step by step and {form}|Write a complete and rigorous \
proof that can be read without the summary, with a reason for every step that is not well \
known.>""")

OPENING = "Summary:"


class Constants(Carrying):
    ROUNDS: int = constant(
        3, "number of successive solutions, with a summary between each two", 0, 1000
    )
    CARRY: str = constant(
        "full", "part of an attempt that the summary sees", choices=("answer", "tail", "full")
    )
    SUMMARY_TOKENS: int = constant(
        8192, "token cap of one summary, thinking included", 1, 1_000_000
    )


async def reasoning_cache(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Solve a problem ROUNDS times, from the second time on with a summary of the earlier attempts.

    If an attempt has no answer, the previous answer remains. If an attempt or its summary is empty,
    the previous summary remains. If there is no summary, the model solves the problem anew.

    Yields:
        The current answer after each round."""
    newest = member = await candidate(ask, config, prompts.solve(problem), 0, 0)
    yield NamedPopulation("attempt 1", [member])
    summary = ""
    for t in range(1, config.ROUNDS):
        side_calls: list[Completion] = []
        notes: list[str] = []
        attempt = text_of(newest.completion, config)
        if attempt:
            messages = summarise(problem, summary, attempt)
            reply = await ask(
                messages, "summary", t - 1, max_tokens=config.SUMMARY_TOKENS, answer_opening=OPENING
            )
            side_calls.append(reply)
            notes = faults_of(reply)
            summary = read_summary(reply.text) or summary
        messages = solve_again(problem, summary)
        newest = await candidate(ask, config, messages, t, 0, parents=[0] if summary else [])
        newest.side_calls = side_calls
        newest.notes = [*notes, *newest.notes]
        member = latest_with_text(member, newest)
        yield NamedPopulation(f"attempt {t + 1}", [member])


def summarise(problem: Problem, summary: str, attempt: str) -> list[Message]:
    """Build a request for a summary of `attempt` and of the previous `summary` ("" if there is
    none)."""
    return prompts.request(SUMMARISE, problem, summary=summary or "(none)", attempt=attempt)


def read_summary(text: str) -> str:
    return text.strip().removeprefix(OPENING).strip()


def faults_of(reply: Completion) -> list[str]:
    """Return a note if the summary in `reply` is empty or truncated."""
    if not read_summary(reply.text):
        return [EMPTY_SUMMARY]
    return [CUT_SUMMARY] if reply.truncated else []


def solve_again(problem: Problem, summary: str) -> list[Message]:
    """Build a request to solve the problem with the help of `summary`, or without help if `summary`
    is ""."""
    if not summary:
        return prompts.solve(problem)
    return prompts.request(SOLVE_AGAIN, problem, summary=summary)


REASONING_CACHE = Scaffold(
    reasoning_cache,
    constants=Constants,
    prompts=(prompts.SOLVE, SUMMARISE, OPENING, SOLVE_AGAIN),
    max_completions=lambda config: max(1, 2 * config.ROUNDS - 1),
    texts_shown=lambda config: 2,  # an attempt and the previous summary
)
