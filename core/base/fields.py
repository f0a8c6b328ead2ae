"""Define types with ranges for the fields of JSON files, and convert JSON values to msgspec
models."""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, convert

from core.base.errors import UserError, one_line

LARGEST = 1_000_000_000_000_000
_COUNT = Meta(ge=0, le=LARGEST)
_POSITIVE = Meta(ge=1, le=LARGEST)
_AMOUNT = Meta(ge=0, le=1e15)
_SHARE = Meta(ge=0, le=1)
_FINITE = Meta(ge=-1e308, le=1e308)
_CHANGE = Meta(ge=-1, le=1, description="a difference of shares")

Count = Annotated[int, _COUNT]
Positive = Annotated[int, _POSITIVE]
Amount = Annotated[float, _AMOUNT]
Share = Annotated[float, _SHARE]
Finite = Annotated[float, _FINITE]
_WHOLE_CHANGE = Annotated[int, _CHANGE]  # as a float alone, too large integers become -1.0
_PART_CHANGE = Annotated[float, _CHANGE]
Change = _WHOLE_CHANGE | _PART_CHANGE
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
Filled = Annotated[str, Meta(pattern=r"\S")]  # a text that is not blank

T = TypeVar("T")


def fitted(value: Any, model: type[T], wrong: str, fix: str, part: str = "") -> T:
    """Convert a JSON value to a msgspec model. Raises UserError if the value does not fit. The
    message consists of `wrong`, the `part` of the file, the invalid field and the remedy `fix`."""
    try:
        return convert(value, model)
    # raised by msgspec, by a model's own check, or for a lone surrogate
    except ValueError as error:
        reason = one_line(str(error), 300)
        raise UserError(f"{wrong} ({part}{reason}). {fix}") from None
