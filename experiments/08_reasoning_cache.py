"""Reasoning cache: solve, summarise, solve again.

Each new solution sees only the problem and a summary of the earlier attempts.

Question: can summaries extend the reasoning beyond the cap of one completion (arXiv 2602.03773)?
Expected: accuracy rises with each round if completions reach MAX_TOKENS. Otherwise, accuracy rises
little.
Command: bash scripts/run.sh 08_reasoning_cache
"""

from harness.run import run
from harness.scaffolds.reasoning_cache import REASONING_CACHE

ROUNDS = 3  # number of successive solutions, with a summary between each two
MAX_TOKENS = 16384  # token cap of one completion, thinking included
SUMMARY_TOKENS = 8192  # token cap of one summary, thinking included
TEMPERATURE = 0.7
CARRY = "full"  # part of an attempt for the summary: "full" (with thinking), "tail" or "answer"
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(REASONING_CACHE, globals())
