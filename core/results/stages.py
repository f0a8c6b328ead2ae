"""Record the stages of a run in one JSON file, from which the same command resumes.

A stage is recorded once its files are complete. Requests within a stage are in the journal.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from core.base.files import make_folder, write_atomically
from core.results.write import now, put_aside

NAME = "record.json"  # in the folder of a run


@dataclass
class Record:
    """The record of a run. A run without `rounds` keeps its stages in `head`."""

    own: Path  # the folder of the run
    head: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)  # the stages of each round by name

    STAGES: ClassVar[tuple[str, ...]] = ()  # in their order; other stages drop none and are never dropped
    PRODUCTS: ClassVar[Mapping[str, str]] = {}  # by stage: the field that later stages follow from
    AT_END: ClassVar[tuple[str, ...]] = ()  # fields of `head` that only a finished run has

    @classmethod
    def begin(
        cls,
        own: Path,
        head: dict[str, Any],
        read: Callable[[Path], Self],
        update: Mapping[str, Any],
        others: str,
        files: Iterable[Path] = (),
    ) -> Self:
        """Begin the run that `head` describes, or resume it if the record in `own` has the same field "run".

        A resumed record is `read`, and `update` replaces fields of its head. The folder of another run is renamed, with
        its `files`, and a note names it and `others`, the inputs that may differ. Raises UserError.
        """
        if (path := own / NAME).exists():
            old = read(path)
            if old.head.get("run") == head["run"]:
                old.head |= update
                return old
            kept = put_aside(own, old.head.get("started"), files)
            print(f"note: {own} was another run (other constants, {others} or model); it is kept as {kept}")
        make_folder(own)
        return cls(own, head)

    @property
    def path(self) -> Path:
        return self.own / NAME

    def stage(self, name: str, number: int | None = None) -> dict[str, Any]:
        """Return the outcome of a stage, of round `number` if there are rounds. It is empty until the stage is done."""
        found: dict[str, Any] = self._part(number).get(name, {})
        return found

    def done(self, name: str, outcome: Mapping[str, Any], number: int | None = None, complete: bool = False) -> None:
        """Record the `outcome` of a stage. If it is new or its product changed, drop later stages and rounds."""
        old, product = self.stage(name, number), self.PRODUCTS.get(name)
        if number == len(self.rounds):
            self.rounds.append({"round": number})
        part = self._part(number)
        if not old or (product and old.get(product) != outcome[product]):
            for later in self.STAGES[self.STAGES.index(name) + 1 :] if name in self.STAGES else ():
                part.pop(later, None)
            if number is not None:
                del self.rounds[number + 1 :]
            for ending in self.AT_END:
                self.head.pop(ending, None)
        part[name] = dict(outcome)
        self.save(complete)

    def save(self, complete: bool, **head: Any) -> None:
        """Write the record, with more fields for its `head`. Raises UserError."""
        self.head |= {"complete": complete, "ended": now(), **head}
        content = json.dumps(self.head | ({"rounds": self.rounds} if self.rounds else {}), indent=1)
        write_atomically(self.path, f"{content}\n".encode())

    def _part(self, number: int | None) -> dict[str, Any]:
        if number is None:
            return self.head
        return self.rounds[number] if number < len(self.rounds) else {}
