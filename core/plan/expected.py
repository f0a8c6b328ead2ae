"""What the bar's time left starts from: how many completions of each kind a run will make, and how long they take."""

from pathlib import Path

from core.constants import Asking
from core.engines import gpus, weights
from core.engines.shape import QED_NANO
from core.plan.estimate import machine
from core.plan.lengths import ASSUMED, measured
from core.plan.loads import loads
from core.plan.progress import ANY, Expected, Kind
from core.plan.roofline import MIDDLE
from core.types import Planned


def expected(
    planned: Planned, config: Asking, count: int, model: str, folder: Path, experiment: str
) -> dict[Kind, Expected]:
    """The kinds of completions of `count` problems, with the measured lengths of `model` where there are any. Only the
    ratios of their seconds matter: QED-Nano's are those of the plan for the default GPU, of other models a token takes
    as long as any other. Of a scaffold that is not RSA nobody
    knows how it goes on: its completions are of ANY kind, and so many at most."""
    if planned.max_completions(config) != sum(load.count for load in loads(config, 1, ASSUMED)):
        return {ANY: Expected(planned.max_completions(config) * count, 1.0, 1.0)}
    made = loads(config, count, measured(folder, model, experiment) or ASSUMED)
    if model != weights.REPO:
        return {load.kind: Expected(load.count, load.tokens / load.count, load.tokens) for load in made}
    on = machine(QED_NANO, gpus.DEFAULT, "bf16", config)
    return {
        load.kind: Expected(load.count, load.tokens / load.count, on.parts([load], count, MIDDLE).work) for load in made
    }
