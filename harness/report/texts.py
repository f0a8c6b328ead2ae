"""Collect the texts of a run from its journals: answers, thinking, side calls, gradings and
prompts.

Texts are packed into the page. Texts that are too large for it are packed into files next to the
page.
"""

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.files import open_unlinked, write_error
from core.client.journal import Archive
from core.types import Completion, Message
from harness.results.model import MemberResult, ProblemResult

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
            record = journals.record(member.key)
            if record is None:
                missing += 1
                sources.append([])
                continue
            own_sources = _sources(f"{t},{i}", record.completion)
            sources.append(own_sources)
            candidates = _of_parents(member, earlier)
            if member.key not in prompts:
                prompts[member.key] = _prompt(record.messages, candidates)
            texts = _Texts(member, record.completion, prompts[member.key])
            tiers["a"][f"{t},{i}"] = texts.answers()
            rest = texts.rest(journals, own_sources, candidates)
            if rest:
                tiers["b"][f"{t},{i}"] = rest
        earlier = sources
    return tiers, missing


def _of_parents(member: MemberResult, earlier: Sequence[Sequence[Source]]) -> list[Source]:
    """Return the sources of a member's parents, which its prompt may contain."""
    sources: list[Source] = []
    for parent in dict.fromkeys(member.parents):
        if parent < len(earlier):
            sources += earlier[parent]
    return sources


@dataclass(frozen=True)
class _Texts:
    """The texts of a member."""

    member: MemberResult
    reply: Completion
    prompt: Prompt

    @property
    def has_short_prompt(self) -> bool:
        for message in self.prompt:
            for piece in message["content"]:
                if isinstance(piece, str):
                    if len(piece) >= SHORT:
                        return False
                elif piece["part"] == "thinking":
                    return False
        return True

    def answers(self) -> dict[str, Any]:
        """Return the texts of tier "a"."""
        texts: dict[str, Any] = {"answer": self.reply.answer}
        if self.reply.forced is not None:
            texts["forced"] = self.reply.forced
        if self.has_short_prompt:
            texts["prompt"] = self.prompt
        return texts

    def rest(
        self, journals: Archive, own_sources: Sequence[Source], candidates: Sequence[Source]
    ) -> dict[str, Any]:
        """Return the texts of tier "b" that are not empty."""
        sources = [*own_sources, *candidates]
        calls = [_side_call(journals, call.key, sources) for call in self.member.side_calls]
        gradings = [
            _side_call(journals, call.key, own_sources) for call in self.member.grading_calls
        ]
        texts: dict[str, Any] = {"thinking": self.reply.thinking, "side_calls": calls}
        if not self.has_short_prompt:
            texts["prompt"] = self.prompt
        texts["gradings"] = gradings
        if self.member.is_proof:
            texts["reasons"] = self.member.reasons
        return {name: value for name, value in texts.items() if value}


def _side_call(journals: Archive, key: str, sources: Sequence[Source]) -> dict[str, Any]:
    record = journals.record(key)
    if record is None:
        return {"text": "(not in the journal)"}
    text = f"{record.completion.thinking}\n\n{record.completion.text}".strip()
    return {"text": text, "prompt": _prompt(record.messages, sources)}


# Prompts contain texts of members. Each text is stored once, and prompts refer to it.


def _sources(reply_name: str, reply: Completion) -> list[Source]:
    """Return the texts of a reply that prompts may contain, the longest first. `reply_name` is
    "step,member"."""
    parts = {"answer": reply.answer, "thinking": reply.thinking, "forced": reply.forced or ""}
    sources: list[Source] = []
    for part, text in parts.items():
        if len(text) >= SHARED:
            sources.append(({"of": reply_name, "part": part}, text))
    return sorted(sources, key=lambda source: -len(source[1]))


def _prompt(messages: Sequence[Message], sources: Sequence[Source]) -> Prompt:
    prompt = []
    for message in messages:
        content = _pieces(message["content"], sources)
        prompt.append({"role": message["role"], "content": content})
    return prompt


def _pieces(content: str, sources: Sequence[Source]) -> list[Piece]:
    """Split `content` at the texts of `sources`, and replace each text by its reference."""
    pieces: list[Piece] = [content]
    for reference, text in sources:
        split: list[Piece] = []
        for piece in pieces:
            if not isinstance(piece, str):
                split.append(piece)
                continue
            first, *rest = piece.split(text)
            split.append(first)
            for part in rest:
                split += [reference, part]
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
        self._folder = folder
        self._room = room
        self.inside: dict[str, dict[str, str]] = {tier: {} for tier in TIERS}

    def add(self, run: int, problem: int, tiers: Tiers) -> None:
        for tier, texts in tiers.items():
            if not texts:
                continue
            id = f"p{run}-{problem}-{tier}"
            text = packed(texts).decode()
            if tier in self.inside:
                self.inside[tier][id] = text
                self._room -= _size(text)
            else:
                self._write(id, text)
        while self._room < 0 and self.inside:
            _, moved = self.inside.popitem()
            for id, text in moved.items():
                self._write(id, text)
                self._room += _size(text)

    def _write(self, id: str, text: str) -> None:
        path = self._folder / f"{id}.js"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(path, "w", encoding="ascii", opener=open_unlinked) as file:
                file.write(f'part("{id}","{text}")\n')
        except OSError as error:
            raise write_error(path, error, "the results are complete") from None


def _size(text: str) -> int:
    """Return the bytes of a text inside the page, with its element."""
    return len(text) + 60
