"""The search of DeepSeekMath-V2.

The search reviews each proof (or solution) several times, and refines the best ones with their
harshest reviews.

Question: do written reviews help more than scores alone, if the model refines proofs with them
(arXiv 2511.22570)?
Expected: accuracy is above the majority vote of the first N proofs if reviews distinguish right
from wrong solutions (AUC well above 0.5). The search then also stops early on easy problems.
Otherwise, the search is an expensive best of N, because four of five completions are reviews.
Command: bash scripts/run.sh 06_deepseek_math
"""

from harness.run import run
from harness.scaffolds.deepseek_math import DEEPSEEK_MATH

N = 4  # number of proofs before the first round (64 in the paper, 128 in its code)
VERIFY_SAMPLES = 4  # number of reviews of each proof (64 in the paper)
ROUNDS = 2  # largest number of refinement rounds (16 in the paper)
KEEP = 4  # number of best proofs that each round refines (64 in the paper)
REVIEWS = 2  # reviews in one refinement, the harshest in a proof's first (1 in the paper)
REFINEMENTS = 1  # number of times that a round refines each of the best proofs (8 in the paper)
VERIFY_TOKENS = 8192  # token cap of one review, thinking included
MAX_TOKENS = 16384  # token cap of one proof, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(DEEPSEEK_MATH, globals())
