"""Checks that a scaffold keeps its contract (core/scaffolds/__init__.py), of the breaches that would pass unseen."""

from core.base.errors import UserError
from core.types import Completion, Population


class Contract:
    """The requests and populations of the scaffold called `name` on one problem, of which it may ask `most`
    completions. All methods raise UserError."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._seeds: set[int] = set()  # that were given away
        self._owed: set[str] = set()  # keys of completions that no member has shown yet
        self._members = 0  # of the newest population
        self.total = 0  # completions

    def asking(self, names: tuple[str | int, ...], seed: int) -> None:
        """Check a request before it is sent."""
        if seed in self._seeds:
            self._breach(
                f"asked twice under the names {names}, and would get the same again. Give every request of a problem "
                "names of its own"
            )
        self._seeds.add(seed)

    def got(self, completion: Completion) -> None:
        """Count a completion."""
        self.total += 1
        self._owed.add(completion.key)
        if self.total > self._most:
            self._breach(f"asked for more completions of a problem than its max_completions says ({self._most})")

    def yielded(self, population: Population) -> None:
        """Check a population."""
        if not population:
            self._breach("yielded a population without members")
        for member in population:
            if any(not 0 <= place < self._members for place in member.parents):
                there = f"it has {self._members} members"
                self._breach(f"yielded parents={member.parents}, places in the population before; {there}")
            self._owed.difference_update(each.key for each in (member.completion, *member.side_calls))
        self._members = len(population)

    def ended(self, was_cut: bool = False) -> None:
        """Check what is left at the end. If a budget has `cut` the scaffold off, requests sent ahead may be unshown."""
        if not self._members:
            self._breach("ended without a population: it must yield one at least")
        if self._owed and not was_cut:
            self._breach(
                f"asked for {self.total} completions of a problem and never showed {len(self._owed)} of them: "
                "give each to a member, as its completion or among its side_calls, or nobody counts what it cost"
            )

    def _breach(self, what: str) -> None:
        raise UserError(f"the scaffold {self._name} {what}")
