"""The record of a run in stages: begun, resumed, put aside, and the stages that a changed product
drops."""

import json
import os
from pathlib import Path
from typing import Any, ClassVar

import pytest

from labs.training import stages


class Record(stages.Record):
    STAGES = ("searched", "trained", "evaluated")
    PRODUCTS: ClassVar = {"trained": "digest"}
    AT_END = ("best",)


def read(path: Path) -> Record:
    head = json.loads(path.read_text())
    return Record(path.parent, head, head.pop("rounds", []))


def begun(own: Path, run: str = "one", **more: Any) -> Record:
    head = {"run": run, "complete": False, "started": "2026-11-24T03:00:00+00:00"} | more
    return Record.begin(
        own, head, read, {"complete": False, **more}, "data", own.parent.glob("seed0-*")
    )


def test_a_run_begins_without_a_file_and_resumes_with_its_stages(tmp_path: Path) -> None:
    made = begun(tmp_path / "seed0", config=1)
    assert made.run_folder.is_dir() and not made.path.exists() and made.stage("searched") == {}
    made.done("searched", {"pairs": 3}, complete=True)
    again = begun(tmp_path / "seed0", config=2)
    assert (
        again.stage("searched") == {"pairs": 3}
        and again.head["config"] == 2
        and not again.head["complete"]
    )
    assert json.loads(made.path.read_text())["config"] == 1, (
        "nothing is written before a stage is done"
    )
    assert "rounds" not in json.loads(made.path.read_text())


def test_another_run_is_renamed_with_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun(tmp_path / "seed0").save(complete=True)
    (tmp_path / "seed0-round0.json").touch()
    os.utime(tmp_path / "seed0", (1795489200, 1795489200))
    made = begun(tmp_path / "seed0", "two")
    kept = tmp_path / "seed0.20261124-030000"
    note = (
        f"note: {made.run_folder} belonged to another run (other constants, data or model). The "
        f"folder is now {kept}\n"
    )
    assert capsys.readouterr().out == note
    assert not made.path.exists() and sorted(path.name for path in kept.iterdir()) == [
        stages.NAME,
        "seed0-round0.json",
    ]


@pytest.mark.parametrize(("digest", "left"), [("a", ["trained", "evaluated"]), ("b", ["trained"])])
def test_a_changed_product_drops_later_stages_and_the_end(
    digest: str, left: list[str], tmp_path: Path
) -> None:
    for number in (None, 0):
        made = Record(tmp_path / "run", {"best": 1})
        for name, outcome in (("trained", {"digest": "a"}), ("evaluated", {"rate": 1})):
            made.done(name, outcome, number)
        made.head["best"] = 1
        made.done("trained", {"digest": digest, "seconds": 2}, number)
        part = made.head if number is None else made.rounds[number]
        assert [name for name in part if name in Record.STAGES] == left
        assert ("best" in made.head) is (digest == "a") and read(made.path) == made


def test_a_stage_outside_the_order_drops_none_and_stays(tmp_path: Path) -> None:
    record = Record(tmp_path / "run", {})
    for name in ("searched", "extra", "trained", "extra"):
        record.done(name, {"digest": name})
    assert list(record.head)[:1] == ["searched"] and {"extra", "trained"} <= record.head.keys()
