"""Scaffolds on the same problems at equal budgets.

A budget of 5.5 is the mean cost of 5.5 independent samples per problem. Budgets are not whole numbers, so that a step
may cost slightly more than a whole number of samples. A scaffold is skipped if the model's card says that the model has
not learnt one of its requests. After a run on proofs, such as PROBLEMS=sums_proof, run bash scripts/grade.sh
15_compute_matched. The comparison then counts points instead of votes.

Question: which scaffold makes the best use of a budget of tokens, compute or money?
Expected: voting is hard to beat at small budgets. RSA gains if the budget allows several steps.
Command: bash scripts/run.sh 15_compute_matched (on a GPU, first bash scripts/plan.sh 15_compute_matched)
"""

from dataclasses import replace
from functools import partial

from core.scaffolds.rsa import RSA, rsa
from core.session.equal_compute import Comparison, compare, entry

MAX_TOKENS = 16384  # token cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, or the path of a file
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
BUDGET_IN = "tokens"  # unit: tokens, read (+ uncached prompt tokens), read_cold (+ all prompt tokens), flops, dollars
SEED = 0  # added to each of `seeds`: SEED=2 runs with the seeds 2 and 3

budgets = (2.5, 5.5, 10.5, 20.5, 54.5)  # per problem, in units of a sample's mean cost
seeds = (0, 1)


def never(*_: object) -> bool:
    """Return False, so that RSA never stops early. With a stop rule, RSA starts a step only after the previous step has
    finished. A budget then pays for no unfinished steps."""
    return False


stepwise = replace(RSA, run=partial(rsa, stop=never))

# An entry has its experiment's constants, except MAX_TOKENS etc. above and its own changes. The first is the reference.
entries = [
    entry("12_majority", proofs="samples", STAGE=1, N=60),
    entry("12_majority", name="12_majority_hot", proofs="samples_hot", STAGE=1, N=60, TEMPERATURE=1.0),
    entry("01_baseline", name="01_greedy", N=1, TEMPERATURE=0.0),
    entry("13_best_of"),
    entry("13_best_of", name="13_best_of_4", N=4, VERIFY_SAMPLES=2),
    entry("14_refinement", N=1, ROUNDS=49),
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
comparison = Comparison(entries, budgets, seeds)

if __name__ == "__main__":
    compare(comparison, globals())
