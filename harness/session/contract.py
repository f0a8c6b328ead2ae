"""Check most rules for scaffolds in harness/scaffolds/__init__.py. No other code of a run detects
these errors."""

from core.base.errors import UserError
from core.types import Completion, Population


class Contract:
    """A check of the scaffold `name` on one problem, by its completions and populations.

    `max_completions` is the scaffold's limit. All methods raise UserError if the scaffold breaks a
    rule. `asked` has the names of all completions."""

    def __init__(self, name: str, max_completions: int) -> None:
        self._name = name
        self._max_completions = max_completions
        self.asked: set[tuple[str, ...]] = set()  # as text, because 1 and "1" have one seed
        self._owed: set[str] = set()  # keys of completions that no member contains yet
        self._members = 0  # size of the newest population

    def got(self, completion: Completion, names: tuple[str | int, ...]) -> None:
        texts = tuple(map(str, names))
        if texts in self.asked:
            self._breach(
                f"asked twice with the names {names}. Give each request of a problem different "
                "names"
            )
        self.asked.add(texts)
        self._owed.add(completion.key)
        if len(self.asked) > self._max_completions:
            self._breach(
                "asked for more completions per problem than its max_completions "
                f"({self._max_completions})"
            )

    def yielded(self, population: Population) -> None:
        if not population:
            self._breach("yielded a population without members")
        for member in population:
            if any(not 0 <= parent < self._members for parent in member.parents):
                self._breach(
                    f"yielded parents={member.parents}, but the last population has "
                    f"{self._members} members"
                )
            for completion in (member.completion, *member.side_calls):
                self._owed.discard(completion.key)
        self._members = len(population)

    def ended(self, was_cut: bool = False) -> None:
        """Check that there is a population. Unless `was_cut`, also check that members contain all
        completions."""
        if not self._members:
            self._breach("ended without a population. It must yield at least one population")
        if self._owed and not was_cut:
            lost = (
                f"{len(self._owed)} of them are in no member. Put each into a member's completion "
                "or side_calls"
            )
            self._breach(f"asked for {len(self.asked)} completions of a problem, but {lost}")

    def _breach(self, text: str) -> None:
        raise UserError(f"the scaffold {self._name} {text}")
