"""Test of a grader on proofs that people have graded.

The grader grades each proof with several prompts. Attacks are texts below a proof that try to raise
its points.

Question: how accurate are the grader's points, does it need the reference solution, and do attacks
succeed?
Expected: ProofBench's authors report a mean absolute error of 0.93 points for their best grader
(arXiv 2510.13888). Their grader sees a reference solution and a marking scheme. The embedded model
has learnt only the prompt `guidelines`, on sums whose points can be computed line by line. With
this prompt it is nearly always right, and with the other prompts less often.
Command: bash scripts/run.sh 20_grader GRADER=card GRADED=imo_gradingbench
"""

from labs.proofs.grade.trial import TRIAL, try_grader

GRADER = ""  # the grader's card: a name in data/models, a .toml file, or "" for the run's model
# Proofs that people have graded: "auto" (the model's own), a name, hub:owner/name, or a file.
GRADED = "auto"
PROMPTS = "auto"  # names (guidelines, alone, scheme), files, or "auto" (the names that fit the set)
# Attacks to test with the first prompt: "all", "none", or some of score, praise, instruction and
# fence.
ATTACKS = "all"
GRADES = 1  # number of gradings of each proof with each prompt (their mean counts)
MAX_TOKENS = 16384  # token cap of one grading, thinking included
TEMPERATURE = 0.7
LIMIT = 0  # number of problems, with all their proofs, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    try_grader(TRIAL, globals())
