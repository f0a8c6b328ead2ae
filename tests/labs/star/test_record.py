"""The record of a run in rounds: what a stage that is made again leaves of what came behind it."""

from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.base.files import make_folder, write_atomically
from labs.star.record import Record

HEAD = {"last": 1, "ended_by": "ROUNDS", "best": {"round": 1}}


def record(folder: Path) -> Record:
    """Of a run that is over."""
    made: dict[str, Any] = {"collected": {"traces_sha256": "a"}, "trained": {"digest": "b"}, "evaluated": {"is": 1}}
    return Record(folder / "seed0", dict(HEAD), [{"round": 0, "evaluated": {}}, {"round": 1} | made])


@pytest.mark.parametrize(
    ("number", "stage", "told", "left"),
    [
        (0, "evaluated", {"is": 2}, ["collected", "trained", "evaluated"]),
        (1, "evaluated", {"is": 2}, ["collected", "trained", "evaluated"]),
        (1, "trained", {"digest": "b", "seconds": 2}, ["collected", "trained", "evaluated"]),
        (1, "trained", {"digest": "c"}, ["collected", "trained"]),
        (1, "collected", {"traces_sha256": "a", "seconds": 2}, ["collected", "trained", "evaluated"]),
        (1, "collected", {"traces_sha256": "c"}, ["collected"]),
    ],
)
def test_a_stage_that_came_to_the_same_leaves_what_is_behind_it(
    number: int, stage: str, told: dict[str, Any], left: list[str], tmp_path: Path
) -> None:
    made = record(tmp_path)
    if number == 0:
        made.rounds[0]["evaluated"] = {"is": 1}
    made.done(stage, told, number)
    assert made.rounds[number][stage] == told
    assert [name for name in made.rounds[1] if name != "round"] == left
    assert ("last" in made.head) is ("evaluated" in left), "a run that is no longer over names no last round"


def test_a_stage_of_a_round_before_that_came_to_something_else_leaves_no_later_round(tmp_path: Path) -> None:
    made = record(tmp_path)
    made.rounds.append({"round": 2, "collected": {"traces_sha256": "x"}})
    made.done("trained", {"digest": "c"}, 1)
    assert len(made.rounds) == 2 and "evaluated" not in made.rounds[1]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=str(tmp_path / "file" / "folder")):
        make_folder(tmp_path / "file" / "folder")
    with pytest.raises(UserError, match=str(tmp_path / "file" / "new")):
        write_atomically(tmp_path / "file" / "new", b"x")
