"""A race of the entries of 15_compute_matched at one budget.

Entries that can't be the best are dropped early. All entries run on the same problems, in a random
order and in blocks. After each block, an entry is dropped if it is shown not to be the best. Looks,
drops and intervals are printed, and stored in results/27_race. The race ends if one entry is left,
if no entry left is better than the first by EFFECT, or after the last problem.

Question: which scaffold is the best for my model, problems and budget, with the fewest tokens?
Expected: poor entries are dropped within 10 to 30 problems. Entries that are equal stay until the
end.
Command: bash scripts/run.sh 27_race (on a GPU, first bash scripts/plan.sh 27_race, which plans a
race without drops)
"""

from harness.session.race import comparison_of, run_race

BUDGET = 10.5  # per problem, in units of a sample's mean cost
# Unit of BUDGET: tokens, read (+ uncached prompt tokens), read_cold (+ all prompt tokens), flops,
# or dollars.
BUDGET_IN = "tokens"
ALPHA = 0.05  # highest chance of any wrong drop, over all entries and looks
EFFECT = 0.0  # difference in accuracy that does not matter (0.02: 2 points), or 0
BLOCK = 8  # problems between two looks. More keep a large server busy
ENTRIES = "all"  # names of the entries to race with 12_majority, separated by commas, or "all"
MAX_TOKENS = 16384  # token cap of one completion, thinking included
VERIFY_TOKENS = 8192  # token cap of one verdict or review, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the order of problems, of the random draws and of the requests

comparison = comparison_of("15_compute_matched")

if __name__ == "__main__":
    run_race(comparison, globals())
