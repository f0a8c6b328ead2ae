"""Waits: continue finished thinking after a "Wait".

If the model ends its thinking before the cap, the text "Wait" is appended and the model continues,
up to WAITS times. This is the budget forcing of s1 (Simple test-time scaling). The model answers
before each wait, so one run shows the accuracy after every number of waits. The tokens of all
answers count.

Question: how much does longer thinking add if the model has already ended its thinking (arXiv
2501.19393)?
Expected: the first waits add a few points for a model that checks its reasoning, and later waits
add none. The model of s1 rises from 50% to 57% on AIME 2024. A model that only copies its thinking
gains nothing. The embedded model mostly copies: it rises from 30.0% to 35.2% over 4 waits (+5.2
points [+2.6, +7.9], 100 problems), for 5 times the tokens.
Command: bash scripts/run.sh 17_waits
"""

from core.rsa import BASELINE
from harness.run import run

WAITS = 4  # largest number of waits (none after the cap, or if the reply shows no thinking)
WAIT_WORD = "Wait"  # text that continues thinking
N = 4  # number of samples per problem
MAX_TOKENS = 16384  # token cap of one completion with all its waits
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(BASELINE, globals())
