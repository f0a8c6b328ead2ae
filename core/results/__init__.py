"""Results: records, metrics, and the file that contains them. `load` is for notebooks."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.results.data import Results


def load(name: str, folder: "Path | str | None" = None) -> "Results":
    """Load the results of a run.

    Args:
        name: The name of the results, its beginning, or the path of a .json file.
        folder: The folder of the results. By default, it is the folder that runs write to.

    Returns:
        The results. `print` shows their tables.

    Raises:
        UserError: If there are no such results, or they can't be read.

    Example:
        >>> load("02_rsa", folder)
        <Results of 02_rsa_basic: 3 problems, 36 members>
    """
    from core.base.files import results_dir
    from core.results.data import Results
    from core.results.find import path_of

    return Results(path_of(name, Path(folder) if folder else results_dir()))
