"""RSA in the words and with the settings of the code of its paper (arXiv 2509.26626, github.com/HyperPotatoNeo/RSA).

The loop is that of rsa.py. What that code does otherwise than 02_rsa_basic: it tells the model to try another
approach where all candidates are wrong, samples at temperature 1, takes N = 16, K = 4 and 10 loops (step 0 and T = 9),
and carries whole responses, thinking included. Candidates stand in the order in which they are drawn, which is random,
as here. What stays ours: the wording, and that a candidate with nothing to carry is passed over (there it is shown
empty). 16 + 9 * 16 = 160 completions.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from core.constants import constant
from core.scaffolds import prompts
from core.scaffolds.rsa import RSA, RsaConstants, rsa
from core.types import Ask, Message, Population, Problem, Wording

AGGREGATE = Wording(
    answer="""Problem:
{problem}

Here are {count} candidate solutions. Any of them may contain mistakes.

{candidates}

Use what is good in the candidates to write one solution that is better than each of them. Where they disagree, find \
out which way is right. If none of them is right, take another approach. Reason carefully, and put the final answer in \
\\boxed{{}}.""",
    proof="""Problem:
{problem}

Here are {count} candidate proofs. Any of them may contain mistakes.

{candidates}

Use what is good in the candidates to write one proof that is better than each of them. Where they disagree, find out \
which way is right. If none of them holds, take another approach. Reason carefully, and give a reason for every step \
that is not well known.""",
)

REFINE = Wording(
    answer="""Problem:
{problem}

Here is a candidate solution. It may be incomplete or contain mistakes.

{candidates}

Turn the candidate into a better solution. If it is wrong from the start, take another approach. Reason carefully, and \
put the final answer in \\boxed{{}}.""",
    proof="""Problem:
{problem}

Here is a candidate proof. It may be incomplete or contain mistakes.

{candidates}

Turn the candidate into a better proof. If it is wrong from the start, take another approach. Reason carefully, and \
give a reason for every step that is not well known.""",
)


@dataclass(frozen=True, kw_only=True)
class Constants(RsaConstants):
    """With the defaults of that code."""

    N: int = constant(16, "population: solutions kept at every step", 1, 1024)
    K: int = constant(4, "subset: solutions that one aggregation sees", 1, 1024)
    T: int = constant(9, "aggregation steps after step 0", 0, 1000)
    CARRY: str = constant("full", "what aggregation sees of a candidate", choices=("answer", "tail", "full"))
    MAX_TOKENS: int = constant(8192, "cap of one completion, thinking included", 1, 1_000_000)
    TEMPERATURE: float = constant(1.0, "sampling temperature", 0, 5)
    ANSWER_TOKENS: int = constant(0, "budget forcing: tokens for the answer at the cap; 0 is off", 0, 100_000)


def aggregate(problem: Problem, candidates: Sequence[str]) -> list[Message]:
    """Messages that ask for one better solution made from `candidates` (K >= 1 texts), or else by another approach."""
    return prompts.merge(AGGREGATE, REFINE, problem, candidates)


async def rsa_paper(problem: Problem, ask: Ask, config: RsaConstants) -> AsyncIterator[Population]:
    """Yield populations t = 0..T of N members, as core.scaffolds.rsa.rsa does."""
    async for population in rsa(problem, ask, config, aggregate=aggregate):
        yield population


RSA_PAPER = replace(RSA, run=rsa_paper, constants=Constants, prompts=(prompts.SOLVE, AGGREGATE, REFINE))
