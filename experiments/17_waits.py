"""Waits: thinking that has ended goes on behind a "Wait", once, twice and so on (s1, Simple test-time scaling).

Question: what does thinking longer buy, where the model would have ended by itself (arXiv 2501.19393)?
Expected: a few points for the first waits and none after them, for a model that looks back at its reasoning: s1's goes
from 50% to 57% on AIME 2024. One that was never taught to loses: the embedded model went from 27.1% to 7.3% on its own
set in 4 waits, at 4.5 times the tokens.
Each wait has an answer of its own, so that one run gives the whole curve, and all answers count as tokens.
Command: bash scripts/run.sh 17_waits
"""

from core.run import run
from core.scaffolds.rsa import SAMPLE

WAITS = 4  # times that thinking goes on; a completion that hits the cap, or has no thinking, waits no more
WAIT_WORD = "Wait"  # what it goes on behind
N = 4  # samples per problem
MAX_TOKENS = 16384  # cap of one completion, all its waits included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(SAMPLE, globals())
