"""Collect the texts of a run from its journals: answers, thinking, side calls, gradings and
prompts.

Texts are packed into the page. Texts that are too large for it are packed into files next to the
page.
"""

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base.files import open_own, trouble
from core.client.journal import Archive
from core.types import Completion, Message
from harness.results.model import ProblemResult

TIERS = ("a", "b")  # a: answers, short prompts and texts for graders, b: all other texts
SHORT = 2000  # a prompt in tier "a" has only pieces with fewer characters, and no thinking
SHARED = 60  # characters of the shortest text that a prompt stores as a reference

Piece = str | dict[str, str]  # a text, or a reference: "of" is "step,member", "part" names its text
Prompt = list[dict[str, Any]]  # messages: "role", and "content" in pieces
Source = tuple[dict[str, str], str]  # a reference and its text
# by tier, then by "step,member", and in tier "a" also by "problem"
Tiers = dict[str, dict[str, dict[str, Any]]]


def of_problem(problem: ProblemResult, journals: Archive) -> tuple[Tiers, int]:
    """Collect the texts of `problem` from `journals`. Return them, and count the members that are
    in no journal."""
    tiers: Tiers = {tier: {} for tier in TIERS}
    if problem.graded_by:
        tiers["a"]["problem"] = problem.graded_by
    prompts: dict[str, Prompt] = {}  # by key, because a carried-over member has one request
    missing = 0
    earlier: list[list[Source]] = []
    for t, step in enumerate(problem.steps):
        sources: list[list[Source]] = []
        for i, member in enumerate(step.members):
            found = journals.record(member.key)
            sources.append(_sources(f"{t},{i}", found.completion) if found else [])
            if found is None:
                missing += 1
                continue
            reply, messages = found.completion, found.messages
            shown = [
                each
                for j in dict.fromkeys(member.parents)
                if j < len(earlier)
                for each in earlier[j]
            ]
            prompt = prompts.setdefault(member.key, _prompt(messages, shown))
            pieces = [piece for message in prompt for piece in message["content"]]
            is_short = all(
                len(p) < SHORT if isinstance(p, str) else p["part"] != "thinking" for p in pieces
            )
            answers = {
                "answer": reply.answer,
                "forced": reply.forced,
                "prompt": prompt if is_short else None,
            }
            more: dict[str, Any] = {
                "thinking": reply.thinking,
                "side_calls": [
                    _side_call(journals, call.key, [*sources[i], *shown])
                    for call in member.side_calls
                ],
                "prompt": None if is_short else prompt,
                "gradings": [
                    _side_call(journals, call.key, sources[i]) for call in member.grading_calls
                ],
                "reasons": member.reasons if member.is_proof else [],
            }
            tiers["a"][f"{t},{i}"] = {
                name: value for name, value in answers.items() if value is not None
            }
            if rest := {name: value for name, value in more.items() if value}:
                tiers["b"][f"{t},{i}"] = rest
        earlier = sources
    return tiers, missing


def _side_call(journals: Archive, key: str, sources: Sequence[Source]) -> dict[str, Any]:
    if (found := journals.record(key)) is None:
        return {"text": "(not in the journal)"}
    text = f"{found.completion.thinking}\n\n{found.completion.text}".strip()
    return {"text": text, "prompt": _prompt(found.messages, sources)}


# Prompts contain texts of members. Each text is stored once, and prompts refer to it.


def _sources(at: str, reply: Completion) -> list[Source]:
    parts = {"answer": reply.answer, "thinking": reply.thinking, "forced": reply.forced or ""}
    found = [
        ({"of": at, "part": part}, text) for part, text in parts.items() if len(text) >= SHARED
    ]
    return sorted(found, key=lambda source: -len(source[1]))


def _prompt(messages: Sequence[Message], sources: Sequence[Source]) -> Prompt:
    return [
        {"role": each["role"], "content": _pieces(each["content"], sources)} for each in messages
    ]


def _pieces(content: str, sources: Sequence[Source]) -> list[Piece]:
    """Split `content` at the texts of `sources`, and replace each text by its reference."""
    pieces: list[Piece] = [content]
    for reference, text in sources:
        split: list[Piece] = []
        for piece in pieces:
            first, *rest = piece.split(text) if isinstance(piece, str) else [piece]
            split += [first, *(each for part in rest for each in (reference, part))]
        pieces = split
    return [piece for piece in pieces if piece != ""]


# Packing


def packed(value: Any) -> bytes:
    """Pack a value as gzipped JSON in base64, which is safe inside HTML."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(text, 6, mtime=0))


class Parts:
    """The packed texts of a page, by tier and id. The id "p0-12-a" means run 0, problem 12, tier a.

    If the tiers exceed `room` bytes, tier b moves into `folder`, then tier a. Each id becomes a
    script there.
    """

    def __init__(self, folder: Path, room: float) -> None:
        self._folder, self._room = folder, room
        self.inside: dict[str, dict[str, str]] = {tier: {} for tier in TIERS}

    def add(self, run: int, problem: int, tiers: Tiers) -> None:
        for tier, kept in tiers.items():
            if kept:
                id, text = f"p{run}-{problem}-{tier}", packed(kept).decode()
                if tier in self.inside:
                    self.inside[tier][id] = text
                    self._room -= len(text) + 60
                else:
                    self._write(id, text)
        while self._room < 0 and self.inside:
            for id, text in self.inside.popitem()[1].items():
                self._write(id, text)
                self._room += len(text) + 60

    def _write(self, id: str, text: str) -> None:
        path = self._folder / f"{id}.js"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(path, "w", encoding="ascii", opener=open_own) as file:
                file.write(f'part("{id}","{text}")\n')
        except OSError as error:
            raise trouble(path, error, "the results are complete") from None
