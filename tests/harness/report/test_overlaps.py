"""Equal curves stay visible, and names of points do not lie on the axis."""

from pathlib import Path
from typing import Any

import pytest

from harness.report import plot
from harness.report.overlaps import BAND
from tests.helpers import documents

DIFFERENCES = [{"difference": 0.0, "low": -0.5, "high": 0.5}] * 4


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of each figure at its end."""
    figures: list[Any] = []
    finish = plot._finish_curves

    def finished(axes: Any) -> None:
        finish(axes)
        figures.append(axes)

    monkeypatch.setattr(plot, "_finish_curves", finished)
    return figures


def test_equal_lines_and_bands_are_dashed_in_turn(drawn: list[Any], tmp_path: Path) -> None:
    lines = [(name, DIFFERENCES) for name in "abc"]
    plot.race(documents.document(), lines, "first", tmp_path / "race.png")
    bands = [shape for shape in drawn[0].collections if shape.get_label() == BAND]
    offsets = {band.get_linestyle()[0][0] for band in bands}
    assert len(bands) == len(offsets) == 3
    curves = [container[0] for container in drawn[0].containers]
    assert len({curve._unscaled_dash_pattern[0] for curve in curves}) == 3


def test_the_name_of_a_point_at_0_is_above_it(drawn: list[Any], tmp_path: Path) -> None:
    points = []
    for name, value in (("low", 0.0), ("high", 1.0)):
        points.append((name, 10 + 90 * value, {"value": value, "low": 0.0, "high": 1.0}, True))
    plot.swept(documents.document(), points, tmp_path / "swept.png", "accuracy, %")
    low, high = drawn[0].texts
    assert (low.get_verticalalignment(), high.get_verticalalignment()) == ("bottom", "top")
