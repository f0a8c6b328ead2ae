"""Show a proof to a grader as data: without a self-evaluation, in a fence that nothing in the proof can close.
The mark of a fence is a hash of the whole proof, so no proof can contain its own mark."""

import hashlib
import re

MARK_CHARACTERS = 16  # hexadecimal: 64 bits
FIRST = 0  # part of the hash, so that grades in journals are found again

# A line that opens a self-evaluation: "## Self-evaluation", "**Self assessment:** sound", "Self-grade: 7".
_ASSESSMENT = re.compile(
    r"^[ \t#*_]*+(?:my[ \t]+)?self[ \t-]?(?:assessment|critique|evaluation|grade|grading|rating|score)\b[^\n]*+$",
    re.IGNORECASE | re.MULTILINE,
)
# The beginning of another part of a text: a heading of Markdown or LaTeX, a bold line, "Proof." or "Lemma 2:".
_HEADING = re.compile(
    r"^[ \t]*+(?:#{1,6}[ \t]+\S|\\(?:sub)*section\b|\\begin\{(?:proof|solution)\}|\*\*[^*\n]++\*\*[ \t]*+:?[ \t]*+$"
    r"|[*_]*+(?:proof|solution|claim|lemma|theorem|step|case|part)(?:[ \t]+\w{1,3})?[*_ \t]*+(?:[.:]|$))",
    re.IGNORECASE | re.MULTILINE,
)
_SCORE = re.compile(r"\b(?:score|grade|points?|rating|marks?)\b", re.IGNORECASE)


def shown(proof: str) -> str:
    """Return the proof without a self-evaluation at its end: one paragraph, or a part that closes with a score."""
    whole = proof.strip()
    opened = list(_ASSESSMENT.finditer(whole))
    if not opened or not _is_evaluation(whole[opened[-1].start() :], whole[opened[-1].end() :].strip()):
        return whole
    return whole[: opened[-1].start()].rstrip("-=*_# \t\n") or whole  # without the rule above it, too


def _is_evaluation(part: str, below: str) -> bool:
    """Return whether the last `part` of a text is a self-evaluation; `below` is its text under the heading."""
    if _HEADING.search(below):
        return False
    *_, before, last = ["", *(line for line in part.splitlines() if line.strip())]
    closes_with_score = bool(_SCORE.search(f"{before} {last}") and re.search(r"\d", last))
    return closes_with_score or not re.search(r"\n[ \t]*\n", below)


def mark(proof: str, *names: str | int) -> str:
    """Return the mark of the fence around `proof`: a hash of `names` and the whole proof."""
    hashed = "\x1f".join(map(str, (*names, FIRST, proof)))
    return hashlib.sha256(hashed.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARACTERS]


def fenced(proof: str, mark: str) -> str:
    """Put the proof between two lines with the `mark`."""
    return f"----- {mark} begins -----\n{proof}\n----- {mark} ends -----"
