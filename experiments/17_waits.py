"""Waits: thinking that has ended goes on behind a "Wait", once, twice and so on (s1, Simple test-time scaling).

Question: what does thinking longer buy, where the model would have ended by itself (arXiv 2501.19393)?
Expected: some points for the first waits and then none, for a model that looks back at its reasoning (s1 has 50.0 to 56.7 on
AIME 2024 for its 32B model); each wait costs about as many tokens as it finds thoughts to add.
Each wait has an answer of its own, so that one run gives the whole curve; its tokens are counted too. The embedded model
was never taught to wait and is no worse or better for it by design: the table says what happens.
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
