"""A grader's trial on proofs that people have graded.

It is asked in several ways and under attack.
Question: how far can this grader's points be trusted, does it need the reference, and can a proof talk it into more?
Expected: ProofBench's authors report a mean absolute error of 0.93 points for their best grader, which sees a reference
and a scheme (arXiv 2510.13888). The embedded model has learnt one prompt, `guidelines`, on sums, whose points are
computed line by line: it is nearly always right there, and less so with the other prompts.
Command: bash scripts/run.sh 20_grader GRADER=card GRADED=imo_gradingbench
"""

from labs.proofs.grade.trial import TRIAL, try_grader

GRADER = ""  # model card of the grader: a name in data/models, or a .toml file; "": the same choice as for a run
GRADED = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file with people's points
PROMPTS = "auto"  # guidelines (shows the reference), alone (without it) and scheme; or some of them, and files
ATTACKS = "all"  # texts appended to each proof, with the first prompt: score, praise, instruction, fence; or none
GRADES = 1  # gradings of each proof; their mean counts
MAX_TOKENS = 16384  # cap of one grading, thinking included
TEMPERATURE = 0.7
LIMIT = 0  # first problems only, with all their proofs; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    try_grader(TRIAL, globals())
