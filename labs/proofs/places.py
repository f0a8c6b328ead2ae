"""A prompt with named places, like {problem}: one of ours, or a file's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

from core.base.errors import UserError
from core.base.files import read_text


@dataclass(frozen=True)
class Prompt:
    """A text with named places, and what it is called: the name of one of ours, or of a file."""

    name: str
    text: str

    @property
    def places(self) -> set[str]:
        return {name for _, name, _, _ in Formatter().parse(self.text) if name is not None}


def prompt(named: str, places: Sequence[str], necessary: Sequence[str], ours: Mapping[str, str]) -> Prompt | None:
    """The prompt that PROMPT=`named` asks for: one of `ours`, or a file that has no other `places` than these, and the
    `necessary` ones; None where nothing is named. Raises UserError."""
    if not named:
        return None
    if named in ours:
        return Prompt(named, ours[named])
    others = f", or one of {', '.join(ours)}" if ours else ""
    text = read_text(Path(named).expanduser(), "the prompt", f"Give PROMPT a file{others}")
    known = f"Places are {', '.join(f'{{{place}}}' for place in places)}; a brace that is none is written twice"
    try:
        parsed = [(name, rule or conversion) for _, name, rule, conversion in Formatter().parse(text)]
    except ValueError as error:
        raise UserError(f"the prompt {named}: {error}. {known}") from None
    for name, more in parsed:
        if name is not None and (name not in places or more):
            raise UserError(f"the prompt {named} has an unknown place {{{name:.60}}}. {known}")
    made = Prompt(Path(named).name, text)
    if missing := [place for place in necessary if place not in made.places]:
        raise UserError(f"the prompt {named} has no place {{{missing[0]}}}, and can't do without it. {known}")
    return made
