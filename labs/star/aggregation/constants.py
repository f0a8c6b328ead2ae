"""Define the constants of learning to aggregate and of its controls."""

from core.base.errors import UserError
from core.constants import constant
from labs.star.constants import StarConstants
from labs.star.controls import ControlConstants

# STaR's constants that have no effect on aggregations, with their values
UNUSED = {"TRIES": 1, "VOTES": 1, "RATIONALISE": 0, "FEWSHOT": "none"}


class LearnConstants(StarConstants):
    """The constants of learning to aggregate. Sampling and evaluation run RSA with N, K and T."""

    N: int = constant(8, "population: number of solutions at every step", 1, 1024)
    K: int = constant(3, "subset: number of solutions that one aggregation sees", 2, 1024)
    T: int = constant(2, "number of aggregation steps after step 0", 1, 1000)
    MIX: float = constant(
        0.3,
        "share of plain solutions in the rows (1: no aggregations, a control)",
        0,
        1,
    )
    NO_RIGHT: float = constant(
        0.2, "largest share of aggregations without a right parent among aggregations", 0, 0.9
    )
    TEACH: str = constant(
        "aggregate",
        "prompt to train (solve: with the right solutions of RSA's last step, a control)",
        choices=("aggregate", "solve"),
    )
    FILTER: int = constant(1, "0: keep wrong aggregations, too (a control)", 0, 1)
    TEMPERATURE: float = constant(0.7, "sampling temperature", 0.01, 5)
    SEEDS: str = constant("63", "seeds of RSA's evaluation, such as 63 or 63-70")
    RATIONALISE: int = constant(0, "no effect", 0, 1)

    def check(self) -> None:
        super().check()
        changed = [name for name, value in UNUSED.items() if getattr(self, name) != value]
        if changed:
            raise UserError(
                f"{' and '.join(changed)} can't be set, because rounds run RSA. Leave out "
                f"{changed[0]}"
            )
        if self.K > self.N:
            raise UserError(f"K={self.K} is larger than N={self.N}. Lower K or raise N")

    @property
    def candidates(self) -> int:
        return self.K

    @property
    def teaches_aggregation(self) -> bool:
        return self.TEACH == "aggregate" and self.MIX < 1


class LearnControlConstants(LearnConstants, ControlConstants):
    """The constants of learning to aggregate and of its controls."""

    ARMS: str = constant(
        "learn", 'names of the arms to compare with the first, such as plain,distilled, or "all"'
    )
    RUNS: int = constant(1, "number of runs of each arm, with the seeds SEED, SEED + 1, …", 1, 100)
