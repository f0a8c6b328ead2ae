"""Scaffolds on the same problems at equal budgets.

A budget of 5.5 is the mean cost of 5.5 independent samples per problem. Budgets are not whole
numbers, so that a step may cost slightly more than a whole number of samples. After a run on
proofs, such as PROBLEMS=sums_proof, run bash scripts/grade.sh 15_compute_matched. The comparison
then counts points instead of votes.

Question: which scaffold makes the best use of a budget of tokens, compute or money?
Expected: voting is hard to beat at small budgets. RSA gains if the budget allows several steps.
Command: bash scripts/run.sh 15_compute_matched (on a GPU, first bash scripts/plan.sh
15_compute_matched. For a shorter run, add RUNS=1 BUDGETS=2.5,8.5
ENTRIES=01_greedy,13_best_of_4,14_refinement,02_rsa_basic_4)
"""

from dataclasses import replace
from functools import partial

from core.rsa import RSA, rsa
from harness.session.equal_compute import Comparison, compare, entry

BUDGETS = "2.5,5.5,10.5,20.5,54.5"  # per problem, in units of a sample's mean cost
ENTRIES = "all"  # names of the entries to compare with 12_majority, separated by commas, or "all"
MAX_TOKENS = 16384  # token cap of one completion, thinking included
VERIFY_TOKENS = 8192  # token cap of one verdict or review, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
# Unit of BUDGETS: tokens, read (+ uncached prompt tokens), read_cold (+ all prompt tokens), flops,
# or dollars.
BUDGET_IN = "tokens"
RUNS = 2  # number of runs of each entry, with the seeds SEED, SEED + 1, …
SEED = 0  # seed of the random draws and of the requests of the first run


def never(*_: object) -> bool:
    """Return False, so that RSA never stops early. With a stop rule, RSA starts a step only after
    the previous step has finished. A budget then pays for no unfinished steps."""
    return False


stepwise = replace(RSA, run=partial(rsa, stop=never))

# An entry has its experiment's constants, except MAX_TOKENS etc. above and its own changes. The
# first is the reference. It draws as many samples as the largest budget needs.
entries = [
    entry("12_majority", proofs="samples", STAGE=1),
    entry(
        "12_majority", name="12_majority_hot", proofs="samples_hot", STAGE=1, N=60, TEMPERATURE=1.0
    ),
    entry("01_baseline", name="01_greedy", N=1, TEMPERATURE=0.0),
    entry("13_best_of"),
    entry("13_best_of", name="13_best_of_4", N=4, VERIFY_SAMPLES=2),
    entry("13_best_of", name="13_best_of_p_true", SCORE="p_true", VERIFY_SAMPLES=1),
    entry("13_best_of", name="13_best_of_vote", CHOOSE="weighted_vote"),
    entry("13_best_of", name="13_best_of_confidence", SCORE="confidence", CHOOSE="weighted_vote"),
    entry("14_refinement", N=1, ROUNDS=49),
    entry("28_stepwise"),
    entry("02_rsa_basic", stepwise),
    entry("02_rsa_basic", stepwise, name="02_rsa_basic_4", N=4, K=2, T=11),
    entry("03_rsa_verify"),
    entry("05_rsa_qed"),
    entry("06_deepseek_math"),
    entry("07_nomos"),
    entry("08_reasoning_cache"),
    entry("09_selfcheck"),
    entry("09_selfcheck", name="09_selfcheck_verdict", CLASSIFY=0),
    entry("10_static_math_agent"),
    entry("11_math_agent"),
]
comparison = Comparison(entries)

if __name__ == "__main__":
    compare(comparison, globals())
