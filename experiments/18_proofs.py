"""Proofs by any scaffold; grade.sh grades them later.

Question: what is test-time compute worth without an answer to vote on (QED-Nano's report, avg@3)?
Expected: QED-Nano reports 40.0% of all points on IMO-ProofBench and 44.9% on ProofBench without a scaffold; more with
reviews and refinements. None of that was measured here. The embedded model proves its sums.
Ungraded results say "not graded". Scaffolds that compare answers (majority, rsa_adaptive) are refused.
Command: bash scripts/run.sh 18_proofs SCAFFOLD=deepseek_math PROBLEMS=imo_proofbench
"""

from core.grading.ungraded import ungraded
from core.scaffolds.experiment_file import chosen
from core.session.run import run

SCAFFOLD = "rsa"  # any in core/scaffolds, such as baseline, qed_rsa, nomos, with the constants of its experiment
RUNS = 3  # runs of the whole experiment; seeds are counted on from SEED
MAX_TOKENS = 16384  # cap of one completion, thinking included; QED-Nano's proofs take 95k tokens on average
ANSWER_TOKENS = 4096  # tokens for the proof if the cap cuts off the thinking
TEMPERATURE = 0.7
PROBLEMS = "proofs"  # the model's own set of proofs; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

PROVER = chosen(SCAFFOLD)

if __name__ == "__main__":
    run(PROVER, globals(), grader=ungraded)
