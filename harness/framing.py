"""Frame requests for solutions: a system message, worked examples (shots) as earlier turns, and a
prompt from a file.

Only the requests of class `prompts.Request` are framed. Verifications, selections and plans stay as
they are. The shots for aggregation are worked examples with "candidates", two at most."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from core.base.errors import UserError
from core.base.files import DATA, read_text, storable
from core.constants import AUTO, BOXED, WHOLE, A, Framed
from core.engines.cards import Card
from core.prompts import Request, aggregate, solve
from core.types import CHARACTERS, Message, Problem
from harness.problems.check import check
from harness.problems.columns import cells_of, listed, text_of, understood
from harness.problems.rows import read_rows

OURS = DATA / "shots.json"
# worked aggregations before an aggregation, because each shows several candidates
MOST_AGGREGATIONS = 2
AGGREGATING = "[aggregate]"  # the line of a prompt's file that begins the prompt for aggregation
_PLACE = re.compile(r"\{(problem|candidates)\}")
_NO_PROBLEM = Problem("", "", None)


@dataclass(frozen=True)
class Shot:
    """A problem with the `reply` that solves it, and `candidates` to aggregate (may be empty)."""

    problem: Problem
    reply: str
    candidates: tuple[str, ...] = ()


def worked(row: Mapping[str, Any], way: str) -> str:
    """Return a row's worked solution with a last sentence that states its answer, or "" if one of
    them is missing."""
    solution, answer = (storable(text_of(row.get(name))) for name in ("solution", "answer"))
    if not (solution and answer):
        return ""
    boxed, stated = f"The final answer is \\boxed{{{answer}}}.", f"The answer is {answer}."
    return f"{solution}\n\n{boxed if way in (BOXED, AUTO, WHOLE) else stated}"


class Sources(NamedTuple):
    """The values of SHOTS, SYSTEM and PROMPT that a framing was read from, and the form of the
    answers (ANSWER)."""

    shots: str
    system: str
    prompt: str
    way: str


@dataclass(frozen=True)
class Framing:
    """The text around problems. `solving` and `aggregating` replace the prompts' texts. Empty parts
    change nothing."""

    shots: tuple[Shot, ...] = ()
    system: str = ""
    solving: str = ""
    aggregating: str = ""
    sources: Sources | None = field(default=None, compare=False)

    def frame(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the framed messages. Messages that are no request for a solution are returned
        unchanged."""
        if self == Framing() or not isinstance(messages, Request):
            return messages
        framed: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        count, shots = len(messages.candidates), self.shots
        if count:
            shots = tuple(shot for shot in shots if shot.candidates)[:MOST_AGGREGATIONS]
        for shot in shots:
            framed += self._user(
                Request(messages.several, messages.one, shot.problem, shot.candidates[:count])
            )
            framed.append({"role": "assistant", "content": shot.reply})
        return framed + self._user(messages)

    def _user(self, request: Request) -> list[Message]:
        template = self.aggregating if request.candidates else self.solving
        places = {"problem": request.problem.statement, "candidates": request.shown}
        text = _PLACE.sub(lambda place: places[place[1]], template)
        return [{"role": "user", "content": text}] if template else request

    @property
    def tokens(self) -> int:
        """The approximate number of tokens that this framing adds to the longest request."""
        requests = solve(_NO_PROBLEM), aggregate(_NO_PROBLEM, "abc")
        sizes = [sum(len(each["content"]) for each in self.frame(request)) for request in requests]
        return 0 if self == Framing() else max(sizes) // CHARACTERS

    @property
    def provenance(self) -> dict[str, str | int]:
        """The number of shots and the hash of each part, for results. Unused parts are left out."""
        shots = [[shot.problem.statement, shot.reply, *shot.candidates] for shot in self.shots]
        parts = {"shots": shots, "system": self.system, "prompt": [self.solving, self.aggregating]}
        texts = {
            name: json.dumps(part, ensure_ascii=True).encode()
            for name, part in parts.items()
            if any(part)
        }
        used = {f"{name}_sha256": hashlib.sha256(text).hexdigest() for name, text in texts.items()}
        return ({"shots": len(shots)} if shots else {}) | used

    @property
    def about(self) -> str:
        """A description of the used parts, or "" if none is used."""
        shots = f"{len(self.shots)} worked example{'s' * (len(self.shots) > 1)}"
        parts = {
            shots: self.shots,
            "a system message": self.system,
            "a prompt from a file": self.solving,
        }
        return ", ".join(name for name, part in parts.items() if part)


def of(
    config: A, card: Card, problems: Sequence[Problem] = (), earlier: Framing | None = None
) -> Framing:
    """Return the framing that the constants select, or the card if they are "card".

    If `earlier` was read from the same constants, it is returned, and no file is read again. Raises
    UserError for a missing or invalid file, and for shots that do not fit the `problems`."""
    are_proofs = any(problem.is_proof for problem in problems)
    config = card.framed(config, are_proofs)
    if not isinstance(config, Framed):
        return Framing()
    sources = Sources(config.SHOTS, config.SYSTEM, config.PROMPT, card.way(config))
    framing = earlier
    if framing is None or framing.sources != sources:
        framing = _read_all(sources)
    if framing.shots:
        _check_shots(framing.shots, config.SHOTS, problems)
    return framing


def _read_all(sources: Sources) -> Framing:
    shots = _shots(sources.shots, sources.way)
    system = _system(sources.system)
    solving, aggregating = _prompt(sources.prompt)
    return Framing(shots, system, solving, aggregating, sources)


def _check_shots(shots: Sequence[Shot], value: str, problems: Sequence[Problem]) -> None:
    """Raise UserError if the `shots`, which SHOTS=`value` selects, do not fit the problems."""
    if any(problem.is_proof for problem in problems):
        raise UserError(
            f"SHOTS={value:.300} have answers, but the problems ask for proofs. Set SHOTS=0"
        )
    statements = {problem.statement.strip() for problem in problems}
    for shot in shots:
        if shot.problem.statement in statements:
            raise UserError(
                f"SHOTS={value:.300} shows the answer of a problem of the set (its row "
                f"{shot.problem.id!r:.40}). Use others"
            )


def _shots(value: str, way: str) -> tuple[Shot, ...]:
    """Return the first built-in shots if `value` is a number, else all shots of the file
    `value`."""
    if re.fullmatch(r"\d{1,9}", value):
        shots = _read(OURS, way) if int(value) else ()
        if int(value) > len(shots):
            raise UserError(
                f"SHOTS={value}, but there are {len(shots)} built-in shots. Lower it, or give a "
                "file"
            )
        return shots[: int(value)]
    try:
        return _read(Path(os.path.expanduser(value)), way)
    except UserError as error:
        raise UserError(f"SHOTS={value:.60}: {error}") from None


def _read(path: Path, way: str) -> tuple[Shot, ...]:
    shots = []
    for number, problem in enumerate(check(read_rows(path), str(path)), 1):
        columns = dict(problem.columns)
        candidates = cells_of(columns).get("candidates") or []
        given = candidates if isinstance(candidates, list) else [None]
        replies = [
            worked(each, way) if isinstance(each, Mapping) else ""
            for each in (understood(columns), *given)
        ]
        if problem.is_proof or not all(replies):
            raise UserError(
                f"row {number} of {path} needs an answer and a worked {listed('solution')}. So "
                "does each of its "
                '"candidates", if it has any'
            )
        shots.append(Shot(replace(problem, way=way), replies[0], tuple(replies[1:])))
    return tuple(shots)


def _system(value: str) -> str:
    """Return the text of the file `value`, or `value` itself if it is no path."""
    if os.path.isfile(path := os.path.expanduser(value)) or re.fullmatch(r"\S+\.(txt|md)", value):
        value = read_text(
            Path(path), "the system message (SYSTEM)", "Give its text, or the path of a text file"
        )
    return storable(value.strip())


def _prompt(value: str) -> tuple[str, str]:
    """Return the prompts for solving and for aggregation in the file `value`. A missing prompt is
    ""."""
    if not value:
        return "", ""
    text = read_text(
        Path(os.path.expanduser(value)), "the prompt (PROMPT)", "Give the path of a text file"
    )
    parts = [
        part.strip()
        for part in re.split(rf"(?m)^{re.escape(AGGREGATING)}[ \t]*$", text, maxsplit=1)
    ]
    for part, wanted in zip(parts, ({"problem"}, {"problem", "candidates"}), strict=False):
        if set(_PLACE.findall(part)) != wanted:
            raise UserError(
                f"PROMPT: {value:.200} needs {{problem}}, and no {{candidates}}. A prompt for "
                f"aggregation may follow a line {AGGREGATING}, and needs both"
            )
    return parts[0], "".join(parts[1:])
