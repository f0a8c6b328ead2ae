"""All scaffolds on the same problems at equal budgets.

Question: what is the best way to spend a budget of tokens (or compute, or money) on a problem?
Expected: voting is hard to beat at small budgets; RSA gains if the budget allows several steps.
A budget is a number of plain samples. None is whole, so that no population just misses it. Scaffolds that the model has
not learnt, by its card, are skipped. Sets of proofs (PROBLEMS=sums_proof) are compared after bash scripts/grade.sh
15_compute_matched: their budgets buy points, not votes.
Command: bash scripts/run.sh 15_compute_matched; before it on a GPU, bash scripts/plan.sh 15_compute_matched
"""

from dataclasses import replace
from functools import partial

from core.scaffolds.rsa import RSA, rsa
from core.session.equal_compute import Comparison, compare, entry

MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
BUDGET_IN = "tokens"  # or read (plus uncached prompt tokens), read_cold (plus all of them), flops, dollars (if priced)
SEED = 0  # added to each of the seeds: SEED=2 runs with 2 and 3

budgets = (2.5, 5.5, 10.5, 20.5, 54.5)  # per problem, in completion tokens of one sample
seeds = (0, 1)


def never(*_: object) -> bool:
    """Return False: no early stop. With a stop rule, RSA waits for each whole step, so that a budget wastes nothing."""
    return False


stepwise = replace(RSA, run=partial(rsa, stop=never))

# Each has its experiment's constants, changed by those above and here. All are compared with the first.
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
