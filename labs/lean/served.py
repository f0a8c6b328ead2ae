"""Serve a policy that proposes tactics, and embed states with the same weights.

The policy is the tiny policy of data/lean, unless the user names another. SGLang proposes and
embeds in one server. For a policy that llama.cpp serves, a second server in this process embeds.
vLLM only proposes.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from core import server
from core.base.errors import UserError
from core.engines import weights
from core.engines.need import Need
from core.engines.protocol import Server
from labs.lean.burnqed import POLICY, is_named
from labs.lean.constants import LeanConstants
from labs.training import served
from labs.training.served import Weights, is_on_gpu

NAME = "qed-rsa-lean-policy"
ABOUT = "a tiny policy for generated lemmas, not for Mathlib"


def first() -> Weights:
    """Return the policy from which iterations start. Raises UserError if it is missing or on a
    remote server."""
    if is_named():
        return served.first()
    if not POLICY.is_file():
        raise UserError(
            f"the tiny policy {POLICY} is missing. Check out the repository again, or set MODEL"
        )
    return Weights(POLICY, NAME, ABOUT)


def trained(path: Path) -> Weights:
    """Return the weights that an iteration trained."""
    return Weights(path) if is_named() else Weights(path, NAME, ABOUT)


def policy(need: Need, folder: Path) -> AbstractContextManager[Server]:
    """Serve the policy that the user names, or the tiny policy. Raises UserError."""
    return server.serving(need) if is_named() else served.served(first(), need, folder)


def need(policy: Weights, config: LeanConstants, embeds: bool = False) -> Need:
    """Return what a search needs from its server. If it `embeds` and is on a GPU, it also embeds
    with the policy."""
    return Need(0, config.MAX_TOKENS, 0, embeds=embeds and is_on_gpu(policy))


def check_embeds(policy: Weights, config: LeanConstants) -> None:
    """Raise UserError if the GPU engine does not embed, or if its memory is too small to propose
    and to embed."""
    if is_on_gpu(policy):
        server.gpu_engine(embeds=True)
        server.server_size_for(
            weights.Model.at(str(policy.path)), need(policy, config, embeds=True)
        )


@contextmanager
def serving(
    policy: Weights, config: LeanConstants, folder: Path, embeds: bool = True
) -> Iterator[tuple[Server, Server]]:
    """Serve a policy. Yield the server that proposes tactics, and the server that embeds if
    `embeds` is True. They may be the same server. The logs and converted weights are written to
    `folder`. Raises UserError."""
    needed = need(policy, config, embeds)
    with ExitStack() as running:
        second: Server | None = None
        if embeds and not needed.embeds:
            second = running.enter_context(served.embedding(policy, folder))
        first_server = running.enter_context(served.served(policy, needed, folder))
        yield first_server, second or first_server
