"""The search of DeepSeekMath-V2.

It reviews each proof several times, and refines it with its harshest reviews.
Question: what do reviews in words add to scores, if the best candidates are refined with them (arXiv 2511.22570)?
Expected: above the majority vote of its N proofs if reviews tell right from wrong (AUC well above 0.5), and early stops
on easy problems. Otherwise a costly best of N, as four of five completions are reviews.
Command: bash scripts/run.sh 06_deepseek_math
"""

from core.scaffolds.deepseek_math import DEEPSEEK_MATH
from core.session.run import run

N = 4  # proofs to begin with; 64 in the paper, 128 in its code
VERIFY_SAMPLES = 4  # reviews of each proof; if all score 1, the proof is the answer; 64 in the paper
ROUNDS = 2  # rounds of refinement, at most; 16 in the paper
KEEP = 4  # best proofs that a round refines; 64 in the paper
REVIEWS = 2  # reviews that a refinement is shown, the harshest first; 1 in the paper
REFINEMENTS = 1  # refinements of each of the best, with other reviews each; 8 in the paper
VERIFY_TOKENS = 8192  # cap of one review, thinking included
MAX_TOKENS = 16384  # cap of one proof, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(DEEPSEEK_MATH, globals())
