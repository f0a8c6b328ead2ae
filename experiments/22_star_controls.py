"""STaR and its controls in one table.

All have the same training tokens, under several seeds.
Question: does it need the filter, the rationalised traces, fresh samples? Do unsound traces hurt it?
Expected: training on the first round's traces again catches up if they teach all there is to learn. Without a filter, a
model only confirms its habits. The embedded model has not learnt to follow a hint, so a rationalised sample is only one
more try.
Command: bash scripts/run.sh 22_star_controls
"""

from labs.star.controls import Controls, arm, control

ROUNDS = 3  # of sampling, training and evaluating; enough for the embedded model
DATA = "auto"  # problems to train on: the model's own; or openr1, a name, hub:owner/name, or the path of a file
TRAIN_PROBLEMS = 300  # of each round, drawn by SEED
TRIES = 4  # samples of a problem until one is right
TEMPERATURE = 0.7  # for sampling, and for evaluation with SEEDS
EPOCHS = 3  # epochs of a round of the first arm; the others train on as many tokens
RATE = 2e-4  # peak learning rate
SEEDS = "63"  # for evaluation at TEMPERATURE
PATIENCE = 0  # 0: never ends early
LIMIT = 0  # first held-out problems only, and as many training problems a round; 0 is all
SEED = 0  # added to each of the seeds

arms = [
    arm("star"),
    arm("no_rationalisation", RATIONALISE=0),
    arm("no_filter", FILTER=0),
    arm("round_1_again", REPEAT=1),
    arm("sound_only", SOUND=1),
    arm("from_base", START="base"),
]
seeds = (0, 1, 2)
controls = Controls(arms, seeds)

if __name__ == "__main__":
    control(controls, globals())
