"""Types of the fields in files of JSON, with their ranges, and one line for a file that does not fit its model."""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, convert

from core.base.errors import UserError, one_line

Count = Annotated[int, Meta(ge=0, le=10**15)]
Positive = Annotated[int, Meta(ge=1, le=10**15)]
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Share = Annotated[float, Meta(ge=0, le=1)]
_CHANGE = Meta(ge=-1, le=1, description="a difference of shares")
Change = Annotated[int, _CHANGE] | Annotated[float, _CHANGE]  # msgspec takes an integer that no float holds for -1.0
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
Filled = Annotated[str, Meta(pattern=r"\S")]  # a text that is not blank

T = TypeVar("T")


def fitted(found: Any, model: type[T], wrong: str, fix: str, of: str = "") -> T:
    """Convert a value of JSON to a model. Raises UserError if it does not fit: `wrong`, the field, and the `fix`. `of`:
    the part of a file that the value is."""
    try:
        return convert(found, model)
    except ValueError as error:  # of msgspec, of a model, or of half a character
        raise UserError(f"{wrong} ({of}{one_line(str(error), 300)}). {fix}") from None
