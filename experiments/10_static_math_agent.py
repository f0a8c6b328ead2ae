"""Static math agent: a fixed plan of calls.

It verifies and improves solutions in slots, merges each slot, and selects one merge.
Question: is a fixed plan to verify, improve, merge and select worth its tokens (static_math_agent of QED-Nano)?
Expected: above majority voting at equal tokens if the model's reports find its errors, else below it.
Command: bash scripts/run.sh 10_static_math_agent
"""

from core.scaffolds.static_math_agent import STATIC_MATH_AGENT
from core.session.run import run

N = 8  # solutions
K = 2  # solutions of a slot, which are merged: N / K slots; with 8 and 2, and one round, 29 completions a problem
ROUNDS = 1  # times that every solution is verified and improved
MAX_TOKENS = 16384  # cap of one completion, thinking included
VERIFY_TOKENS = 8192  # cap of one report, thinking included
SELECT_TOKENS = 8192  # cap of the selection, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(STATIC_MATH_AGENT, globals())
