"""Define how an engine on a GPU is started. core/engines/protocol.py defines how engines are
recognised and asked."""

from pathlib import Path

from core.engines.need import ServerSize
from core.engines.protocol import Dialect, dialects
from core.engines.wanted import Hosting
from core.engines.weights import Model

STREAM_INTERVAL = 32  # tokens per message from scheduler to front end (no user watches the stream)


class OnGpu(Dialect):
    """An engine that runs on an NVIDIA GPU, in its own process."""

    label = ""  # its name in messages
    # Flags for its build for CPUs, which a user installs, or () if no run starts such a build.
    cpu_flags: tuple[str, ...] = ()
    # The extra time for honouring seeds (DETERMINISTIC=1), as a range of shares, or None if it
    # always honours seeds.
    deterministic_cost: tuple[float, float] | None = None
    # The name of its parser for gpt-oss, which marks thinking with channels.
    channel_parser = ""

    def check_model(self, folder: Path) -> None:
        """Raise UserError if the engine would misread the model in `folder`. By default, nothing is
        checked."""

    def arguments(self, model: Model, size: ServerSize, ours: Hosting) -> list[str]:
        """Return the arguments with which a Python interpreter serves `model` on the address and
        port of `ours`. The arguments contain no API key."""
        raise NotImplementedError

    def flags_on_cpu(self, model: Model) -> tuple[str, ...]:
        """Return the flags with which its build for CPUs serves `model`."""
        return self.cpu_flags

    def secrets(self, key: str, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return the flags and environment variables that pass the API `key`, but do not show it in
        process lists. The flags may name a file that is written into `folder`."""
        raise NotImplementedError

    def parser(self, model: Model) -> tuple[str, ...]:
        """Return the flags that separate thinking from the answer, if the model thinks.
        For other models, the parser of SGLang 0.5.23 would treat the whole answer as thinking."""
        if not model.thinks:
            return ()
        return "--reasoning-parser", self.channel_parser if model.kind == "gpt_oss" else "qwen3"


def on_gpu(engine: str) -> OnGpu | None:
    """Return the GPU engine that ENGINE names, or SGLang for "". Return None if ENGINE names no GPU
    engine."""
    name = engine or "sglang"
    for dialect in dialects():
        if isinstance(dialect, OnGpu) and name in dialect.names:
            return dialect
    return None
