"""RSA as in QED-Nano's evaluation.

It merges over circulant blocks, then knocks out to one.
Question: what do even use of every parent and a final selection add to RSA, at 39 completions a problem?
Expected: the last population is near 02_rsa_basic at T=3. The knock-out is at or above its mean accuracy, and above its
majority only if the model tells right from wrong.
Command: bash scripts/run.sh 05_rsa_qed
"""

from core.scaffolds.qed_rsa import QED_RSA
from core.session.run import run

N = 8  # population: solutions kept in every round
K = 3  # block: solutions that one merge sees; every solution is merged exactly K times
ROUNDS = 3  # rounds of merges after the first solutions
MAX_TOKENS = 16384  # cap of one completion, thinking included
SELECT_TOKENS = 8192  # cap of one selection between two candidates, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(QED_RSA, globals())
