"""Experiments' files: errors of their own lines are one line, and bugs of modules still raise."""

from pathlib import Path

import pytest

from core.base.errors import UserError
from harness.experiment_file import execute
from tests.conftest import ended, python


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("K = tree", "'tree' is not defined"),
        ('N = 4 + "2"', "unsupported operand"),
        ("N = (4", "never closed"),
    ],
)
def test_an_error_in_a_constant_names_its_line(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "02_mine.py"
    path.write_text(f'"""Mine."""\n\n{line}\n')
    with pytest.raises(UserError) as error:
        execute(path)
    assert "02_mine.py, line 3" in str(error.value) and fault in str(error.value)


def test_a_bug_in_a_function_still_raises(tmp_path: Path) -> None:
    path = tmp_path / "02_mine.py"
    path.write_text("def total():\n    return missing\n\n\nN = total()\n")
    with pytest.raises(NameError):
        execute(path)


def test_a_command_ends_with_one_line_and_status_2(tmp_path: Path) -> None:
    path = tmp_path / "02_mine.py"
    path.write_text("K = tree\n")
    status, out, err = ended(python("-m", "harness.experiment_file", str(path), "N=4"))
    assert (status, out) == (2, "")
    assert err.startswith("error: 02_mine.py, line 1 ") and err.count("\n") == 1


def test_a_command_passes_its_words_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "02_mine.py"
    path.write_text('import sys\nif __name__ == "__main__":\n    print(sys.argv[1:], __file__)\n')
    status, out, _ = ended(python("-m", "harness.experiment_file", str(path), "N=4"))
    assert (status, out) == (0, f"['N=4'] {path}\n")
