"""Hostile input. Checks and values are in helpers/hostile.py, and larger answers in
tests/faults/test_hostile.py."""

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import constants
from core.base.errors import UserError, one_line
from core.base.files import read_json
from core.rsa import RsaConstants
from tests.conftest import run
from tests.helpers import hostile

MEMORY = 1 << 30  # bytes that a run on hostile answers of 20 kB may take

unhurried = settings(deadline=None, max_examples=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of a run on a hostile model: it ended, and judged rightly."""
    quick = [case for case in hostile.cases(20_000) if case.answer_type == "integer"]
    folder, sizes = tmp_path_factory.mktemp("run"), ("N=2", "K=2", "T=1")
    os.mkfifo(folder / "pipe.json")  # a run looks into the results beside its own
    (folder / "folder.json").mkdir()
    return hostile.check_run(folder, "02_rsa_basic", quick, *sizes, memory=MEMORY)


@pytest.fixture(scope="module")
def whole(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"problems": document["problems"][:6]}


@pytest.fixture(scope="module")
def places(whole: dict[str, Any]) -> list[hostile.Place]:
    """Return the places of the values that readers use, so that changes matter."""
    return [place for place in hostile.places(whole) if place[0] not in ("provenance", "warnings")]


@pytest.mark.parametrize("content", hostile.BYTES, ids=lambda content: repr(content[:12]))
def test_a_problem_file_of_any_bytes_is_read_or_refused(folder: Path, content: bytes) -> None:
    hostile.check_problem_file(folder, content)


@unhurried
@given(hostile.PROBLEM_FILES)
def test_a_problem_file_of_any_values_is_read_or_refused(folder: Path, content: bytes) -> None:
    hostile.check_problem_file(folder, content)


def unreadable(folder: Path) -> Iterator[Path]:
    """Paths of what is no file that can be read."""
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "loop.json").symlink_to(folder / "loop.json")
    (folder / "dangling.jsonl").symlink_to(folder / "nothing")
    (folder / "device.json").symlink_to("/dev/zero")
    yield from (
        folder / name
        for name in ("folder.json", "pipe.json", "loop.json", "dangling.jsonl", "device.json")
    )
    yield from (
        folder / name
        for name in ("missing.json", "\x1b[2J\n.json", "\udcff.json", "x" * 300 + ".json")
    )


def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    for path in unreadable(tmp_path):
        assert hostile.load_problems(path)
        with pytest.raises(UserError):
            read_json(path, "file", "Mend it")


@pytest.mark.parametrize("text", hostile.ODD_TEXTS, ids=lambda text: repr(text[:12]))
def test_a_constant_of_an_odd_text_is_read_or_refused(text: str) -> None:
    rules = constants.rules(RsaConstants)
    for override in rules:
        try:
            config = constants.read(RsaConstants, {}, [f"{override}={text}"])
        except UserError as error:
            hostile.error_line(error)
            continue
        values: dict[str, Any] = vars(config)
        assert json.loads(json.dumps(values, allow_nan=False)) == values
        for name, value in values.items():
            assert rules[name].type is str or rules[name].low <= value <= rules[name].high
            assert type(value) is rules[name].type
        assert config.K <= config.N


def test_numbers_that_int_and_float_take_are_taken_for_what_they_are() -> None:
    config = constants.read(
        RsaConstants, {}, ["N= 1_6 ", "K=１６", "TEMPERATURE=1e-1", "TIMEOUT=60"]
    )
    assert vars(config) | {"N": 16, "K": 16, "TEMPERATURE": 0.1, "TIMEOUT": 60.0} == vars(config)


@pytest.mark.parametrize("content", hostile.BYTES, ids=lambda content: repr(content[:12]))
def test_a_results_file_of_any_bytes_breaks_no_reader(
    folder: Path, whole: dict[str, Any], content: bytes
) -> None:
    hostile.check_results_file(folder, whole, content)


@unhurried
@given(st.data())
def test_a_changed_results_file_is_read_or_refused(
    folder: Path, whole: dict[str, Any], places: list[hostile.Place], data: st.DataObject
) -> None:
    changed = st.just(hostile.dumped(hostile.mutated(data.draw, whole, places)))
    content = data.draw(changed | hostile.spoiled(hostile.dumped(whole)))
    hostile.check_results_file(folder, whole, content)


def test_a_run_on_hostile_answers_ends_and_judges_rightly(document: dict[str, Any]) -> None:
    assert document["complete"]
    (warning,) = document["warnings"]
    assert "34 of 72 members repeat another" in warning  # whatever the seed, a case has one answer


def test_a_reply_of_any_shape_is_a_completion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.client.retry._backoff", lambda attempt: 0.0)
    monkeypatch.setattr("core.client.retry.RETRIES", 1)
    asyncio.run(hostile.check_shapes(tmp_path, hostile.odd_shapes()))


def test_a_servers_refusal_is_said_in_one_harmless_line(tmp_path: Path) -> None:
    refusal = (404, hostile.ESCAPES + "\n" + hostile.HTML * 1000)
    with contextlib.closing(hostile.HostileServer([hostile.EXPLOSION], refusal=refusal)) as server:
        problems = server.problems(tmp_path / "cases.json")
        status, out, err = run(
            "01_baseline", f"PROBLEMS={problems}", BASE_URL=server.url, RESULTS_DIR=str(tmp_path)
        )
    assert status == 2 and err.splitlines()[-1].startswith("error: the server at")
    assert hostile.is_harmless(out) and hostile.is_harmless(err) and len(err) < 5000


@given(st.text(hostile.CHARACTERS), st.integers(1, 50))
def test_one_line_is_one_line(text: str, most: int) -> None:
    line = one_line(text, most)
    assert line.isprintable() and len(line) <= most
    assert one_line(line, most) == line
