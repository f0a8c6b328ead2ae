"""What a scaffold has to keep to (core/scaffolds/__init__.py), checked while it runs: each breach is one line that says
what to mend."""

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from core.base.errors import UserError
from core.types import Completion, Member, Message, Population, Sampling, are_messages

FIELDS = vars(Sampling())


class Contract:
    """Of the scaffold called `name` on one problem, of which it may ask `most` completions. All methods raise
    UserError."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._seeds: set[int] = set()  # that were given away
        self._owed: set[str] = set()  # keys of completions that no member has shown yet
        self._members: int | None = None  # of the newest population
        self.total = 0  # completions

    def populations(self, running: Any) -> AsyncIterator[Population]:
        """What `run` gave: it has to yield."""
        if not hasattr(running, "__aiter__"):
            if inspect.iscoroutine(running):
                running.close()
            raise UserError(f'the scaffold {self._name} is no async generator: write "async def" and yield in it')
        found: AsyncIterator[Population] = running
        return found

    def asking(
        self, messages: Sequence[Message], names: tuple[str | int, ...], changes: Mapping[str, Any], seed: int
    ) -> None:
        """It is about to ask."""
        if not messages or not are_messages(messages):
            self._breach(
                f'asked with {messages!r:.60}: give a list of messages, [{{"role": "user", "content": "…"}}], as '
                "core/scaffolds/prompts.py makes them"
            )
        if not names or not all(isinstance(name, str | int) for name in names):
            self._breach(f"asked under the names {names!r:.60}: give texts and whole numbers, such as step and member")
        if unknown := changes.keys() - FIELDS.keys():
            self._breach(f"asked with {min(unknown)}=…, which is no field of Sampling: {', '.join(FIELDS)}")
        if seed in self._seeds:
            self._breach(
                f"asked twice under the names {names}, and would get the same again. Give every request of a problem "
                "names of its own"
            )
        self._seeds.add(seed)

    def got(self, completion: Completion) -> None:
        """It has an answer."""
        self.total += 1
        self._owed.add(completion.key)
        if self.total > self._most:
            self._breach(f"asked for more completions of a problem than its max_completions says ({self._most})")

    def yielded(self, population: Population) -> None:
        """It has yielded."""
        is_list = isinstance(population, Sequence) and all(isinstance(member, Member) for member in population)
        if not is_list:
            self._breach(f"yielded {population!r:.60}: a population is a list of members, [Member(completion), …]")
        if not population:
            self._breach("yielded a population without members")
        for member in population:
            if any(not isinstance(place, int) or not 0 <= place < (self._members or 0) for place in member.parents):
                there = "there is none" if self._members is None else f"it has {self._members} members"
                self._breach(f"yielded parents={member.parents}, places in the population before; {there}")
            self._owed.difference_update(each.key for each in (member.completion, *member.side_calls))
        self._members = len(population)

    def ended(self, was_cut: bool = False) -> None:
        """It has come to its end, or `was_cut` off by a budget, with what it had asked for ahead."""
        if self._members is None:
            self._breach("ended without a population: it must yield one at least")
        if self._owed and not was_cut:
            self._breach(
                f"asked for {self.total} completions of a problem and never showed {len(self._owed)} of them: "
                "give each to a member, as its completion or among its side_calls, or nobody counts what it cost"
            )

    def _breach(self, what: str) -> None:
        raise UserError(f"the scaffold {self._name} {what}")
