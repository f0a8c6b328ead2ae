"""Record the stages of a run in one JSON file, from which the same command resumes.

A stage is recorded once its files are complete. Requests within a stage are in the journal.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from core.base.files import make_folder, write_atomically
from harness.results.write import now, put_aside

NAME = "record.json"  # file name in the folder of a run


@dataclass
class Record:
    """The record of a run. The stages of a round are in `rounds`, and stages without a round are in
    `head`."""

    run_folder: Path  # the folder of the run
    head: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)  # the stages of each round by name

    # in order. Other stages neither drop stages of their round nor are dropped
    STAGES: ClassVar[tuple[str, ...]] = ()
    PRODUCTS: ClassVar[Mapping[str, str]] = {}  # by stage: the field on which later stages depend
    AT_END: ClassVar[tuple[str, ...]] = ()  # fields of `head` that exist only in a finished run

    @classmethod
    def begin(
        cls,
        run_folder: Path,
        head: dict[str, Any],
        read: Callable[[Path], Self],
        update: Mapping[str, Any],
        others: str,
        files: Iterable[Path] = (),
    ) -> Self:
        """Begin the run that `head` describes, or resume it if the record in `run_folder` has the
        same field "run".

        `read` loads the record to resume, and `update` replaces fields of its head. Another run's
        folder is renamed, and `files` are moved into it. A note names the inputs `others` that may
        differ. Raises UserError.
        """
        path = run_folder / NAME
        if path.exists():
            record = read(path)
            if record.head.get("run") == head["run"]:
                record.head |= update
                return record
            renamed = put_aside(run_folder, files)
            print(
                f"note: {run_folder} belonged to another run (other constants, {others} or model). "
                f"The folder is now {renamed}"
            )
        make_folder(run_folder)
        return cls(run_folder, head)

    @property
    def path(self) -> Path:
        return self.run_folder / NAME

    def stage(self, name: str, number: int | None = None) -> dict[str, Any]:
        """Return the outcome of a stage, in round `number` if it belongs to one. Before the stage
        ends, return {}."""
        outcome: dict[str, Any] = self._part(number).get(name, {})
        return outcome

    def done(
        self,
        name: str,
        outcome: Mapping[str, Any],
        number: int | None = None,
        complete: bool = False,
    ) -> None:
        """Record a stage's `outcome`. If it is new or has a new product, drop later stages, later
        rounds and AT_END."""
        earlier = self.stage(name, number)
        product = self.PRODUCTS.get(name)
        if number == len(self.rounds):
            self.rounds.append({"round": number})
        if not earlier or (product and earlier.get(product) != outcome[product]):
            self._drop_after(name, number)
        self._part(number)[name] = dict(outcome)
        self.save(complete)

    def _drop_after(self, name: str, number: int | None) -> None:
        """Remove the stages after `name`, the rounds after `number`, and AT_END."""
        part = self._part(number)
        if name in self.STAGES:
            following = self.STAGES.index(name) + 1
            for later in self.STAGES[following:]:
                part.pop(later, None)
        if number is not None:
            del self.rounds[number + 1 :]
        for ending in self.AT_END:
            self.head.pop(ending, None)

    def save(self, complete: bool, **head: Any) -> None:
        """Add `complete`, the time and the fields of `head` to the head, and write the record.
        Raises UserError."""
        self.head |= {"complete": complete, "ended": now(), **head}
        content = dict(self.head)
        if self.rounds:
            content["rounds"] = self.rounds
        write_atomically(self.path, f"{json.dumps(content, indent=1)}\n".encode())

    def _part(self, number: int | None) -> dict[str, Any]:
        """Return the stages of round `number`, or the head."""
        if number is None:
            return self.head
        if number < len(self.rounds):
            return self.rounds[number]
        return {}
