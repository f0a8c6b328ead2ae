"""Read only the boxes and `Final:` lines of a reply, and no sentences."""

from functools import partial

from core.grading.boxed import in_turns, of_part
from core.grading.escapes import restored
from core.grading.extraction import Extraction
from core.grading.kind import Kind


def extract(text: str, kind: Kind, truncated: bool = False) -> Extraction:
    return in_turns(restored(text), partial(of_part, grammar=kind), kind, truncated)
