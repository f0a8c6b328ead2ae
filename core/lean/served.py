"""The policy that is searched with, and a server of it: the tiny one of data/lean, unless something else is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.engines import environment, start
from core.engines.need import Need
from core.engines.server import Server
from core.errors import UserError
from core.files import DATA
from core.training import served
from core.training.served import Weights

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


def embedding(made: Weights, folder: Path) -> Path:
    """The file by which llama.cpp embeds for a policy, on the CPU: its own, or in `folder` what its weights become.
    Raises UserError where they cannot be converted."""
    return made.path if made.is_gguf else served.converted(made, folder)


@contextmanager
def policy(need: Need, folder: Path) -> Iterator[Server]:
    """A server of the policy that is named, or of the tiny one. Raises UserError."""
    if is_named():
        with start.serving(need) as server:
            yield server
    else:
        with served.served(first(), need, folder) as server:
            yield server
