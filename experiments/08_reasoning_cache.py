"""Reasoning cache: solve, summarise the reasoning in two paragraphs, solve again with the summary alone.

Question: does a summary carry reasoning over the cap of one completion (arXiv 2602.03773)?
Expected: accuracy climbs from round to round, most where completions run into MAX_TOKENS; little where they do not.
Command: bash scripts/run.sh 08_reasoning_cache
"""

from core.run import run
from core.scaffolds.reasoning_cache import generations, reasoning_cache, shown

ROUNDS = 3  # solutions in a row; all but the last are summarised
MAX_TOKENS = 16384  # cap of one completion, thinking included
SUMMARY_TOKENS = 8192  # cap of one summary, thinking included
TEMPERATURE = 0.7
TOP_P = 1.0  # off; QED-Nano's card recommends 0.95 with temperature 0.6
TOP_K = 0  # off
MIN_P = 0.0  # off
CARRY = "full"  # what a summary sees of an attempt: "full" (thinking included), "tail", "answer" (after thinking)
CARRY_TOKENS = 4096  # tokens carried with CARRY = "tail"
ANSWER_TOKENS = 512  # budget forcing: tokens for the answer where the cap cuts off thinking; 0 is off
PROBLEMS = "auto"  # the model's own set; or a name, or the path of a .json or .jsonl file
LIMIT = 0  # first problems only; 0 is all
SEED = 0
CONCURRENCY = 0  # requests in flight; 0 asks the server
TIMEOUT = 3600.0  # seconds for one request
STALL_SECONDS = 300.0  # a request from which no byte has come for so long is asked again

if __name__ == "__main__":
    run(reasoning_cache, globals(), generations, shown)
