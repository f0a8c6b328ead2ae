"""Any scaffold on a set of answers, RUNS times.

To compare scaffolds, change only SCAFFOLD. With equal constants, a scaffold's own experiment has
the same accuracy.

Question: how accurate is a scaffold on a benchmark of final answers, and how much do runs differ
(avg@3)?
Expected: QED-Nano reports 67.5% on IMO-AnswerBench. We have not measured this figure.
Command: bash scripts/run.sh 19_answers SCAFFOLD=baseline PROBLEMS=imo_answerbench
"""

from harness.experiment_file import scaffold_from_command_line
from harness.run import run

SCAFFOLD = "rsa"  # name of a scaffold, such as baseline, majority or nomos, or of its experiment
RUNS = 3  # number of runs of the whole experiment, with seeds SEED, SEED + 1, …
MAX_TOKENS = 16384  # token cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

SOLVER = scaffold_from_command_line(SCAFFOLD)

if __name__ == "__main__":
    run(SOLVER, globals())
