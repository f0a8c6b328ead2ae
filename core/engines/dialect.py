"""The dialect of an engine for a GPU: how it is started, beside how it is asked (core/engines/server.py)."""

from pathlib import Path

from core.engines.need import Settings
from core.engines.server import Dialect, dialects
from core.engines.weights import Model

STREAM_INTERVAL = 32  # tokens between messages from scheduler to front end: nobody reads along


class OnGpu(Dialect):
    """An engine for an NVIDIA GPU, which runs in a process of its own."""

    label = ""  # its name for people
    is_default = False  # whether a machine with a GPU starts it if ENGINE names none
    pooling = ""  # the tokens whose vectors an embedding is made of
    # The cost of honouring seeds (DETERMINISTIC=1), as shares of the time; None if it always honours them.
    deterministic_cost: tuple[float, float] | None = None

    def check_model(self, folder: Path) -> None:
        """Raise UserError if it would misread the model in `folder`."""

    def arguments(self, model: Model, chosen: Settings, host: str, port: int) -> list[str]:
        """Return the arguments of a Python interpreter that serve `model`. An API key is not among them."""
        raise NotImplementedError

    def embedding(self, model: Model, chosen: Settings, host: str, port: int) -> list[str]:
        """Return the arguments that serve `model` for embeddings alone. The model has the name of `embedding_name`."""
        raise NotImplementedError

    def embedding_name(self, name: str) -> str:
        """Return the name of a model for embeddings: vectors that are pooled otherwise belong to another one."""
        model, at, digest = name.partition("@")
        return f"{model}-{self.pooling}{at}{digest}"

    def secrets(self, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return flags and environment that pass the API `key` without showing it in any list of processes. A file for
        that may be written into `folder`."""
        raise NotImplementedError

    def parser(self, model: Model) -> tuple[str, ...]:
        """Return the flags that keep thinking apart from the answer. Of a model that does not think, the parser takes
        the whole answer for thinking (SGLang 0.5.23)."""
        return ("--reasoning-parser", "qwen3") if model.thinks else ()


def on_gpu(engine: str) -> OnGpu | None:
    """Return the engine for a GPU that ENGINE names, the default one if it is ""; None if it names another one."""
    if not engine:
        return default()
    return next((each for each in dialects() if isinstance(each, OnGpu) and engine in each.engines), None)


def default() -> OnGpu:
    """Return the engine that a machine with a GPU starts if ENGINE names none."""
    return next(each for each in dialects() if isinstance(each, OnGpu) and each.is_default)
