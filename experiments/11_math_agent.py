"""Math agent: the model plans by tool calls.

The model's tools are approaches, solve, verify, improve, select, merge and submit.

Question: does a model that plans its own calls (math_agent of QED-Nano) beat the fixed plan of
10_static_math_agent?
Expected: with a 4B model, the fixed plan is more accurate, because such a model seldom plans well.
The notes in the results count the model's invalid calls.
Command: bash scripts/run.sh 11_math_agent
"""

from harness.run import run
from harness.scaffolds.math_agent import MATH_AGENT

CALLS = 15  # largest number of tool calls, not counting submit and the planner's requests
K = 4  # largest number of solutions that one merge or selection sees
MAX_TOKENS = 16384  # token cap of one completion, thinking included
PLAN_TOKENS = 8192  # token cap of one plan or list of approaches, thinking included
VERIFY_TOKENS = 8192  # token cap of one report, thinking included
SELECT_TOKENS = 8192  # token cap of one selection, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(MATH_AGENT, globals())
