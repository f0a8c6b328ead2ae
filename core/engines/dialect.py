"""Define how an engine on a GPU is started. core/engines/protocol.py defines how engines are
recognised and asked."""

from pathlib import Path

from core.engines.need import Settings
from core.engines.protocol import Dialect, dialects
from core.engines.weights import Model

STREAM_INTERVAL = 32  # tokens per message from scheduler to front end (no user watches the stream)


class OnGpu(Dialect):
    """An engine that runs on an NVIDIA GPU, in its own process."""

    label = ""  # its name in messages
    # The extra time for honouring seeds (DETERMINISTIC=1), as a range of shares, or None if it
    # always honours seeds.
    deterministic_cost: tuple[float, float] | None = None

    def check_model(self, folder: Path) -> None:
        """Raise UserError if the engine would misread the model in `folder`. By default, nothing is
        checked."""

    def arguments(self, model: Model, chosen: Settings, host: str, port: int) -> list[str]:
        """Return the arguments with which a Python interpreter serves `model`. The arguments
        contain no API key."""
        raise NotImplementedError

    def secrets(self, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return the flags and environment variables that pass the API `key`, but do not show it in
        process lists. The flags may name a file that is written into `folder`."""
        raise NotImplementedError

    def parser(self, model: Model) -> tuple[str, ...]:
        """Return the flags that separate thinking from the answer, if the model thinks.
        For other models, the parser of SGLang 0.5.23 would treat the whole answer as thinking."""
        return ("--reasoning-parser", "qwen3") if model.thinks else ()


def on_gpu(engine: str) -> OnGpu | None:
    """Return the GPU engine that ENGINE names, or SGLang for "". Return None if ENGINE names no GPU
    engine."""
    found = (each for each in dialects() if isinstance(each, OnGpu))
    return next((each for each in found if (engine or "sglang") in each.engines), None)
