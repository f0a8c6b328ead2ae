"""Proofs: any scaffold writes them, RUNS times over; what they are worth is for a grader to say when they are there.

Question: what is test-time compute worth where there is no answer to vote on (QED-Nano's report, avg@3)?
Expected: QED-Nano at 40.0% of all points on IMO-ProofBench and at 44.9% on ProofBench without a scaffold, by its
report; more with reviews and refinements. Nothing of that was measured here. The embedded model proves its sums.
Until they are graded, results say "not graded". Scaffolds that compare answers (majority, rsa_adaptive) are refused.
Command: bash scripts/run.sh 18_proofs SCAFFOLD=deepseek_math PROBLEMS=imo_proofbench
"""

from core.grading.ungraded import ungraded
from core.scaffolds.experiment_file import chosen
from core.session.run import run

SCAFFOLD = "rsa"  # any in core/scaffolds, such as baseline, qed_rsa, nomos; its own constants are its experiment's
RUNS = 3  # runs of the whole experiment; seeds are counted on from SEED
MAX_TOKENS = 16384  # cap of one completion, thinking included; QED-Nano's proofs take 95k tokens on average
ANSWER_TOKENS = 4096  # for a proof that is stated at the cap
TEMPERATURE = 0.7
PROBLEMS = "proofs"  # the model's own set of proofs; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

PROVER = chosen(SCAFFOLD)

if __name__ == "__main__":
    run(PROVER, globals(), grader=ungraded)
