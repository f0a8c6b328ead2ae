"""Answers: any scaffold on a set of answers, RUNS times over.

Question: what is a scaffold worth on a benchmark of final answers, and how far do runs differ (avg@3)?
Expected: QED-Nano at 67.5% on IMO-AnswerBench, by its report; not measured here.
A scaffold's own experiment asks the same of it; here one command line differs from another in SCAFFOLD alone.
Command: bash scripts/run.sh 19_answers SCAFFOLD=baseline PROBLEMS=imo_answerbench
"""

from core.scaffolds.experiment_file import chosen
from core.session.run import run

SCAFFOLD = "rsa"  # any in core/scaffolds, such as baseline, majority, nomos; its own constants are its experiment's
RUNS = 3  # runs of the whole experiment; seeds are counted on from SEED
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

SOLVER = chosen(SCAFFOLD)

if __name__ == "__main__":
    run(SOLVER, globals())
