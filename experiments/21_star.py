"""STaR: train a model on its own right solutions.

Question: how far does it improve, round by round, on problems outside of its training, and at what cost?
Expected: a first round gains most. Reports are mixed: a 0.5B model on GSM8K fell from 25 to 15 to 12.5% in two rounds
(greyhaven-ai/autocontext #1065). The embedded model forgets large carries at temperature 0 and gets some right at 0.7;
after training on those, it remembers them.
Command: bash scripts/run.sh 21_star; as a smoke test with LIMIT=50 ROUNDS=1 TRIES=1 TEMPERATURE=0
"""

from labs.star.experiment import STAR, star

ROUNDS = 5  # of sampling, training and evaluating
DATA = "auto"  # problems to train on: the model's own; or openr1, a name, hub:owner/name, or the path of a file
TRAIN_PROBLEMS = 300  # of each round, drawn by SEED
TRIES = 4  # samples of a problem until one is right; at TEMPERATURE=0 give 1
TEMPERATURE = 0.7  # for sampling, and for evaluation with SEEDS; 0: evaluate at temperature 0 only
FEWSHOT = "none"  # how solutions are asked for: none (a box), format (steps, then Final:), math (examples too)
RATIONALISE = 1  # 1: if no sample is right, one more sees the answer
START = "last"  # initial weights of a round: from the last round, or base (as in the paper)
EPOCHS = 3  # epochs of a round
RATE = 2e-4  # peak learning rate
LORA_RANK = "auto"  # 16 for a folder of Hugging Face's layout; all weights (0) of a GGUF file
MAX_TOKENS = 16384  # cap of one completion, thinking included
PATIENCE = 0  # rounds without a gain before it ends; 0: never ends early
LIMIT = 0  # first held-out problems only, and as many training problems a round; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    star(STAR, globals())
