"""RSA with the settings of its paper's code (arXiv 2509.26626, github.com/HyperPotatoNeo/RSA).

Unlike 02_rsa_basic, the paper's code tells the model to try another approach if all candidates are
wrong. It samples at temperature 1, with N = 16, K = 4 and 10 loops (step 0 and T = 9). Its prompts
show whole responses with thinking. It reads the last box of a whole response, even if the response
was cut off in its thinking. A problem takes 16 + 9 * 16 = 160 completions.

These differences are left:

- Our prompts have other words. The paper's code sends the set's own prompt at step 0. So does this
  scaffold if PROMPT names a file that contains only {problem}.
- Candidates without text are left out. The paper's code shows them as empty.
- Answers are equal if their values are equal. The paper's code compares normalised texts.
- If answers tie in the vote, their mean counts. In the paper's code, the first answer counts.
- The paper's code averages four seeds. Set RUNS=4 for that."""

from dataclasses import replace
from functools import partial

from core import prompts
from core.constants import WAYS, constant
from core.rsa import RSA, RsaConstants, rsa

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


class Constants(RsaConstants):
    N: int = constant(16, "population: number of solutions at every step", 1, 1024)
    K: int = constant(4, "subset: number of solutions that one aggregation sees", 1, 1024)
    T: int = constant(9, "number of aggregation steps after step 0", 0, 1000)
    CARRY: str = constant(
        "full", "part of a candidate that aggregation sees", choices=("answer", "tail", "full")
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


RSA_PAPER = replace(
    RSA,
    run=partial(rsa, aggregate=partial(prompts.Request, AGGREGATE, REFINE)),
    constants=Constants,
    prompts=(prompts.SOLVE, AGGREGATE, REFINE),
)
