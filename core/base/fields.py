"""Types of the fields in files of JSON, with their ranges, and the error for a file that does not fit its model."""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, convert

from core.base.errors import UserError, one_line

Count = Annotated[int, Meta(ge=0, le=10**15)]
Positive = Annotated[int, Meta(ge=1, le=10**15)]
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Share = Annotated[float, Meta(ge=0, le=1)]
_CHANGE = Meta(ge=-1, le=1, description="a difference of shares")
Change = Annotated[int, _CHANGE] | Annotated[float, _CHANGE]  # msgspec reads an integer too large for a float as -1.0
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
Filled = Annotated[str, Meta(pattern=r"\S")]  # a text that is not blank

T = TypeVar("T")


def fitted(found: Any, model: type[T], wrong: str, fix: str, of: str = "") -> T:
    """Convert a JSON value to a model. Raises UserError: `wrong`, the field (in the part `of` the file), and `fix`."""
    try:
        return convert(found, model)
    except ValueError as error:  # from msgspec, from a model, or from half a surrogate pair
        raise UserError(f"{wrong} ({of}{one_line(str(error), 300)}). {fix}") from None
