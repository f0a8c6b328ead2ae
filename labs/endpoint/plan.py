"""The work of one request to RSA as a model, for plan.sh."""

from collections.abc import Sequence

from core.scaffolds.rsa import RSA, RsaConstants
from core.types import Scaffold


def request(words: Sequence[str]) -> tuple[str, Scaffold[RsaConstants], list[str]]:
    """Return the name of a request, its scaffold and its constants, from the `words` behind serve_rsa."""
    return "a request to serve_rsa", RSA, list(words)
