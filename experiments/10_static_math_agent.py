"""Static math agent: a fixed plan of calls.

The plan verifies and improves every solution, merges the solutions of each slot, and selects one
merge.

Question: is this fixed plan worth its tokens (static_math_agent of QED-Nano)?
Expected: accuracy is above majority voting at equal tokens if the model's reports find its errors.
Otherwise, accuracy is below majority voting.
Command: bash scripts/run.sh 10_static_math_agent
"""

from harness.run import run
from harness.scaffolds.static_math_agent import STATIC_MATH_AGENT

N = 8  # number of solutions
K = 2  # slot: number of solutions that are merged into one
ROUNDS = 1  # number of times that every solution is verified and improved
MAX_TOKENS = 16384  # token cap of one completion, thinking included
VERIFY_TOKENS = 8192  # token cap of one report, thinking included
SELECT_TOKENS = 8192  # token cap of the selection, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(STATIC_MATH_AGENT, globals())
