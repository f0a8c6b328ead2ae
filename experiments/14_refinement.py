"""Sequential self-refinement: solve, then improve the own solution again and again, RSA's control with K = 1.

Question: how much of what RSA gains needs several candidates, and how much is a second look?
Expected: a gain in the first rounds, then none; below the vote of as many independent samples (12).
Command: bash scripts/run.sh 14_refinement
"""

from core.run import run
from core.scaffolds.refinement import generations, refinement

N = 1  # chains side by side, voted on; 1 spends all tokens in sequence
ROUNDS = 7  # refinements after the first solution
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
TOP_P = 1.0  # off; QED-Nano's card recommends 0.95 with temperature 0.6
TOP_K = 0  # off
MIN_P = 0.0  # off
CARRY = "answer"  # what another request sees of a candidate: "answer" (after thinking), "tail", "full"
CARRY_TOKENS = 4096  # tokens carried with CARRY = "tail"
ANSWER_TOKENS = 512  # budget forcing: tokens for the answer where the cap cuts off thinking; 0 is off
PROBLEMS = "auto"  # the model's own set; or a name, or the path of a .json or .jsonl file
LIMIT = 0  # first problems only; 0 is all
SEED = 0
CONCURRENCY = 0  # requests in flight; 0 asks the server
TIMEOUT = 3600.0  # seconds for one request
STALL_SECONDS = 300.0  # a request from which no byte has come for so long is asked again

if __name__ == "__main__":
    run(refinement, globals(), generations)
