"""The statement of a theorem out of Lean's source: `theorem NAME BINDERS : TYPE := by` holds "BINDERS : TYPE"."""

import re

from labs.lean.guard import outside

_MODIFIERS = re.compile(r"(?:(?:private|protected|public|nonrec|noncomputable)\s+)*(?:theorem|lemma)\s+")
_NAME = re.compile(r"(?P<name>[^\s(\[{⦃:]+?)(?:\.\{[^}]*\})?(?=[\s(\[{⦃:])")
_NO_PROOF = re.compile(r":=\s*(?:by(?:\s+sorry)?|sorry)?\s*\Z")  # what stands for one: nothing, `by`, a sorry


def theorem_in(source: str) -> tuple[str, str] | None:
    """The name and the statement, on one line, of the theorem that `source` is: from its attributes to its proof, which
    may be there or not. A value of a binder, `(h : p := q)`, belongs to the statement. None for what is no theorem."""
    text = _behind_attributes(without_comments(source))
    begins = _MODIFIERS.match(text)
    named = begins and _NAME.match(text, begins.end())
    if not named:
        return None
    body = text[named.end() :]
    ends = _NO_PROOF.search(body)
    values = [place for place in outside(body) if body.startswith(":=", place)]
    statement = body[: ends.start() if ends else values[0] if values else len(body)]
    colons = [place for place in outside(statement) if statement[place] == ":" and statement[place + 1 :][:1] != "="]
    return (named["name"], " ".join(statement.split())) if colons else None


def without_comments(text: str) -> str:
    """Lean's source with a blank in the place of each comment; blocks may stand within each other."""
    kept, depth, place = [], 0, 0  # `place`: behind the last mark that counted
    while mark := re.compile(r"/-|-/" if depth else r"/-|--[^\n]*").search(text, place):
        if not depth:
            kept += [text[place : mark.start()], " "]
        depth += {"/-": 1, "-/": -1}.get(mark[0], 0)
        place = mark.end()
    return "".join(kept) + ("" if depth else text[place:])


def _behind_attributes(text: str) -> str:
    """`text` from the first word behind its `@[…]`."""
    text = text.lstrip()
    while text.startswith("@["):
        closed = next((place for place in outside(text) if text[place] == "]"), len(text))
        text = text[closed + 1 :].lstrip()
    return text
