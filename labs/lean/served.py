"""Serve a policy twice: one server proposes tactics, and another embeds states with the same weights.

The policy is the tiny policy of data/lean, unless the user names another. No engine both generates and embeds reliably
in one server. llama.cpp embeds in this process on the CPU. On a GPU, SGLang or vLLM embeds, and the GPU holds the
weights twice. The embedding server starts first, and the other server gets the rest of the memory (Need.embeds).
"""

from contextlib import AbstractContextManager
from pathlib import Path

from core.base.errors import UserError
from core.base.files import DATA
from core.engines import environment, gpus, start, weights
from core.engines.need import Need, embedding_settings, settings
from core.engines.server import Server
from labs.lean.constants import LeanConstants
from labs.training import served
from labs.training.served import Weights, is_on_gpu

POLICY = DATA / "lean" / "policy.gguf"
NAME, ABOUT = "qed-rsa-lean-policy", "a tiny policy for generated lemmas, not for Mathlib"


def is_named() -> bool:
    """Return whether BASE_URL, MODEL or ENGINE selects the model that proposes tactics."""
    return bool(environment.base_url() or environment.model() or environment.engine())


def first() -> Weights:
    """Return the policy from which iterations start. Raises UserError if it is missing or on a remote server."""
    if is_named():
        return served.first()
    if not POLICY.is_file():
        raise UserError(f"the tiny policy {POLICY} is missing. Check out the repository again, or set MODEL")
    return Weights(POLICY, NAME, ABOUT)


def trained(path: Path) -> Weights:
    """Return the weights that an iteration trained."""
    return Weights(path) if is_named() else Weights(path, NAME, ABOUT)


def policy(need: Need, folder: Path) -> AbstractContextManager[Server]:
    """Serve the policy that the user names, or the tiny policy. Raises UserError."""
    return start.serving(need) if is_named() else served.served(first(), need, folder)


def need(policy: Weights, config: LeanConstants, embeds: bool = False) -> Need:
    """Return what a search needs from its server. `embeds`: a second server embeds with the same policy."""
    return Need(0, config.MAX_TOKENS, 0, embeds=embeds and is_on_gpu(policy))


def check_embeds(policy: Weights, config: LeanConstants) -> None:
    """Raise UserError if the GPU's memory is too small for two servers of a policy, to propose and to embed."""
    if is_on_gpu(policy):
        model, gpu = weights.Model.at(str(policy.path)), gpus.here()
        embedding_settings(model.shape, model.longest, gpu)
        settings(model.shape, model.longest, gpu, need(policy, config, embeds=True), environment.kv_cache())
