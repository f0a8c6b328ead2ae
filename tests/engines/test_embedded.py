"""Test the file of the embedded model. Golden cases pin its answers."""

import hashlib

from core.engines.embedded_model import EMBEDDED_GGUF


def test_the_card_names_the_committed_file_which_is_small() -> None:
    content = EMBEDDED_GGUF.read_bytes()
    card = (EMBEDDED_GGUF.parent / "README.md").read_text()
    assert content[:4] == b"GGUF" and len(content) <= 6_000_000
    assert hashlib.sha256(content).hexdigest() in card
