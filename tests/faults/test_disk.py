"""Full and read-only disks and damaged journals: each is one clear line.

The same command then ends with an undisturbed run's results.
"""

import json
import random
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.conftest import (
    NAME,
    SEED,
    TOTAL,
    Recorder,
    begin,
    end,
    finish,
    journal,
    records,
    seeds,
    whole,
)
from tests.helpers.disks import fill, mounted, the_error
from tests.helpers.runs import load, timeless

BLOCK = 4096  # bytes of a tmpfs


def refused(folder: Path, recorder: Recorder, run: str) -> str:
    """Return the error line of a run that cannot write."""
    status, _, err = end(begin(folder, BASE_URL=recorder.url, API_KEY=run))
    return the_error(status, err)


def resumes(folder: Path, undisturbed: Path, recorder: Recorder, run: str) -> None:
    """Check that the same command ends with equal results, and asks for nothing that is in the
    journal."""
    before = seeds(folder)
    assert finish(folder, BASE_URL=recorder.url, API_KEY=run) == whole(undisturbed)
    asked = {request.seed for request in recorder.of(run)}
    assert not asked & before and len(asked | before) == TOTAL


def room(undisturbed: Path, place: str) -> int:
    """Return the free bytes that a run fills up at `place`."""
    kept, results = (
        -(-path.stat().st_size // BLOCK)
        for path in (journal(undisturbed), undisturbed / f"{NAME}.json")
    )
    ends = {"start": 0, "journal": kept // 2, "results": kept + 2, "plot": kept + results + 4}
    return BLOCK * ends[place]


@pytest.mark.faults
@pytest.mark.parametrize("place", ["start", "journal", "results", "plot"])
def test_a_disk_that_fills_up(
    tmp_path: Path, undisturbed: Path, recorder: Recorder, place: str
) -> None:
    with mounted(tmp_path / "disk") as folder:
        ballast = fill(folder, room(undisturbed, place))
        error = refused(folder, recorder, f"full-at-{place}")
        assert (
            "No space left" if place == "start" else "the disk is full. Free some space"
        ) in error
        named = {
            "start": folder,
            "journal": f"{NAME}.",
            "results": f"{NAME}.partial.json",
            "plot": f"{NAME}.png",
        }
        assert str(named[place]) in error
        kept = len(records(folder))
        # On a slow machine the disk may be full when results are saved meanwhile.
        assert {"start": kept == 0, "journal": 0 < kept < TOTAL, "results": kept > 0}.get(
            place, kept == TOTAL
        )
        ballast.unlink()
        # the results are there already; a repeated run keeps them beside its own
        if place == "plot":
            assert json.loads((folder / f"{NAME}.json").read_text())["complete"]
        resumes(folder, undisturbed, recorder, f"full-at-{place}-freed")


def test_files_that_may_not_grow(tmp_path: Path, undisturbed: Path, recorder: Recorder) -> None:
    """Without a disk, the system refuses to let the journal grow, which is the largest file."""
    limit = journal(undisturbed).stat().st_size // 2
    process = begin(tmp_path, BASE_URL=recorder.url, API_KEY="may-not-grow")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    status, _, err = end(process)
    assert "(File too large)" in the_error(status, err)
    assert 0 < len(records(tmp_path)) < TOTAL
    resumes(tmp_path, undisturbed, recorder, "may-grow")


@pytest.mark.faults
def test_a_folder_that_is_read_only(tmp_path: Path, undisturbed: Path, recorder: Recorder) -> None:
    with mounted(tmp_path / "disk") as folder:
        shutil.copytree(undisturbed, folder, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        error = refused(folder, recorder, "read-only")
        assert str(folder) in error and "Read-only" in error
        assert not recorder.of("read-only")
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        resumes(folder, undisturbed, recorder, "writable-again")


@pytest.mark.faults
def test_damage_in_the_middle_of_a_journal_is_named_and_owed_again(
    tmp_path: Path, undisturbed: Path, recorder: Recorder
) -> None:
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    rng = random.Random(SEED)
    lines = journal(tmp_path).read_bytes().splitlines(keepends=True)
    hit = sorted(rng.sample(range(TOTAL), 3))
    owed = {json.loads(lines[number])["completion"]["seed"] for number in hit}
    for number in hit:
        line = bytearray(lines[number])
        line[line.index(b'"completion":') + rng.randrange(20, 100)] ^= 0x01
        lines[number] = bytes(line)
    journal(tmp_path).write_bytes(b"".join(lines))
    status, _, err = end(begin(tmp_path, BASE_URL=recorder.url, API_KEY="damaged"))
    assert status == 0 and f"has 3 damaged lines (the first is line {hit[0] + 1})" in err, err
    assert {request.seed for request in recorder.of("damaged")} == owed
    assert timeless(load(tmp_path, NAME))["problems"] == whole(undisturbed)["problems"]
    keys = [
        json.loads(line)["key"]
        for n, line in enumerate(journal(tmp_path).open("rb"))
        if n not in hit
    ]
    assert len(keys) == len(set(keys)) == TOTAL
