"""The policy that is searched with, and a server of it: the tiny one of data/lean, unless something else is named."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from core.base.errors import UserError
from core.base.files import DATA
from core.engines import environment, start
from core.engines.need import Need
from core.engines.server import Server
from labs.lean import embedding as embeds
from labs.lean.constants import LeanConstants
from labs.training import served
from labs.training.served import Weights, is_on_gpu

POLICY = DATA / "lean" / "policy.gguf"
NAME, ABOUT = "qed-rsa-lean-policy", "a tiny policy for lemmas made by program, not for Mathlib"


def is_named() -> bool:
    """Whether the user says which model proposes tactics."""
    return bool(environment.base_url() or environment.model() or environment.engine())


def first() -> Weights:
    """The policy that iterations start from. Raises UserError where it is not here, or is somebody else's server."""
    if is_named():
        return served.first()
    if not POLICY.is_file():
        raise UserError(f"the tiny policy {POLICY} is not there. Check out the repository again, or set MODEL")
    return Weights(POLICY, NAME, ABOUT)


def trained(path: Path) -> Weights:
    """What the policy that is searched with was trained to."""
    return Weights(path) if is_named() else Weights(path, NAME, ABOUT)


def embedding(made: Weights, folder: Path) -> AbstractContextManager[Server]:
    """A server that embeds by a policy, beside the one that proposes tactics by it, and started before that: on the GPU
    for a policy that is served there; else by llama.cpp on the CPU. Its log, and what the weights are converted to, lie
    in `folder`. Raises UserError where it does not start."""
    if is_on_gpu(made):
        engine = start.gpu_engine()
        start.set_up(engine)
        return embeds.on_gpu(engine, made.path, folder / f"{engine.kind}-embedding.log")
    return embeds.on_llamacpp(made.path if made.is_gguf else served.converted(made, folder))


def need(made: Weights, config: LeanConstants, beside: bool = False) -> Need:
    """What a search needs of the server of a policy; `beside` one that embeds."""
    return Need(0, config.MAX_TOKENS, 0, embeds=beside and is_on_gpu(made) and embeds.shares_gpu())


def check_embeds(made: Weights, config: LeanConstants) -> None:
    """Raises UserError where the GPU does not hold a policy twice, to propose and to embed."""
    if is_on_gpu(made):
        embeds.check(made.path, need(made, config))


@contextmanager
def policy(need: Need, folder: Path) -> Iterator[Server]:
    """A server of the policy that is named, or of the tiny one. Raises UserError."""
    if is_named():
        with start.serving(need) as server:
            yield server
    else:
        with served.served(first(), need, folder) as server:
            yield server
