"""The page's scripts and styles have lines of at most 100 columns, as prettier formats them.

CONTRIBUTING.md names the command that formats them. It needs node, which not every machine has.
"""

from pathlib import Path

import pytest

from tests.conftest import ROOT

COLUMNS = 100
LINES = 400
FILES = sorted(
    path
    for folder in (ROOT / "harness/report/web", *ROOT.glob("labs/*/web"))
    for path in folder.iterdir()
    if path.suffix in (".js", ".css")
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_scripts_and_styles_are_narrow_and_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    wide = [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS]
    assert not wide, f"{path}: lines {wide} have more than {COLUMNS} columns"
    assert len(lines) <= LINES, path
