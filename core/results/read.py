"""Results files, read in one place: checked, typed, and problem by problem.

A file may come from anyone, and so every value that is used is checked by the models of core/results/model.py. A file
with a wrong value is refused in one line. Of a file of a million completions, one problem is in memory at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import convert

from core.base.errors import UserError
from core.base.fields import fitted
from core.base.files import parse_json, read_lines
from core.results.model import SCHEMA, Head, Origins, ProblemResult, StepResult

START, END = ' "problems": [\n', " ]\n"  # the lines around the problems, as core/results/write.py lays a file out
FIX = "Move the file away and run it again"
WRONG = "is not a results file of this project"


def read(path: Path) -> tuple[Head, Iterator[ProblemResult]]:
    """Everything but "problems", and the problems one by one. Raises UserError where the file can't be read or is no
    results file of schema 1; of the problems, as they come."""
    with refusing(path):
        head, problems = parsed(path)
        return _head(path, head), _checked(path, problems)


def parsed(path: Path) -> tuple[dict[str, Any], Iterator[Any]]:
    """The same as it stands in the file, unchecked. A file that is laid out otherwise is read whole. Raises UserError
    where it can't be read or is no JSON, and TypeError or ValueError where the JSON is no object with problems."""
    lines = read_lines(path, "results", FIX)
    before: list[str] = []
    for line in lines:
        if line == START:
            return dict(_json(path, [*before, '"problems": []}'])), _problems(path, lines)
        before.append(line)
    whole = dict(_json(path, before))
    return whole, iter(whole.pop("problems", []))


def _problems(path: Path, rest: Iterator[str]) -> Iterator[Any]:
    lines: list[str] = []
    for line in rest:
        if lines and (line == END or line.startswith("  {")):
            yield _json(path, ["".join(lines).rstrip(",\n")])
            lines.clear()
        if line == END:
            return
        lines.append(line)
    raise UserError(f"results {path} end in the middle. {FIX}")


def _json(path: Path, lines: list[str]) -> Any:
    return parse_json("".join(lines), f"results {path}", FIX)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Raise UserError if code that reads the unchecked JSON of the results in `path` fails."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path} {WRONG} ({type(error).__name__}: {error})") from None


def _checked(path: Path, problems: Iterator[Any]) -> Iterator[ProblemResult]:
    for number, problem in enumerate(problems, 1):
        yield fitted(problem, ProblemResult, f"{path} {WRONG}", FIX, f"problem {number}: ")


def _head(path: Path, head: dict[str, Any]) -> Head:
    schema = head["schema"]
    if schema is True or schema != SCHEMA:
        raise UserError(f"results {path} have schema {schema!r:.40}; this version reads {SCHEMA}")
    fitted(head, Origins, f"{path} {WRONG}", FIX)
    return fitted(head, Head, f"{path} {WRONG}", FIX)


def step_result(step: dict[str, Any]) -> StepResult:
    """Check a step of a problem as a results file has it. Raises ValueError."""
    return convert(step, StepResult)
