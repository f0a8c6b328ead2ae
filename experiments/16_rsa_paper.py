"""RSA with the settings of its paper's code.

N = 16, K = 4, 10 loops, temperature 1, whole responses carried.
Question: what does RSA add to a model as its authors run it (arXiv 2509.26626), at 160 completions a problem?
Expected: mean accuracy rises over all steps; the paper has 43.9 to 73.2 on AIME 2025 for Qwen3-4B-Instruct-2507.
The cap is the code's default, for instruct models; its scripts give thinking ones, like QED-Nano, MAX_TOKENS=32768. The
embedded model never hits it: its context of 2,048 tokens is shorter, and a solution takes about 122.
Command: bash scripts/run.sh 16_rsa_paper; before it on a GPU, bash scripts/plan.sh 16_rsa_paper
"""

from core.scaffolds.rsa_paper import RSA_PAPER
from core.session.run import run

N = 16  # population: solutions kept at every step
K = 4  # subset: solutions that one aggregation sees; 1 is self-refinement, with words of its own
T = 9  # aggregation steps after step 0: 10 loops in all
MAX_TOKENS = 8192  # cap of one completion, thinking included; the code's default
TEMPERATURE = 1.0
CARRY = "full"  # what aggregation sees of a candidate: "answer" (after thinking), "tail", "full"
ANSWER_TOKENS = 0  # no budget forcing: a response that hits the cap has no answer, but is carried
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(RSA_PAPER, globals())
