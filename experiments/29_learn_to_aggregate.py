"""Train a model to aggregate, and compare with controls.

Each round runs RSA on training problems, and trains the model on its right aggregations and a share
of plain solutions. The rows are balanced by the number of right parents. Then RSA solves held-out
problems.

Question: does training on aggregation prompts make RSA better at equal tokens, and does it learn to
find right candidates or to repair wrong ones?
Expected: the RSA paper reports large gains from aggregation-aware training by reinforcement
learning. Training on right solutions alone improves one sample, but RSA less.
Command: bash scripts/run.sh 29_learn_to_aggregate (with all controls, add ARMS=all RUNS=2)
"""

from labs.star.aggregation.experiment import learning
from labs.star.controls import control

ROUNDS = 2  # number of rounds
# Training problems: "auto" (the model's own), "openr1", a name, hub:owner/name, or a file's path.
DATA = "auto"
TRAIN_PROBLEMS = 100  # number of training problems in each round
N = 8  # population: solutions of a problem at every step
K = 3  # subset: solutions that one aggregation sees
T = 2  # aggregation steps, in training and in evaluation
MIX = 0.3  # share of plain solutions in the rows to train on
NO_RIGHT = 0.2  # largest share of aggregations without a right parent among aggregations
TEMPERATURE = 0.7  # of sampling, and of the evaluation of RSA
EPOCHS = 3  # number of training epochs in a round of the first arm (other arms: as many tokens)
RATE = 2e-4  # peak learning rate
LORA_RANK = "auto"  # rank of LoRA, 0 to train all weights, or "auto" (16, or 0 for a GGUF file)
MAX_TOKENS = 16384  # token cap of one completion, thinking included
SEEDS = "63"  # seeds of RSA's evaluation: one, or first-last
PATIENCE = 0  # number of rounds without a gain after which the run ends, or 0 for all ROUNDS
LIMIT = 0  # largest number of held-out problems, and of training problems in a round, or 0 for all
ARMS = "learn"  # names of the arms to compare with the first arm, separated by commas, or "all"
RUNS = 1  # number of runs of each arm, with the seeds SEED, SEED + 1, …
SEED = 0  # seed of the random draws and of the requests of the first run

# The first arm always runs, because its tokens decide how long the others train.
controls = learning(
    {
        "learn": {},
        "plain": {"MIX": 1},
        "no_filter": {"FILTER": 0},
        "distilled": {"TEACH": "solve"},
    }
)

if __name__ == "__main__":
    control(controls, globals())
