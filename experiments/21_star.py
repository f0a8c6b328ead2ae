"""STaR: does a model get better by training on its own solutions that came out right?

Question: how far does it go, round by round, on problems that it has never been trained on, and what does it cost?
Expected: a first round gains most. Reports are mixed: a 0.5B model on GSM8K fell from 25 to 15 to 12.5% in two rounds
(greyhaven-ai/autocontext #1065). The embedded model forgets large carries at temperature 0 and gets some of them right
at 0.7; trained on those, it remembers them.
Command: bash scripts/run.sh 21_star; as a smoke test with LIMIT=50 ROUNDS=1 TRIES=1 TEMPERATURE=0
"""

from labs.star.experiment import STAR, star

ROUNDS = 5  # of sampling, training and evaluating
DATA = "auto"  # problems to train on: the model's own; or openr1, a name, hub:owner/name, or the path of a file
TRAIN_PROBLEMS = 300  # a round, drawn by SEED
TRIES = 4  # samples of a problem until one is right; at TEMPERATURE=0 give 1
TEMPERATURE = 0.7  # of collecting, and of evaluating with SEEDS; 0: evaluated at temperature 0 only
FEWSHOT = "none"  # how solutions are asked for: none (a box), format (steps, then Final:), math (examples too)
RATIONALISE = 1  # where no sample is right, one more is shown the answer
START = "last"  # weights that a round trains: the last round's, or base (the paper's)
EPOCHS = 3  # times that a round trains on each row
RATE = 2e-4  # peak learning rate
LORA_RANK = "auto"  # 16 for a folder of Hugging Face's layout; all weights (0) of a GGUF file
MAX_TOKENS = 16384  # cap of one completion, thinking included
PATIENCE = 0  # rounds without a gain after which it ends; 0: never
LIMIT = 0  # first held-out problems only, and so many a round; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    star(STAR, globals())
