"""Servers of a policy: one that proposes tactics, and one that embeds states by the same weights.

The policy is the tiny one of data/lean, unless something else is named. Neither SGLang nor vLLM generates and embeds in
one server, and llama.cpp not reliably, so there are two. llama.cpp embeds in this process, on the CPU, beside the
other. On a GPU it is SGLang or vLLM, and the GPU holds the weights twice: the server that embeds starts first, and the
other one is planned with what is left (Need.embeds).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from core.base.errors import UserError
from core.base.files import DATA
from core.engines import environment, gpus, process, start, weights
from core.engines.dialect import OnGpu
from core.engines.dialects import llamacpp
from core.engines.embedded_model import EMBEDDED_GGUF
from core.engines.need import Need, embedding_settings, settings
from core.engines.server import Server
from labs.lean.constants import LeanConstants
from labs.training import served
from labs.training.served import Weights, is_on_gpu

POLICY = DATA / "lean" / "policy.gguf"
NAME, ABOUT = "qed-rsa-lean-policy", "a tiny policy for lemmas made by program, not for Mathlib"
WHY = "it embeds"


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


@contextmanager
def policy(need: Need, folder: Path) -> Iterator[Server]:
    """A server of the policy that is named, or of the tiny one. Raises UserError."""
    with start.serving(need) if is_named() else served.served(first(), need, folder) as server:
        yield server


def need(made: Weights, config: LeanConstants, beside: bool = False) -> Need:
    """What a search needs of the server of a policy; `beside` one that embeds."""
    return Need(0, config.MAX_TOKENS, 0, embeds=beside and is_on_gpu(made))


def check_embeds(made: Weights, config: LeanConstants) -> None:
    """Raises UserError if the GPU does not hold a policy twice, to propose and to embed."""
    if is_on_gpu(made):
        model, gpu = weights.Model.at(str(made.path)), gpus.here()
        embedding_settings(model.shape, model.longest, gpu)
        settings(model.shape, model.longest, gpu, need(made, config, beside=True), environment.kv_cache())


def embedding(made: Weights, folder: Path) -> AbstractContextManager[Server]:
    """Start a server that embeds by a policy, before the one that proposes tactics by it: on the GPU if the policy is
    served there, else by llama.cpp on the CPU. Its log and converted weights go to `folder`. Raises UserError."""
    if is_on_gpu(made):
        engine = start.gpu_engine()
        start.set_up(engine)
        return on_gpu(engine, made.path, folder / f"{engine.kind}-embedding.log")
    return on_llamacpp(made.path if made.is_gguf else served.converted(made, folder))


@contextmanager
def on_llamacpp(gguf: Path = EMBEDDED_GGUF, port: int = 0) -> Iterator[Server]:
    """Serve the model in a `gguf` file on llamacpp.serving's `embeds`: texts of up to 2,048 tokens, one after the
    other. Raises UserError if it does not fit or start."""
    from core.engines.gguf_header import Gguf  # takes a while to load

    need = Need(k=0, max_tokens=0, answer_tokens=0)
    size = llamacpp.size(Gguf.read(gguf), need, llamacpp.memory(), cores=1)
    if gguf != EMBEDDED_GGUF:
        size = replace(size, threads=llamacpp.physical_cores())
    name, key = llamacpp.name_of(gguf), environment.api_key()
    with llamacpp.serving(gguf, name, environment.host(), port, size, key, exact=False, embeds=True) as address:
        yield replace(start.reached(address, WHY, name), sha256=weights.sha256(gguf))


def on_gpu(engine: OnGpu, folder: Path, log: Path) -> AbstractContextManager[Server]:
    """Serve the weights in a `folder` on an `engine` that embeds and does nothing else, on a free port. Raises
    UserError if it does not fit or start."""
    model = start.model_for(engine, str(folder))
    chosen = embedding_settings(model.shape, model.longest, gpus.here())
    port = process.free_port()
    args = engine.embedding(model, chosen, environment.host(), port)
    return start.started(engine, args, port, engine.embedding_name(model.name), WHY, log)
