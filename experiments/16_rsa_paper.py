"""RSA with the settings of its paper's code.

The settings are N = 16, K = 4, 10 loops and temperature 1. A problem takes 160 completions.
Aggregation and reading see whole responses with their thinking. With CARRY=summary, the model
summarises each candidate for the next step, which takes 144 more completions. PROBLEMS may be a
parquet file of the paper's repository. docs/experiments.md compares it with the paper's code. The
embedded model cannot reach the token cap, because its context has 2,048 tokens. Its solutions take
about 122 tokens.

Question: how much does RSA add to a model's accuracy, with the settings of RSA's authors (arXiv
2509.26626)?
Expected: mean accuracy rises with every step. The paper reports a rise from 43.9 to 73.2 on AIME
2025 for Qwen3-4B-Instruct-2507.
Command: bash scripts/run.sh 16_rsa_paper (on a GPU, first bash scripts/plan.sh 16_rsa_paper)
"""

from harness.run import run
from harness.scaffolds.rsa_paper import RSA_PAPER

N = 16  # population: number of solutions at every step
K = 4  # subset: solutions that one aggregation sees (1: self-refinement, with its own prompt)
T = 9  # number of aggregation steps after step 0, which makes 10 loops with step 0
# The token cap of one completion, thinking included. The scripts for thinking models in the
# authors' older repository (HyperPotatoNeo/cot-aggregator) set 32768. For an instruct model, set
# 8192, the code's default.
MAX_TOKENS = 32768
TEMPERATURE = 1.0
# Part of a candidate for aggregation: "answer" (after thinking), "tail", "full" or "summary".
CARRY = "full"
ANSWER = "whole"  # the last box of the whole response counts, also inside its thinking
# No budget forcing: a response cut off in its thinking has no answer, but aggregation sees it.
ANSWER_TOKENS = 0
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(RSA_PAPER, globals())
