"""A proof is data: what a grader is shown of one, and the fence around it that nothing in it can end.

A solver may have written anything: points that it gives itself, orders to its grader, a line like the one that ends
the fence. The mark of a fence follows from the whole proof by a hash, so that whoever writes a proof can't know it
before the proof is finished, and the same proof has the same fence whenever it is graded again.
"""

import hashlib
import re

MARK_CHARACTERS = 16  # hexadecimal: 64 bits
FIRST = 0  # stands in the hash, so that grades in journals are found again

# A line that opens one: "## Self-evaluation", "**Self assessment:** sound", "Self-grade: 7".
_ASSESSMENT = re.compile(
    r"^[ \t#*_]*+(?:my[ \t]+)?self[ \t-]?(?:assessment|critique|evaluation|grade|grading|rating|score)\b[^\n]*+$",
    re.IGNORECASE | re.MULTILINE,
)
# What begins another part of a text: a heading of Markdown or LaTeX, a bold line, "Proof." or "Lemma 2:".
_HEADING = re.compile(
    r"^[ \t]*+(?:#{1,6}[ \t]+\S|\\(?:sub)*section\b|\\begin\{(?:proof|solution)\}|\*\*[^*\n]++\*\*[ \t]*+:?[ \t]*+$"
    r"|[*_]*+(?:proof|solution|claim|lemma|theorem|step|case|part)(?:[ \t]+\w{1,3})?[*_ \t]*+(?:[.:]|$))",
    re.IGNORECASE | re.MULTILINE,
)
_SCORE = re.compile(r"\b(?:score|grade|points?|rating|marks?)\b", re.IGNORECASE)


def shown(proof: str) -> str:
    """Return the proof without the self-evaluation that ends it: a part with such a heading, the last of all, which is
    one paragraph or closes with a score. Other text below such a heading may belong to the proof, and stays; so does a
    text that is nothing but a self-evaluation."""
    whole = proof.strip()
    opened = list(_ASSESSMENT.finditer(whole))
    if not opened or not _is_evaluation(whole[opened[-1].start() :], whole[opened[-1].end() :].strip()):
        return whole
    return whole[: opened[-1].start()].rstrip("-=*_# \t\n") or whole  # without the rule above it, too


def _is_evaluation(part: str, below: str) -> bool:
    """Whether the last `part` of a text is a self-evaluation; `below` is what stands under its heading."""
    if _HEADING.search(below):
        return False
    *_, before, last = ["", *(line for line in part.splitlines() if line.strip())]
    closes_with_score = bool(_SCORE.search(f"{before} {last}") and re.search(r"\d", last))
    return closes_with_score or not re.search(r"\n[ \t]*\n", below)


def mark(proof: str, *names: str | int) -> str:
    """Return what both lines of the fence around `proof` hold. It follows from `names` and the whole proof, which can't
    hold a hash of itself."""
    hashed = "\x1f".join(map(str, (*names, FIRST, proof)))
    return hashlib.sha256(hashed.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARACTERS]


def fenced(proof: str, mark: str) -> str:
    """The proof between two lines that hold the `mark`."""
    return f"----- {mark} begins -----\n{proof}\n----- {mark} ends -----"
