"""Read and write rows in Alpaca's shape, as the project QT-R1 uses it: the required form in
`instruction`, the problem in `input`, and in `output` the steps and a line "Final: 42"."""

from collections.abc import Mapping
from typing import Any

from core.base.thinking import split_thinking
from core.constants import AUTO
from core.grading.boxed import stated
from core.grading.final import final_lines, says_nothing
from core.grading.kinds.math import Math
from core.prompts import SOLVE
from harness.problems.columns import NAMES, cells_of
from labs.star.check import check
from labs.star.prompts import FORMAT

INSTRUCTION = (
    "Solve the problem in short steps, one line each, and end with a single line starting "
    "'Final:', followed by the answer alone."
)
MOST = 10_000  # steps
# What follows the problem in our own prompts, up to the first number or the form of the answer.
_TAILS = [each.partition("{problem}")[2].partition("{")[0] for each in (FORMAT, SOLVE.answer)]


def statement_of(instruction: str, more: str = "") -> str:
    """Return the problem in the cells `instruction` and input (`more`). If there is an input, an
    instruction that mentions Final: only describes the form, and is left out. So is the form at the
    end of our own prompts."""
    if more.strip() and "final:" in instruction.lower():
        return more.strip()
    whole = "\n\n".join(filter(None, (instruction.strip(), more.strip())))
    return next((head for tail in _TAILS if (head := whole.rpartition(tail)[0])), whole)


def asked(row: dict[str, Any]) -> dict[str, str]:
    """Return the "problem" of a row in Alpaca's shape, and the "answer" in its last `Final:` line
    ("": none). Return {} for a row of another shape: without instruction or output, or with a
    column for the problem or the answer."""
    cells = cells_of(row)
    instruction, more, solution = (cells.get(name) for name in ("instruction", "input", "output"))
    if (
        not isinstance(instruction, str)
        or not isinstance(solution, str)
        or not isinstance(more, str | None)
    ):
        return {}
    if any(name in cells for ours in ("problem", "answer") for name in NAMES[ours]):
        return {}
    text = split_thinking(solution, None)[1]
    lines = [line for line in final_lines(text) if not says_nothing(line.value)]
    found = stated(text[lines[-1].start : lines[-1].end], Math()) if lines else []
    return {
        "problem": statement_of(instruction, more or ""),
        "answer": (found[-1] if found else None) or "",
    }


def shaped(statement: str, solution: str) -> tuple[Mapping[str, str], str]:
    """Return a row of `statement` and the steps and answer of `solution`, and "". If the solution
    has another form than STaR's traces, return {} and the reason (labs/star/check.py). Thinking is
    left out."""
    text = split_thinking(solution, None)[1]
    checked = check(text, 0, MOST, way=AUTO)
    if checked.reason:
        return {}, checked.reason
    steps = "".join(f"{line.rstrip()}\n" for line in checked.lines)
    answer = Math().read(text, AUTO).answer
    return {"instruction": INSTRUCTION, "input": statement, "output": f"{steps}Final: {answer}"}, ""
