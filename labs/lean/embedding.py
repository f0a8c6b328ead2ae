"""A server that embeds texts by the weights that another one generates with. Neither SGLang nor vLLM does both in one
server, and llama.cpp not reliably, so it is one of its own.

llama.cpp embeds in this process, on the CPU, beside whatever else. On a GPU it is SGLang or vLLM, and the GPU holds the
weights twice: the server that embeds starts first, and the other one is planned with what is left (Need.embeds). Where
there are two GPUs, it takes the second.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from core.engines import environment, gpus, process, start, weights
from core.engines.dialect import OnGpu
from core.engines.dialects import llamacpp
from core.engines.embedded_model import EMBEDDED_GGUF
from core.engines.need import Need, embedding_settings, settings
from core.engines.server import Server

WHY = "it embeds"


@contextmanager
def on_llamacpp(gguf: Path = EMBEDDED_GGUF, port: int = 0) -> Iterator[Server]:
    """The model in a `gguf` file on llamacpp.serving's `embeds`: texts of up to 2,048 tokens, one after the other.
    Raises UserError where it does not fit or start."""
    from core.engines.gguf_header import Gguf  # takes a while to load

    need = Need(k=0, max_tokens=0, answer_tokens=0)
    size = llamacpp.size(Gguf.read(gguf), need, llamacpp.memory(), cores=1)
    if gguf != EMBEDDED_GGUF:
        size = replace(size, threads=llamacpp.physical_cores())
    name, key = llamacpp.name_of(gguf), environment.api_key()
    with llamacpp.serving(gguf, name, environment.host(), port, size, key, exact=False, embeds=True) as address:
        yield replace(start.reached(address, WHY, name), sha256=weights.sha256(gguf))


def on_gpu(engine: OnGpu, folder: Path, log: Path) -> AbstractContextManager[Server]:
    """The weights in a `folder` on an `engine` that embeds and does nothing else, on a free port. Raises UserError
    where it does not fit or start."""
    model = start.model_for(engine, str(folder))
    chosen = embedding_settings(model.shape, model.longest, gpus.here())
    port = process.free_port()
    args = engine.embedding(model, chosen, environment.host(), port)
    name = engine.embedding_name(model.name)
    return start.started(engine, args, port, name, WHY, log, changes=_second_gpu())


def shares_gpu() -> bool:
    """Whether it takes memory from the server that generates."""
    return not _second_gpu()


def _second_gpu() -> dict[str, str]:
    """What puts a server there; nothing where there is none. (CUDA's own order, in which the other server takes the
    first.)"""
    visible = environment.visible_gpus()
    here = visible.split(",") if visible else [str(number) for number in range(len(gpus.indices()))]
    return {"CUDA_VISIBLE_DEVICES": here[1].strip()} if len(here) > 1 else {}


def check(folder: Path, need: Need) -> None:
    """Raises UserError where a GPU does not hold both servers."""
    model = weights.Model.at(str(folder))
    gpu = gpus.here()
    embedding_settings(model.shape, model.longest, gpu)
    settings(model.shape, model.longest, gpu, replace(need, embeds=shares_gpu()), environment.kv_cache())
