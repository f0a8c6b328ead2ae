"""Keep the curves of a figure visible if their lines or bands lie on each other."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

BAND = "_band"  # the label of bands, which a legend leaves out
EDGE_DASH = 4.0  # lengths of dashes, in line widths
LINE_DASH = 5.0
DECIMALS = 6  # points that agree in so many decimals are equal

Segment = tuple[float, float, float, float]  # x and y of its ends


def separate(axes: Any) -> None:
    """Draw the edges of all bands as dashes, and the solid lines with common parts, too. The dashes
    of each fall into the gaps of the others."""
    bands = [shape for shape in axes.collections if shape.get_label() == BAND]
    _dash_in_turn(bands, EDGE_DASH)
    lines = [container[0] for container in axes.containers]
    for group in _groups([line for line in lines if line.get_linestyle() == "-"]):
        _dash_in_turn(group, LINE_DASH)


def _dash_in_turn(shapes: Sequence[Any], length: float) -> None:
    """Draw shapes that may be equal as dashes. A single shape stays solid."""
    gap = length * (len(shapes) - 1)
    if gap == 0:
        return
    for number, shape in enumerate(shapes):
        shape.set_linestyle((length * (len(shapes) - number), (length, gap)))


def _groups(lines: Sequence[Any]) -> list[list[Any]]:
    """Group the lines that have a segment in common."""
    groups: list[tuple[list[Any], set[Segment]]] = []
    for line in lines:
        segments = _segments(line)
        for group, covered in groups:
            if segments & covered:
                group.append(line)
                covered |= segments
                break
        else:
            groups.append(([line], segments))
    return [group for group, _ in groups]


def _segments(line: Any) -> set[Segment]:
    ends = line.get_xydata().round(DECIMALS).tolist()
    return {(*first, *second) for first, second in pairwise(ends)}
