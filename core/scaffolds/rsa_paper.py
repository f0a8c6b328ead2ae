"""RSA in the words and with the settings of the code of its paper (arXiv 2509.26626, github.com/HyperPotatoNeo/RSA).

The loop is that of rsa.py. What that code does otherwise than 02_rsa_basic: it tells the model to try another
approach where all candidates are wrong, samples at temperature 1, takes N = 16, K = 4 and 10 loops (step 0 and T = 9),
and carries whole responses, thinking included. Candidates stand in the order in which they are drawn, which is random,
as here. What stays ours: the wording, and that a candidate with nothing to carry is passed over (there it is shown
empty). 16 + 9 * 16 = 160 completions.
"""

from collections.abc import AsyncIterator, Sequence

from core.constants import Config
from core.scaffolds.rsa import rsa
from core.types import Ask, Message, Population, Problem

AGGREGATE = """Problem:
{problem}

Here are {count} candidate solutions. Any of them may contain mistakes.

{candidates}

Use what is good in the candidates to write one solution that is better than each of them. Where they disagree, find \
out which way is right. If none of them is right, take another approach. Reason carefully, and put the final answer in \
\\boxed{{}}."""

REFINE = """Problem:
{problem}

Here is a candidate solution. It may be incomplete or contain mistakes.

{candidates}

Turn the candidate into a better solution. If it is wrong from the start, take another approach. Reason carefully, and \
put the final answer in \\boxed{{}}."""


async def rsa_paper(problem: Problem, ask: Ask, config: Config) -> AsyncIterator[Population]:
    """Populations t = 0..T of N members, as core.scaffolds.rsa.rsa yields them."""
    async for population in rsa(problem, ask, config, aggregate=aggregate):
        yield population


def aggregate(problem: str, candidates: Sequence[str]) -> list[Message]:
    """Messages that ask for one better solution made from `candidates` (K >= 1 texts), or else by another approach."""
    shown = "\n\n".join(f"Candidate {i}:\n{text.strip()}" for i, text in enumerate(candidates, 1))
    template = REFINE if len(candidates) == 1 else AGGREGATE
    return [{"role": "user", "content": template.format(problem=problem, count=len(candidates), candidates=shown)}]


def generations(config: Config) -> int:
    """Completions that one problem takes."""
    n: int = config.N
    steps: int = config.T
    return n * (steps + 1)
