"""Math agent: the model plans by tool calls.

Its tools are approaches, solve, verify, improve, select, merge and submit.
Question: does a model that plans its own calls beat the fixed plan of 10 (QED-Nano's math_agent)?
Expected: below 10 with a 4B model, which seldom plans well; the notes in the results count its invalid calls.
Command: bash scripts/run.sh 11_math_agent
"""

from core.scaffolds.math_agent import MATH_AGENT
from core.session.run import run

CALLS = 15  # tool calls, one completion each; the planner's own requests are not counted
K = 4  # the most solutions that one merge or selection sees
MAX_TOKENS = 16384  # cap of one completion, thinking included
PLAN_TOKENS = 8192  # cap of one request of the planner, thinking included
VERIFY_TOKENS = 8192  # cap of one report, thinking included
SELECT_TOKENS = 8192  # cap of one selection, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(MATH_AGENT, globals())
