"""RSA with self-verification: candidates are scored by the model, and better ones are drawn more often.

Question: does the model's own verdict on its candidates make aggregation climb faster than uniform drawing?
Expected: ahead of 02 in the first steps where verification tells right from wrong (AUC well above 0.5), else equal.
Command: bash scripts/run.sh 03_rsa_verify
"""

from functools import partial

from core.run import run
from core.scaffolds.rsa import boltzmann, generations, rsa
from core.scaffolds.verification import verify

N = 8  # population: solutions kept at every step
K = 3  # subset: solutions that one aggregation sees
T = 5  # aggregation steps after step 0
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
VERIFY_MODE = "verdict"  # "verdict": after thinking; "p_true": P(True) of one token, with thinking closed
VERIFY_TOKENS = 8192  # cap of one verification, thinking included
VERIFY_SAMPLES = 1  # verdicts per candidate, averaged
TAU = 0.2  # Boltzmann: weights exp(score / TAU); score 1 is e^5 = 148 times as likely as score 0
TOP_P = 1.0  # off; QED-Nano's card recommends 0.95 with temperature 0.6
TOP_K = 0  # off
MIN_P = 0.0  # off
CARRY = "answer"  # what aggregation sees of a candidate: "answer" (after thinking), "tail", "full"
CARRY_TOKENS = 4096  # tokens carried with CARRY = "tail"
ORDER = "random"  # of the candidates in a prompt; "shared" (the most used first) helps a prefix cache, at a price
ANSWER_TOKENS = 512  # budget forcing: tokens for the answer where the cap cuts off thinking; 0 is off
PROBLEMS = "auto"  # the model's own set; or a name, or the path of a .json or .jsonl file
LIMIT = 0  # first problems only; 0 is all
SEED = 0
CONCURRENCY = 0  # requests in flight; 0 asks the server
TIMEOUT = 3600.0  # seconds for one request
STALL_SECONDS = 300.0  # a request from which no byte has come for so long is asked again

if __name__ == "__main__":
    run(partial(rsa, select=boltzmann, score=verify), globals(), generations)
