"""RSA with the settings of its paper's code (arXiv 2509.26626, github.com/HyperPotatoNeo/RSA).

Unlike 02_rsa_basic, the paper's code tells the model to try another approach if all candidates are
wrong. It samples at temperature 1, with N = 16, K = 4 and 10 loops (step 0 and T = 9). Its prompts
show whole responses with thinking. It reads the last box of a whole response, even if the response
was cut off in its thinking. A problem takes 16 + 9 * 16 = 160 completions.

The statements of the paper's sets already ask for a box or for <answer> tags. As in the paper's
code, step 0 sends such a statement alone. To other statements, it adds our prompt.

With CARRY = "summary" (its --summarize-cot), the model summarises each candidate of a step that is
not the last, with the same sampling parameters. Aggregations show the summaries without their
thinking. If a summary is empty or failed, they show the candidate. A problem takes 9 * 16 more
completions.

docs/experiments.md lists all differences from the paper's code."""

from collections.abc import Sequence
from functools import partial

from core import prompts
from core.constants import WAYS, constant
from core.rsa import RSA, RsaConstants, rsa
from core.types import Ask, Member, Problem, Scaffold, Wording
from harness.scaffolds.reasoning_cache import OPENING, faults_of, read_summary

# A statement that contains one of these tells how to write the answer.
FORM_MARKS = ("\\boxed{", "<answer>")

ALONE = Wording("{problem}", "{problem}")

AGGREGATE = prompts.worded("""Problem:
{problem}

Here are {count} candidate <solutions|proofs>. Any of them may contain mistakes.

{candidates}

Use what is good in the candidates to write one <solution|proof> that is better than each of them. \
Where they disagree, find out which way is right. If none of them <is right|holds>, take another \
approach. Reason carefully, and <{form}|give a reason for every step that is not well known.>""")

REFINE = prompts.worded("""Problem:
{problem}

Here is a candidate <solution|proof>. It may be incomplete or contain mistakes.

{candidates}

Turn the candidate into a better <solution|proof>. If it is wrong from the start, take another \
approach. Reason carefully, and <{form}|give a reason for every step that is not well known.>""")

SUMMARISE = prompts.worded("""Problem:
{problem}

Candidate <solution|proof>, which may be unfinished or contain mistakes:
{candidate}

Shorten the candidate to an outline for someone who has to write a better <solution|proof> without \
seeing it. Keep the approach, the key steps with their formulas, the intermediate results, the \
mistakes and the dead ends. <If the candidate states a final answer, keep it and {form}|End with \
what the candidate has proved and what is left to prove.> Add no reasoning of your own. Begin the \
outline with "Summary:".""")


class Constants(RsaConstants):
    N: int = constant(16, "population: number of solutions at every step", 1, 1024)
    K: int = constant(4, "subset: number of solutions that one aggregation sees", 1, 1024)
    T: int = constant(9, "number of aggregation steps after step 0", 0, 1000)
    CARRY: str = constant(
        "full",
        "part of a candidate that aggregation sees, or the model's summary of it (summary)",
        choices=("answer", "tail", "full", "summary"),
    )
    MAX_TOKENS: int = constant(
        32768, "token cap of one completion, thinking included", 1, 1_000_000
    )
    TEMPERATURE: float = constant(1.0, "sampling temperature", 0, 5)
    ANSWER: str = constant(
        "whole", "form of answers (whole: the last box, thinking included)", choices=("card", *WAYS)
    )
    ANSWER_TOKENS: int = constant(
        0, "budget forcing: answer tokens if thinking hits the cap, or 0 for off", 0, 100_000
    )


def request(problem: Problem, candidates: Sequence[str]) -> prompts.Request:
    """Build a request for a solution from `candidates`, or from the problem alone without
    candidates."""
    if candidates:
        return prompts.Request(AGGREGATE, REFINE, problem, candidates)
    if states_form(problem):
        return prompts.Request(ALONE, ALONE, problem)
    return prompts.solve(problem)


def states_form(problem: Problem) -> bool:
    """Return whether the statement already asks for the answer's form: in a box or between
    tags."""
    if problem.is_proof:
        return False
    return any(mark in problem.statement for mark in FORM_MARKS)


async def summarise(
    problem: Problem, member: Member, t: int, i: int, ask: Ask, config: Constants
) -> str:
    """Return the model's summary of member i of step t, or "" if aggregations show the member. Add
    the side call and notes on its faults to the member."""
    candidate = prompts.carried(member.completion, config)
    if config.CARRY != "summary" or not candidate:
        return ""
    messages = prompts.request(SUMMARISE, problem, candidate=candidate)
    # If a reply is cut off in its thinking, forcing opens a summary instead of an answer.
    reply = await ask(messages, "summary", t, i, answer_opening=OPENING)
    member.side_calls.append(reply)
    member.notes += faults_of(reply)
    return read_summary(reply.text)


def _max_completions(config: Constants) -> int:
    solutions = config.N * (config.T + 1)
    summaries = config.N * config.T if config.CARRY == "summary" else 0
    return solutions + summaries


RSA_PAPER = Scaffold(
    partial(rsa, aggregate=request, summarise=summarise),
    constants=Constants,
    prompts=(prompts.SOLVE, AGGREGATE, REFINE, SUMMARISE, OPENING),
    max_completions=_max_completions,
    texts_shown=RSA.texts_shown,
)
