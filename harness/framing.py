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

from core.base.errors import RowError, UserError
from core.base.files import DATA, read_text, storable
from core.constants import AUTO, BOXED, WHOLE, A, Framed
from core.engines.cards import Card
from core.prompts import Request, aggregate, solve
from core.types import CHARACTERS, Message, Problem
from harness.problems.check import check
from harness.problems.columns import cells_of, column_names, fields_of, text_of
from harness.problems.faults import Faults
from harness.problems.rows import read_rows

OURS = DATA / "shots.json"
# worked aggregations before an aggregation, because each shows several candidates
MAX_AGGREGATIONS = 2
AGGREGATING = "[aggregate]"  # the line of a prompt's file that begins the prompt for aggregation
NO_SOLUTION = "an answer or a worked solution is missing"
ADVICE = (
    f"Add both, the solution as {column_names('solution')}. If a row has candidates, each of them "
    "needs both, too"
)
_PLACEHOLDER = re.compile(r"\{(problem|candidates)\}")
_EMPTY_PROBLEM = Problem("", "", None)


@dataclass(frozen=True)
class Shot:
    """A problem with the `reply` that solves it, and `candidates` to aggregate (may be empty)."""

    problem: Problem
    reply: str
    candidates: tuple[str, ...] = ()


def worked(row: Mapping[str, Any], answer_form: str) -> str:
    """Return a row's worked solution with a last sentence that states its answer, or "" if one of
    them is missing."""
    solution = storable(text_of(row.get("solution")))
    answer = storable(text_of(row.get("answer")))
    if not (solution and answer):
        return ""
    if answer_form in (BOXED, AUTO, WHOLE):
        return f"{solution}\n\nThe final answer is \\boxed{{{answer}}}."
    return f"{solution}\n\nThe answer is {answer}."


class Sources(NamedTuple):
    """The values of SHOTS, SYSTEM and PROMPT that a framing was read from, and the form of the
    answers (ANSWER)."""

    shots: str
    system: str
    prompt: str
    answer_form: str


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
        framed: list[Message] = []
        if self.system:
            framed.append({"role": "system", "content": self.system})
        count = len(messages.candidates)
        shots = self.shots
        if count:
            shots = tuple(shot for shot in shots if shot.candidates)[:MAX_AGGREGATIONS]
        for shot in shots:
            candidates = shot.candidates[:count]
            framed += self._user(
                Request(messages.several, messages.single, shot.problem, candidates)
            )
            framed.append({"role": "assistant", "content": shot.reply})
        return framed + self._user(messages)

    def _user(self, request: Request) -> list[Message]:
        """Return the user's message of a request, in the words of the file's prompt if there is
        one."""
        template = self.aggregating if request.candidates else self.solving
        if not template:
            return request
        values = {"problem": request.problem.statement, "candidates": request.candidates_text}
        text = _PLACEHOLDER.sub(lambda match: values[match[1]], template)
        return [{"role": "user", "content": text}]

    @property
    def tokens(self) -> int:
        """The approximate number of tokens that this framing adds to the longest request."""
        if self == Framing():
            return 0
        requests = (solve(_EMPTY_PROBLEM), aggregate(_EMPTY_PROBLEM, "abc"))
        return max(_characters(self.frame(request)) for request in requests) // CHARACTERS

    @property
    def provenance(self) -> dict[str, str | int]:
        """The number of shots and the hash of each part, for results. Unused parts are left out."""
        shots = [[shot.problem.statement, shot.reply, *shot.candidates] for shot in self.shots]
        parts = {"shots": shots, "system": self.system, "prompt": [self.solving, self.aggregating]}
        provenance: dict[str, str | int] = {"shots": len(shots)} if shots else {}
        for name, part in parts.items():
            if any(part):
                content = json.dumps(part, ensure_ascii=True).encode()
                provenance[f"{name}_sha256"] = hashlib.sha256(content).hexdigest()
        return provenance

    @property
    def description(self) -> str:
        """A description of the used parts, or "" if none is used."""
        parts: list[str] = []
        if self.shots:
            plural = "s" if len(self.shots) > 1 else ""
            parts.append(f"{len(self.shots)} worked example{plural}")
        if self.system:
            parts.append("a system message")
        if self.solving:
            parts.append("a prompt from a file")
        return ", ".join(parts)


def _characters(messages: Sequence[Message]) -> int:
    return sum(len(message["content"]) for message in messages)


def from_config(
    config: A, card: Card, problems: Sequence[Problem] = (), earlier: Framing | None = None
) -> Framing:
    """Return the framing that the constants select, or the card if they are "card".

    If `earlier` was read from the same constants, it is returned, and no file is read again. Raises
    UserError for a missing or invalid file, and for shots that do not fit the `problems`."""
    are_proofs = any(problem.is_proof for problem in problems)
    config = card.framed(config, are_proofs)
    if not isinstance(config, Framed):
        return Framing()
    sources = Sources(config.SHOTS, config.SYSTEM, config.PROMPT, card.answer_form(config))
    framing = earlier
    if framing is None or framing.sources != sources:
        framing = _read_all(sources)
    if framing.shots:
        _check_shots(framing.shots, config.SHOTS, problems)
    return framing


def _read_all(sources: Sources) -> Framing:
    shots = _shots(sources.shots, sources.answer_form)
    system = _system(sources.system)
    solving, aggregating = _prompts(sources.prompt)
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


def _shots(value: str, answer_form: str) -> tuple[Shot, ...]:
    """Return the first built-in shots if `value` is a number, else all shots of the file
    `value`."""
    if re.fullmatch(r"\d{1,9}", value):
        return _built_in(value, answer_form)
    try:
        return _read(Path(os.path.expanduser(value)), answer_form)
    except UserError as error:
        raise UserError(f"SHOTS={value:.60}: {error}") from None


def _built_in(value: str, answer_form: str) -> tuple[Shot, ...]:
    count = int(value)
    if count == 0:
        return ()
    shots = _read(OURS, answer_form)
    if count > len(shots):
        raise UserError(
            f"SHOTS={value}, but there are {len(shots)} built-in shots. Lower it, or give a file"
        )
    return shots[:count]


def _read(path: Path, answer_form: str) -> tuple[Shot, ...]:
    """Read the shots of a file. Raises UserError with all rows without a worked solution."""
    shots = []
    faults = Faults()
    rows = read_rows(path)
    for (location, _), problem in zip(rows, check(rows, str(path)), strict=True):
        replies = _replies(problem, answer_form)
        if problem.is_proof or not all(replies):
            faults.add(location, RowError(NO_SOLUTION, ADVICE))
            continue
        reply, *candidates = replies
        shots.append(Shot(replace(problem, answer_form=answer_form), reply, tuple(candidates)))
    faults.check()
    return tuple(shots)


def _replies(problem: Problem, answer_form: str) -> list[str]:
    """Return the worked solution of a row, then its candidates'. Missing ones are ""."""
    columns = dict(problem.columns)
    candidates = cells_of(columns).get("candidates") or []
    if not isinstance(candidates, list):
        candidates = [None]
    fields = fields_of(columns) | {"answer": problem.answer}  # the letter of a choice
    replies = [worked(fields, answer_form)]
    for candidate in candidates:
        row = candidate if isinstance(candidate, Mapping) else {}
        replies.append(worked(row, answer_form))
    return replies


def _system(value: str) -> str:
    """Return the text of the file `value`, or `value` itself if it is no path."""
    path = os.path.expanduser(value)
    if os.path.isfile(path) or re.fullmatch(r"\S+\.(txt|md)", value):
        value = read_text(
            Path(path), "the system message (SYSTEM)", "Give its text, or the path of a text file"
        )
    return storable(value.strip())


def _prompts(value: str) -> tuple[str, str]:
    """Return the prompts for solving and for aggregation in the file `value`. A missing prompt is
    ""."""
    if not value:
        return "", ""
    path = Path(os.path.expanduser(value))
    text = read_text(path, "the prompt (PROMPT)", "Give the path of a text file")
    line = rf"(?m)^{re.escape(AGGREGATING)}[ \t]*$"
    parts = [part.strip() for part in re.split(line, text, maxsplit=1)]
    placeholders = [set(_PLACEHOLDER.findall(part)) for part in parts]
    wanted = [{"problem"}, {"problem", "candidates"}]
    if placeholders != wanted[: len(parts)]:
        raise UserError(
            f"PROMPT: {value:.200} needs {{problem}}, and no {{candidates}}. A prompt for "
            f"aggregation may follow a line {AGGREGATING}, and needs both"
        )
    return parts[0], parts[1] if len(parts) > 1 else ""
