"""Any scaffold on a set of answers, RUNS times.

Question: what is a scaffold worth on a benchmark of final answers, and how far do runs differ (avg@3)?
Expected: QED-Nano reports 67.5% on IMO-AnswerBench; not measured here.
The scaffold's own experiment measures the same. Here, only SCAFFOLD changes between command lines.
Command: bash scripts/run.sh 19_answers SCAFFOLD=baseline PROBLEMS=imo_answerbench
"""

from core.scaffolds.experiment_file import chosen
from core.session.run import run

SCAFFOLD = "rsa"  # any in core/scaffolds, such as baseline, majority, nomos, with the constants of its experiment
RUNS = 3  # runs of the whole experiment; seeds are counted on from SEED
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

SOLVER = chosen(SCAFFOLD)

if __name__ == "__main__":
    run(SOLVER, globals())
