"""All scaffolds at equal compute: the same problems under the same budgets.

Question: what is the best way to spend so many tokens (or so much compute, or money) on a problem?
Expected: voting is hard to beat at small budgets; RSA gains where there is enough for several steps.
A budget is given in plain samples, whatever they take the model; none is a whole number, lest a population just misses
it. What a model's card says it has not learnt is left out, and said. Sets of proofs (PROBLEMS=sums_proof) are compared
once they are graded: bash scripts/grade.sh 15_compute_matched. Nobody votes on proofs; a budget is worth their points.
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
BUDGET_IN = "tokens"  # written; or read (with uncached prompt tokens), read_cold (with all), flops, dollars (if priced)
SEED = 0  # added to each of the seeds: SEED=2 runs with 2 and 3

budgets = (2.5, 5.5, 10.5, 20.5, 54.5)  # samples' worth of completion tokens, for a problem
seeds = (0, 1)


def never(*_: object) -> bool:
    """No early stop; yet with a rule to stop RSA waits for each whole step, so that a budget wastes nothing."""
    return False


stepwise = replace(RSA, run=partial(rsa, stop=never))

# Each with its experiment's constants, but for those above and those given here; all are compared with the first.
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
