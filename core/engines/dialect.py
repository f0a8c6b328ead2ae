"""The part of an engine for GPUs that starts it; core/engines/server.py has the part that asks it."""

from pathlib import Path

from core.engines.need import Settings
from core.engines.server import Dialect, dialects
from core.engines.weights import Model

STREAM_INTERVAL = 32  # tokens between messages from scheduler to front end; no user watches the stream


class OnGpu(Dialect):
    """An engine for an NVIDIA GPU, which runs in a process of its own."""

    label = ""  # its name for people
    is_default = False  # whether a machine with a GPU starts it if ENGINE names none
    pooling = ""  # how the vectors of tokens become one embedding
    # The range of extra time that honouring seeds takes (DETERMINISTIC=1), as shares; None if it always honours them.
    deterministic_cost: tuple[float, float] | None = None

    def check_model(self, folder: Path) -> None:
        """Raise UserError if the engine would misread the model in `folder`."""

    def arguments(self, model: Model, chosen: Settings, host: str, port: int) -> list[str]:
        """Return the arguments of a Python interpreter that serve `model`. They contain no API key."""
        raise NotImplementedError

    def embedding(self, model: Model, chosen: Settings, host: str, port: int) -> list[str]:
        """Return the arguments that serve `model` for embeddings only, under its `embedding_name`."""
        raise NotImplementedError

    def embedding_name(self, name: str) -> str:
        """Return the name of a model for embeddings. It contains the pooling, which changes the vectors."""
        model, at, digest = name.partition("@")
        return f"{model}-{self.pooling}{at}{digest}"

    def secrets(self, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return flags and environment that pass the API `key` without showing it in process lists.
        They may refer to a file that is written into `folder`."""
        raise NotImplementedError

    def parser(self, model: Model) -> tuple[str, ...]:
        """Return the flags that separate thinking from the answer.
        The parser would take the whole answer of a model that does not think for thinking (SGLang 0.5.23)."""
        return ("--reasoning-parser", "qwen3") if model.thinks else ()


def on_gpu(engine: str) -> OnGpu | None:
    """Return the engine for GPUs that ENGINE names, or the default one for ""; None if ENGINE names another kind."""
    found = [each for each in dialects() if isinstance(each, OnGpu)]
    return next((each for each in found if engine in each.engines or (each.is_default and not engine)), None)
