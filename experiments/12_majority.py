"""Majority voting: the vote of 1, 2, 4, 8 … N independent samples, the curve that every scaffold is compared with.

Question: what do the same tokens give when they are spent on more samples and nothing else?
Expected: the majority climbs with every doubling, more slowly each time, and ends below pass@N.
Command: bash scripts/run.sh 12_majority
"""

from core.run import run
from core.scaffolds.majority import generations, majority

N = 64  # samples; a step of the results is the vote of the first 1, 2, 4, 8 … N
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
TOP_P = 1.0  # off; QED-Nano's card recommends 0.95 with temperature 0.6
TOP_K = 0  # off
MIN_P = 0.0  # off
ANSWER_TOKENS = 512  # budget forcing: tokens for the answer where the cap cuts off thinking; 0 is off
PROBLEMS = "auto"  # the model's own set; or a name, or the path of a .json or .jsonl file
LIMIT = 0  # first problems only; 0 is all
SEED = 0
CONCURRENCY = 0  # requests in flight; 0 asks the server
TIMEOUT = 3600.0  # seconds for one request
STALL_SECONDS = 300.0  # a request from which no byte has come for so long is asked again

if __name__ == "__main__":
    run(majority, globals(), generations)
