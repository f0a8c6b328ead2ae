"""Prepare a proof for a grader: remove a self-evaluation, and put a fence (two lines with a mark)
around the proof. The mark depends on a hash of the whole proof. So a proof that contains its own
mark is practically impossible."""

import hashlib
import re

MARK_CHARACTERS = 16  # hexadecimal digits, which are 64 bits
# part of the hash, and kept because another value would make the grades in journals unusable
FIRST = 0

# A line that opens a self-evaluation: "## Self-evaluation", "**Self assessment:** sound",
# "Self-grade: 7".
_ASSESSMENT = re.compile(
    (
        r"^[ \t#*_]*+(?:my[ \t]+)?self[ \t-]?(?:assessment|critique|evaluation|grade|grading"
        r"|rating|score)\b[^\n]*+$"
    ),
    re.IGNORECASE | re.MULTILINE,
)
# The beginning of another part of a text: a heading of Markdown or LaTeX, a bold line, "Proof." or
# "Lemma 2:".
_HEADING = re.compile(
    r"^[ \t]*+(?:#{1,6}[ \t]+\S|\\(?:sub)*section\b|\\begin\{(?:proof|solution)\}"
    r"|\*\*[^*\n]++\*\*[ \t]*+:?[ \t]*+$"
    r"|[*_]*+(?:proof|solution|claim|lemma|theorem|step|case"
    r"|part)(?:[ \t]+\w{1,3})?[*_ \t]*+(?:[.:]|$))",
    re.IGNORECASE | re.MULTILINE,
)
_SCORE = re.compile(r"\b(?:score|grade|points?|rating|marks?)\b", re.IGNORECASE)


def shown(proof: str) -> str:
    """Return the proof without a self-evaluation (a last paragraph, or a section with a score at
    its end) below it."""
    whole = proof.strip()
    opened = list(_ASSESSMENT.finditer(whole))
    if not opened or not _is_evaluation(
        whole[opened[-1].start() :], whole[opened[-1].end() :].strip()
    ):
        return whole
    # without a rule (---), but never empty
    return whole[: opened[-1].start()].rstrip("-=*_# \t\n") or whole


def _is_evaluation(part: str, below: str) -> bool:
    """Return whether the last `part` of a text looks like a self-evaluation. `below` is the text
    below its heading."""
    if _HEADING.search(below):
        return False
    *_, before, last = ["", *(line for line in part.splitlines() if line.strip())]
    closes_with_score = bool(_SCORE.search(f"{before} {last}") and re.search(r"\d", last))
    return closes_with_score or not re.search(r"\n[ \t]*\n", below)


def mark(proof: str, *names: str | int) -> str:
    """Return the mark for the fence around a proof. The mark is a hash of `names` and the whole
    `proof`."""
    hashed = "\x1f".join(map(str, (*names, FIRST, proof)))
    return hashlib.sha256(hashed.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARACTERS]


def fenced(proof: str, mark: str) -> str:
    """Put the proof between two lines with the `mark`."""
    return f"----- {mark} begins -----\n{proof}\n----- {mark} ends -----"
