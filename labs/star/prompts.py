"""Build the prompts that ask for a solution, with or without a hint. The wording is not from the
STaR paper.

FEWSHOT=none is the project's usual prompt, which asks for a box. FEWSHOT=format asks for short
steps and a `Final:` line. FEWSHOT=math adds worked examples to this prompt, but only for
collecting. Training and evaluation use the prompt of `asked`, which never contains examples or a
hint. With FEWSHOT=none, harness/framing.py adds the examples of SHOTS for collecting, and
SYSTEM and PROMPT for all requests."""

from dataclasses import replace

from core import prompts
from core.types import Message, Problem
from labs.star.constants import StarConstants

FORMAT = """{problem}

Write the solution in {least} to {most} short steps, one line each, with the calculation in it. \
End with one more \
line, "Final:" and the answer alone."""

# The prompt of rationalisation, the only one with the reference answer. With FEWSHOT=format or
# math, the required form follows the hint, so that the model reads the form last. With FEWSHOT=none
# the hint is last, as in our measurements.
HINT = """{asked}

For your own check: the right answer is {answer}. Find the steps that lead to it from the problem \
alone, and write \
them as if you had not been told; if a step does not follow, do not write it."""

EXAMPLES = (
    (
        (
            "A shop sells pens in boxes of 12. Mia buys 7 boxes and gives away 19 pens. How many "
            "pens has she left?"
        ),
        "7 boxes hold 7*12 = 84 pens.\nShe has 84 - 19 = 65 pens left.\nFinal: 65",
    ),
    (
        "What is the sum of the positive integers n for which n^2 + n divides 30?",
        "n^2 + n = n(n + 1), a product of two neighbours that divides 30.\n"
        "n = 1 gives 2 and n = 2 gives 6, which divide 30.\n"
        "n = 3, 4 give 12, 20, which do not divide it; n = 5 gives 30, which does; larger n give "
        "more than 30.\n"
        "The sum is 1 + 2 + 5 = 8.\n"
        "Final: 8",
    ),
    (
        (
            "A fair die is thrown twice. What is the probability that the second number is larger "
            "than the first?"
        ),
        "There are 6*6 = 36 pairs, and 6 of them have equal numbers.\n"
        "The other 30 are split evenly, so that 30/2 = 15 have the larger number second.\n"
        "The probability is 15/36 = 5/12.\nFinal: 5/12",
    ),
)


def asked(problem: Problem, config: StarConstants) -> list[Message]:
    """Return the messages that ask for a solution to `problem`: one user message."""
    if config.FEWSHOT == "none":
        return prompts.solve(problem)
    return prompts.request(FORMAT, problem, least=config.MIN_STEPS, most=config.MAX_STEPS)


def collecting(problem: Problem, config: StarConstants, hint: str | None = None) -> list[Message]:
    """Return the messages for collecting. FEWSHOT=math adds worked examples. `hint`: the reference
    answer, or None."""
    if config.FEWSHOT == "none":
        return asked(problem, config) if hint is None else _hinted(problem, hint)
    shown: list[Message] = []
    for statement, solution in EXAMPLES if config.FEWSHOT == "math" else ():
        shown += [
            *asked(Problem("", statement, None), config),
            {"role": "assistant", "content": solution},
        ]
    if hint is not None:
        problem = replace(problem, statement=HINT.format(asked=problem.statement, answer=hint))
    return [*shown, *asked(problem, config)]


def _hinted(problem: Problem, hint: str) -> list[Message]:
    """Return the usual request with the hint at its end. With PROMPT, the hint follows the problem
    instead."""
    question = prompts.solve(problem)[0]["content"]
    request = prompts.solve(
        replace(problem, statement=HINT.format(asked=problem.statement, answer=hint))
    )
    request[:] = [{"role": "user", "content": HINT.format(asked=question, answer=hint)}]
    return request
