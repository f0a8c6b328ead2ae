"""Read the theorems that THEOREMS names, check that they elaborate, and read statements in Lean's
source.

miniF2F in Lean 4 (Zheng et al., arXiv 2109.00110) is a file in one commit of DeepSeek-Prover-V1.5.
Each line contains a theorem and its header. The search uses the header's `open` lines, but its own
imports and limits. As in the original, autoImplicit is on, since five statements have undeclared
variables. Sums over sets are rewritten, because Mathlib dropped their older notation in August
2025.
"""

import hashlib
import http.client
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from core.base import files, terminal
from core.base.errors import UserError, one_line
from labs.lean import guard
from labs.lean.constants import LeanConstants
from labs.lean.search import PASSING
from labs.lean.session import steps
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain

REMEDY = 'It should contain {"theorems": [{"name": "…", "statement": "(p : Prop) : p → p"}, …]}'
# selected by "auto"
TEST, TRAIN = (files.DATA / "lean" / f"lemmas_{part}.json" for part in ("test", "train"))
MINIF2F, SPLITS = "minif2f", ("test", "valid")
EACH = 244  # number of theorems in each split of miniF2F
URL = (  # MIT licence
    "https://raw.githubusercontent.com/deepseek-ai/DeepSeek-Prover-V1.5/2c4ba9119eef74d0d611f494261b2c5bae98c69a"
    "/datasets/minif2f.jsonl"
)
IMPLICIT = "set_option autoImplicit true\n"
SECONDS = 60.0  # longest time without data from a server
# `∑ k in s, …` becomes `∑ k ∈ s, …`, and `∑ k : ℤ in s, …` becomes `∑ k ∈ (s : Finset ℤ), …`.
_OVER = re.compile(r"([∑∏] *\w+) in ")
_OVER_TYPED = re.compile(r"([∑∏]) *(\w+) *: *([^\s,()]+) in ([^,()]+),")
_OPEN = re.compile(r"^open (?!.* in$)[\w. ]+$", re.MULTILINE)
# the guard refuses the rest of a nested comment
_COMMENT = re.compile(r"/-.*?-/|--[^\n]*", re.DOTALL)
_MODIFIERS = re.compile(
    r"(?:(?:private|protected|public|nonrec|noncomputable)\s+)*(?:theorem|lemma)\s+"
)
_NAME = re.compile(r"(?P<name>[^\s(\[{⦃:]+?)(?:\.\{[^}]*\})?(?=[\s(\[{⦃:])")
# The beginning of "BINDERS : TYPE" outside brackets: the ends of binders in brackets, and names, as
# in "n m : n = m".
_BINDERS = re.compile(
    r"(?:[\s)\]}⦄]|(?!(?:exists|forall|fun|if|let)\b|[λΠΣ])[^\W\d][\w']*+)*:(?!=)"
)
_NO_PROOF = re.compile(r":=\s*(?:by(?:\s+sorry)?|sorry)?\s*\Z")


class _Row(Struct):
    name: Annotated[str, Meta(pattern=r"\A.*\S.*\Z", max_length=200)]
    statement: str


class _File(Struct):
    theorems: Annotated[list[_Row], Meta(min_length=1)]


def given(
    named: str, default: Path, most: int, lean: Toolchain
) -> tuple[list[Theorem], str, Toolchain]:
    """Return the first `most` theorems of a file or set, its name, and `lean` with the right head.
    Raises UserError."""
    if is_minif2f(named):
        found, lean = minif2f(named, lean, files.results_dir() / "lean" / "downloads")
        return found[:most], named, lean
    path = default if named == "auto" else Path(named).expanduser()
    return read(path)[:most], path.name, lean


def count_of(named: str, default: Path, most: int) -> int:
    """Return the number of theorems to search, `most` or fewer. Raises UserError if their file
    can't be read."""
    path = default if named == "auto" else Path(named).expanduser()
    return min(most, EACH if is_minif2f(named) else len(read(path)))


def read(path: Path) -> list[Theorem]:
    """Read the theorems of a file, in order. Raises UserError, also for repeated names."""
    theorems: dict[str, Theorem] = {}
    for row in decoded(path, _File, "the theorems", REMEDY).theorems:
        if row.name in theorems:
            raise UserError(
                f"{path}: the name {row.name} is used twice. Rename or remove one of the theorems"
            )
        theorems[row.name] = Theorem(row.name, with_colon(row.statement))
    return list(theorems.values())


def with_colon(statement: str) -> str:
    """Return a statement of a file as "BINDERS : TYPE". A type alone, as BurnQED's files have it,
    gets the colon: "∀ p : Prop, p → p" becomes ": ∀ p : Prop, p → p"."""
    outside = "".join(statement[place] for place in guard.outside(statement))
    return statement if _BINDERS.match(outside) else f": {statement.strip()}"


def elaborating(
    theorems: Sequence[Theorem], where: str, lean: Toolchain, config: LeanConstants
) -> list[Theorem]:
    """Return `theorems` if all statements elaborate, or raise UserError. Users can't correct
    miniF2F. So its wrong statements are omitted with a note, unless all are wrong. If Lean times
    out or dies, the statement may be right, so it is kept."""
    found = steps(
        lean, config.NUM_WORKERS, [(theorem.statement, ()) for theorem in theorems], config
    )
    errors = ["" if step.error in PASSING else step.error for step in found]
    kept = [theorem for theorem, error in zip(theorems, errors, strict=True) if not error]
    if len(kept) < len(theorems):
        name, error = next(
            (theorem.name, error) for theorem, error in zip(theorems, errors, strict=True) if error
        )
        why = f"the statement of {name} does not elaborate: {one_line(error, 300)}"
        if not is_minif2f(where) or not kept:
            raise UserError(
                f"{where}: {why}. Correct it (binders, a colon and a type), or use another Mathlib"
            )
        left = len(theorems) - len(kept)
        terminal.say(
            f"note: all rates exclude {left} of {len(theorems)} theorems of {where} (for example, "
            f"{why})"
        )
    return kept


# Files and sources


def fetched(url: str, path: Path, md5: str = "") -> Path:
    """Fetch `url` to `path` if that file is missing, and return `path`. Raises UserError, also if
    the MD5 differs."""
    if not path.exists():
        try:
            with (
                terminal.heartbeat(f"downloading {url}", is_long=True),
                urllib.request.urlopen(url, timeout=SECONDS) as reply,
            ):
                content = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise UserError(
                f"{url} can't be downloaded ({one_line(str(error), 150)}). Run the same command "
                f"again with a network, or download the file elsewhere and save it as {path}"
            ) from None
        files.write_atomically(path, content)
    if md5 and hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() != md5:
        raise UserError(
            f"{path} differs from {url} (its MD5 is not {md5}). Remove it, and run the same "
            "command again"
        )
    return path


def decoded(path: Path, model: Any, what: str, remedy: str, is_lines: bool = False) -> Any:
    """Decode the JSON in `path` as a `model`, or as one `model` in each line with `is_lines`.
    Raises UserError."""
    decoder = msgspec.json.Decoder(model)
    with files.opened(path, what, remedy) as file:
        try:
            return (decoder.decode_lines if is_lines else decoder.decode)(file.read())
        except ValueError as error:
            raise UserError(
                f"{what} {path} can't be read ({one_line(str(error), 200)}). {remedy}"
            ) from None


def theorem_in(source: str) -> tuple[str, str] | None:
    """Return a theorem's name and its statement on one line, or None if `source` is not a theorem
    with a type. The source may begin with attributes and modifiers, and end with a proof. `theorem
    NAME BINDERS : TYPE := by` has the statement "BINDERS : TYPE". The value of a binder, as in `(h
    : p := q)`, is part of the statement."""
    text = _COMMENT.sub(" ", source).lstrip()
    while text.startswith("@["):  # attributes
        closed = next((place for place in guard.outside(text) if text[place] == "]"), len(text))
        text = text[closed + 1 :].lstrip()
    begins = _MODIFIERS.match(text)
    named = begins and _NAME.match(text, begins.end())
    if not named:
        return None
    body = text[named.end() :]
    ends = _NO_PROOF.search(body)
    values = [place for place in guard.outside(body) if body.startswith(":=", place)]
    statement = body[: ends.start() if ends else values[0] if values else len(body)]
    has_type = any(
        statement[place] == ":" and statement[place + 1 :][:1] != "="
        for place in guard.outside(statement)
    )
    return (named["name"], " ".join(statement.split())) if has_type else None


# miniF2F


class Problem(Struct):
    """A line of miniF2F's file: a theorem with its header."""

    name: str
    split: str
    formal_statement: str
    header: str


def is_minif2f(named: str) -> bool:
    return named.partition(":")[0] == MINIF2F


def minif2f(named: str, lean: Toolchain, folder: Path) -> tuple[list[Theorem], Toolchain]:
    """Return the theorems of a split, and `lean` with autoImplicit and the `open` lines that they
    need. A missing file is downloaded to `folder`. Raises UserError, without a download if `lean`
    lacks Mathlib."""
    split = named.partition(":")[2] or SPLITS[0]
    if split not in SPLITS:
        raise UserError(
            f"{named} is not a set of theorems. Use {MINIF2F} (its test problems) or "
            f"{MINIF2F}:valid"
        )
    if not lean.has_mathlib:
        raise UserError(
            f"{named} needs Mathlib. Set LEAN to a lake project with Mathlib, and unset LEAN_HEAD"
        )
    path, remedy = (
        fetched(URL, folder / f"{MINIF2F}.jsonl"),
        "Remove the file, and run the same command again",
    )
    rows = [
        row
        for row in decoded(path, Problem, "miniF2F", remedy, is_lines=True)
        if row.split == split
    ]
    theorems = {row.name: theorem_in(modern(row.formal_statement)) for row in rows}
    if len(theorems) != EACH or not all(theorems.values()):
        raise UserError(f"{path} has not {EACH} theorems of {split} with different names. {remedy}")
    opens = "".join(f"{line}\n" for line in _OPEN.findall(rows[0].header))  # equal in all lines
    found = [Theorem(name, source[1]) for name, source in theorems.items() if source]
    return found, replace(lean, head=lean.head + IMPLICIT + opens)


def modern(statement: str) -> str:
    """Rewrite sums and products over sets in Mathlib's current notation."""
    return _OVER_TYPED.sub(r"\1 \2 ∈ (\4 : Finset \3),", _OVER.sub(r"\1 ∈ ", statement))
