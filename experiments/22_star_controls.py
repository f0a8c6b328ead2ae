"""What of STaR's gain is its own? Its controls in the same table, at the same training tokens, under several seeds.

Question: does it need the filter, the rationalised traces, fresh samples? Do unsound traces hurt it?
Expected: training on the first round's traces again catches up where they teach all there is to learn; without a filter
a model only confirms what it does. The embedded model was not taught to follow a hint, and a rationalised sample is one
more try to it.
Command: bash scripts/run.sh 22_star_controls
"""

from labs.star.controls import Controls, arm, control

ROUNDS = 3  # of sampling, training and evaluating; the embedded model has learnt all by then
DATA = "auto"  # problems to train on: the model's own; or openr1, a name, hub:owner/name, or the path of a file
TRAIN_PROBLEMS = 300  # a round, drawn by SEED
TRIES = 4  # samples of a problem until one is right
TEMPERATURE = 0.7  # of collecting, and of evaluating with SEEDS
EPOCHS = 3  # times that a round of the first arm trains on each row; the others take as many tokens
RATE = 2e-4  # peak learning rate
SEEDS = "63"  # of evaluating at TEMPERATURE
PATIENCE = 0  # 0: all rounds are run
LIMIT = 0  # first held-out problems only, and so many a round; 0 is all
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
