"""The search of DeepSeekMath-V2: proofs, each reviewed several times, and refined with their harshest reviews.

Question: what do reviews in words add to scores, where the best candidates are refined with them (arXiv 2511.22570)?
Expected: past the majority vote of its N proofs wherever reviews tell right from wrong (AUC well above 0.5), and early
stops on easy problems; elsewhere a costly best of N, for four of five completions are reviews.
Command: bash scripts/run.sh 06_deepseek_math
"""

from core.run import run
from core.scaffolds.deepseek_math import deepseek_math, generations, shown

N = 4  # proofs to begin with; 64 in the paper, 128 in its code
VERIFY_SAMPLES = 4  # reviews of each proof; a proof that all of them score 1 is the answer; 64 in the paper
ROUNDS = 2  # rounds of refinement, at most; 16 in the paper
KEEP = 4  # best proofs that a round refines; 64 in the paper
REVIEWS = 2  # reviews that a refinement is shown, the harshest first; 1 in the paper
REFINEMENTS = 1  # refinements of each of the best, with other reviews each; 8 in the paper
VERIFY_TOKENS = 8192  # cap of one review, thinking included
MAX_TOKENS = 16384  # cap of one proof, thinking included
TEMPERATURE = 0.7
TOP_P = 1.0  # off; QED-Nano's card recommends 0.95 with temperature 0.6
TOP_K = 0  # off
MIN_P = 0.0  # off
CARRY = "answer"  # what reviews and refinements see of a proof: "answer" (after thinking), "tail", "full"
CARRY_TOKENS = 4096  # tokens carried with CARRY = "tail"
ANSWER_TOKENS = 512  # budget forcing: tokens for the answer where the cap cuts off thinking; 0 is off
PROBLEMS = "auto"  # the model's own set; or a name, or the path of a .json or .jsonl file
LIMIT = 0  # first problems only; 0 is all
SEED = 0
CONCURRENCY = 0  # requests in flight; 0 asks the server
TIMEOUT = 3600.0  # seconds for one request
STALL_SECONDS = 300.0  # a request from which no byte has come for so long is asked again

if __name__ == "__main__":
    run(deepseek_math, globals(), generations, shown)
