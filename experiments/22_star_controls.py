"""STaR and its controls in one table.

An arm is STaR or one of its controls. In each round, all arms train on as many tokens as STaR with
the same seed.

Question: does STaR need its filter, its rationalised traces and fresh samples? Do unsound traces
harm it?
Expected: training on the first round's traces again reaches STaR's accuracy, if those traces teach
as much as later ones. Without a filter, a model only confirms its habits. The embedded model has
not learnt to use the answer in a hint, so a rationalised sample is only one more try.
Command: bash scripts/run.sh 22_star_controls (for a shorter run, add RUNS=1 ARMS=star,no_filter)
"""

from labs.star.controls import Controls, control

ROUNDS = 3  # number of rounds (3 are enough for the embedded model)
# Training problems: "auto" (the model's own), "openr1", a name, hub:owner/name, or a file's path.
DATA = "auto"
TRAIN_PROBLEMS = 300  # number of training problems in each round
TRIES = 4  # largest number of samples of a problem until one is kept
TEMPERATURE = 0.7  # of sampling, and of evaluation with SEEDS (another evaluation is greedy)
EPOCHS = 3  # number of training epochs in a round of the first arm (other arms: as many tokens)
RATE = 2e-4  # peak learning rate
SEEDS = "63"  # seeds of evaluation at TEMPERATURE: one, or first-last
PATIENCE = 0  # number of rounds without a gain after which an arm ends, or 0 for all ROUNDS
LIMIT = 0  # largest number of held-out problems, and of training problems in a round, or 0 for all
ARMS = "all"  # names of the arms to compare with the first arm, separated by commas, or "all"
RUNS = 3  # number of runs of each arm, with the seeds SEED, SEED + 1, …
SEED = 0  # seed of the random draws and of the requests of the first run

# An arm is STaR with its own changes. The first always runs, because its tokens decide how long the
# others train.
controls = Controls(
    {
        "star": {},
        "no_rationalisation": {"RATIONALISE": 0},
        "no_filter": {"FILTER": 0},
        "round_1_again": {"REPEAT": 1},
        "sound_only": {"SOUND": 1},
        "from_base": {"START": "base"},
    }
)

if __name__ == "__main__":
    control(controls, globals())
