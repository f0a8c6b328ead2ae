"""Waits: thinking that has ended goes on behind a "Wait", once, twice and so on (s1, Simple test-time scaling).

Question: what does thinking longer buy, where the model would have ended by itself (arXiv 2501.19393)?
Expected: a few points for the first waits and none after them, for a model that looks back at its reasoning: s1's goes
from 50% to 57% on AIME 2024. One that mostly copies what it has gains nothing: the embedded model stays at 30% over 4
waits (-0.5 points [-5.4, +4.5], 100 problems), at 5 times the tokens.
Each wait has an answer of its own, so that one run gives the whole curve, and all answers count as tokens.
Command: bash scripts/run.sh 17_waits
"""

from core.scaffolds.rsa import BASELINE
from core.session.run import run

WAITS = 4  # times that thinking goes on; a completion that hits the cap, or has no thinking, waits no more
WAIT_WORD = "Wait"  # what it goes on behind
N = 4  # samples per problem
MAX_TOKENS = 16384  # cap of one completion, all its waits included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(BASELINE, globals())
