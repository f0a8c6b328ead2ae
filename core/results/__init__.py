"""Results: records, metrics, the file they are written to and read from. `load` is for notebooks."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.results.data import Results


def load(name: str, folder: "Path | str | None" = None) -> "Results":
    """The results `name` (or its beginning, or the path of a .json file) in `folder`, by default where runs put
    theirs. Raises UserError where there are none, or they can't be read."""
    from core.base.files import results_dir
    from core.results.data import Results
    from core.results.find import path_of

    return Results(path_of(name, Path(folder) if folder else results_dir()))
