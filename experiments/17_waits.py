"""Waits: continue finished thinking after a "Wait".

It waits once, twice and so on (s1, Simple test-time scaling).
Question: what does longer thinking buy, if the model would have ended by itself (arXiv 2501.19393)?
Expected: a few points for the first waits, then none, for a model that checks its reasoning: s1's rises from 50% to 57%
on AIME 2024. A model that mostly copies its text gains nothing: the embedded model stays at 30% over 4 waits (-0.5
points [-5.4, +4.5], 100 problems), at 5 times the tokens.
Each wait has its own answer, so one run gives the whole curve. All answers count as tokens.
Command: bash scripts/run.sh 17_waits
"""

from core.scaffolds.rsa import BASELINE
from core.session.run import run

WAITS = 4  # waits at most; a completion that hit the cap or has no thinking is not continued
WAIT_WORD = "Wait"  # the text that continues the thinking
N = 4  # samples per problem
MAX_TOKENS = 16384  # cap of one completion, all its waits included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(BASELINE, globals())
