"""Baseline: independent samples, no aggregation; pass@1, unbiased pass@k, majority.

Question: how good is the model by itself, and how much is within reach of choosing well (pass@k) or voting (majority)?
Expected: majority above pass@1, pass@8 above both.
Command: bash scripts/run.sh 01_baseline
"""

from core.run import run
from core.scaffolds.rsa import generations, sample

N = 8  # samples per problem
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
    run(sample, globals(), generations)
