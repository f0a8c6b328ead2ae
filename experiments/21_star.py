"""STaR: train a model on its own right solutions.

Each round samples solutions, trains the model on the right ones, and evaluates it on held-out
problems.

Question: how much does the model improve in each round on held-out problems, and at what cost?
Expected: the first round gains most. Other reports differ. In one, a 0.5B model on GSM8K fell from
25% to 15%, and then to 12.5% (greyhaven-ai/autocontext #1065). The embedded model forgets large
carries at temperature 0, but gets some of them right at temperature 0.7. After training on these
solutions, the model remembers large carries.
Command: bash scripts/run.sh 21_star (for a short test, add LIMIT=50 ROUNDS=1 TRIES=1 TEMPERATURE=0)
"""

from labs.star.experiment import STAR, star

ROUNDS = 5  # number of rounds
# Training problems: "auto" (the model's own), "openr1", a name, hub:owner/name, or a file's path.
DATA = "auto"
TRAIN_PROBLEMS = 300  # number of training problems in each round
TRIES = 4  # largest number of samples of a problem until one is kept (must be 1 if TEMPERATURE=0)
TEMPERATURE = 0.7  # of sampling, and of evaluation with SEEDS (another evaluation is greedy)
# Prompt: "none" (answer in a box), "format" (steps, then Final:), or "math" (also with examples).
FEWSHOT = "none"
RATIONALISE = 1  # 1: if no sample of a problem is kept, request one that sees the answer
# Initial weights of a round: "last" (from the previous round) or "base" (as in the paper).
START = "last"
EPOCHS = 3  # number of training epochs in a round
RATE = 2e-4  # peak learning rate
LORA_RANK = "auto"  # rank of LoRA, 0 to train all weights, or "auto" (16, or 0 for a GGUF file)
MAX_TOKENS = 16384  # token cap of one completion, thinking included
PATIENCE = 0  # number of rounds without a gain after which the run ends, or 0 for all ROUNDS
LIMIT = 0  # largest number of held-out problems, and of training problems in a round, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    star(STAR, globals())
