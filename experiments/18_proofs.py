"""Proofs by any scaffold, for grade.sh to grade.

SCAFFOLD may be any scaffold except majority and rsa_adaptive, which compare answers. Results show
"not graded" until grade.sh has graded the proofs. The embedded model has learnt to prove the
remainders of sums.

Question: how much does test-time compute add if there is no answer to vote on (QED-Nano's report,
avg@3)?
Expected: QED-Nano reports 40.0% of all points on IMO-ProofBench and 44.9% on ProofBench without a
scaffold. With reviews and refinements, it reports more points. We have not measured these figures.
Command: bash scripts/run.sh 18_proofs SCAFFOLD=deepseek_math PROBLEMS=imo_proofbench
"""

from core.grading.ungraded import ungraded
from harness.experiment_file import scaffold_from_command_line
from harness.run import run

SCAFFOLD = "rsa"  # name of a scaffold, such as baseline, qed_rsa or nomos, or of its experiment
RUNS = 3  # number of runs of the whole experiment, with seeds SEED, SEED + 1, …
# Token cap of one completion, thinking included. QED-Nano's proofs take 95,000 tokens on average.
MAX_TOKENS = 16384
ANSWER_TOKENS = 4096  # budget forcing: token cap of the proof if the thinking reaches MAX_TOKENS
TEMPERATURE = 0.7
PROBLEMS = "proofs"  # "proofs" (the model's own set), a name, hub:owner/name, or a file's path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

PROVER = scaffold_from_command_line(SCAFFOLD)

if __name__ == "__main__":
    run(PROVER, globals(), grader=ungraded)
