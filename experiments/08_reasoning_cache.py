"""Reasoning cache: solve, summarise, solve again.

The next solution sees nothing but the summary.
Question: does a summary carry reasoning beyond the cap of one completion (arXiv 2602.03773)?
Expected: accuracy rises with each round if completions hit MAX_TOKENS, and little if they do not.
Command: bash scripts/run.sh 08_reasoning_cache
"""

from core.scaffolds.reasoning_cache import REASONING_CACHE
from core.session.run import run

ROUNDS = 3  # solutions in a row; all but the last are summarised
MAX_TOKENS = 16384  # cap of one completion, thinking included
SUMMARY_TOKENS = 8192  # cap of one summary, thinking included
TEMPERATURE = 0.7
CARRY = "full"  # what a summary sees of an attempt: "full" (thinking included), "tail", "answer" (after thinking)
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(REASONING_CACHE, globals())
