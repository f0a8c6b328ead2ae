"""Collect the faults of a problem file's rows, and report all of them in one error."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from core.base.errors import RowError, UserError

MOST_PLACES = 5  # rows that an error lists for one fault
MOST_FAULTS = 3  # faults that an error describes


@dataclass
class _Group:
    """The rows of one file with the same fault: the number of each row (or its location), with the
    faulty cell in parentheses."""

    error: RowError  # the first row's error
    noun: str  # "line", "row" or "problem"
    first: int  # number of the first row
    places: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        plural = "s" if self.noun and len(self.places) > 1 else ""
        rows = f"{self.noun}{plural} {listed(self.places)}".strip()
        return f"{self.error.fault} in {rows}. {self.error.advice}"


class Faults:
    """The faults of rows, grouped by file and fault. A location is like "FILE, line 3"."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    @contextmanager
    def caught(self, location: str) -> Iterator[None]:
        """Add the RowError of the block, if it raises one."""
        try:
            yield
        except RowError as error:
            self.add(location, error)

    def add(self, location: str, error: RowError) -> None:
        """Add the fault of the row at `location`."""
        file, noun, place = _parts(location)
        number = int(place) if noun else 0
        group = self._groups.setdefault((file, error.fault), _Group(error, noun, number))
        cell = f" ({error.cell})" if error.cell else ""
        group.places.append(f"{place}{cell}")

    def check(self) -> None:
        """Raise UserError with all faults, if there are any. It names each file once."""
        if not self._groups:
            return
        sentences: list[str] = []
        last_file = None
        ordered = sorted(self._groups.items(), key=lambda item: (item[0][0], item[1].first))
        for (file, _), group in ordered[:MOST_FAULTS]:
            sentence = str(group)
            if file == last_file:
                sentence = sentence[0].upper() + sentence[1:]
            elif file:
                sentence = f"{file}: {sentence}"
            sentences.append(sentence)
            last_file = file
        more = len(ordered) - MOST_FAULTS
        if more > 0:
            sentences.append(
                "There is 1 more fault" if more == 1 else f"There are {more} more faults"
            )
        raise UserError(". ".join(sentences))


def listed(places: list[str]) -> str:
    """Return the first places as text, such as "3, 4 and 6" or "3, 4, 5, 6, 7 and 40 more"."""
    if len(places) == 1:
        return places[0]
    if len(places) <= MOST_PLACES:
        *first, last = places
    else:
        first = places[:MOST_PLACES]
        last = f"{len(places) - MOST_PLACES} more"
    return f"{', '.join(first)} and {last}"


def _parts(location: str) -> tuple[str, str, str]:
    """Return the file, the noun and the number of a location. A location of another form becomes
    the number."""
    file, _, place = location.rpartition(", ")
    match = re.fullmatch(r"(line|row|problem) ([0-9]+)", place)
    if match:
        return file, match[1], match[2]
    return "", "", location
