"""Define types with ranges for the fields of JSON files, and convert JSON values to msgspec
models."""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, convert

from core.base.errors import UserError, one_line

Count = Annotated[int, Meta(ge=0, le=10**15)]
Positive = Annotated[int, Meta(ge=1, le=10**15)]
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Share = Annotated[float, Meta(ge=0, le=1)]
Finite = Annotated[float, Meta(ge=-1e308, le=1e308)]
_CHANGE = Meta(ge=-1, le=1, description="a difference of shares")
# as a float alone, too large integers become -1.0
Change = Annotated[int, _CHANGE] | Annotated[float, _CHANGE]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
Filled = Annotated[str, Meta(pattern=r"\S")]  # a text that is not blank

T = TypeVar("T")


def fitted(found: Any, model: type[T], wrong: str, fix: str, of: str = "") -> T:
    """Convert a JSON value to a msgspec model. Raises UserError if the value does not fit. The
    message consists of `wrong`, the part `of` the file, the invalid field and the remedy `fix`."""
    try:
        return convert(found, model)
    # raised by msgspec, by a model's own check, or for a lone surrogate
    except ValueError as error:
        raise UserError(f"{wrong} ({of}{one_line(str(error), 300)}). {fix}") from None
