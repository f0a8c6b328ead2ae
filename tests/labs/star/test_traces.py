"""Traces: written and read back, and how rounds merge."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.base.errors import UserError
from labs.star.record import WAYS
from labs.star.traces import Trace, merged, read, write

TRACE = Trace(
    "star-0001",
    1,
    "first",
    "0" * 32,
    "Find 1 + 1.",
    "<think>\n1+1=2\n</think>\n\n1+1=2\n\\boxed{2}",
)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
traces = st.builds(
    Trace,
    st.sampled_from("abcdef"),
    st.integers(1, 9),
    st.sampled_from(WAYS),
    st.sampled_from("123"),
    texts,
    texts,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(traces, max_size=6))
def test_what_is_written_is_read_back(tmp_path: Path, written: list[Trace]) -> None:
    path = tmp_path / "round1.jsonl"
    write(path, written)
    assert read(path) == written
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert all(
        list(row)[:3] == ["instruction", "input", "output"] and row["input"] == "" for row in rows
    )


def test_a_file_is_whole_and_half_a_character_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "round1.jsonl"
    write(path, [TRACE, replace(TRACE, output="a\ud800\u2028\x85\x1b[2J\x00")])
    assert [each.name for each in path.parent.iterdir()] == ["round1.jsonl"]
    assert (
        read(path)[1].output == "a\ufffd\u2028\x85\x1b[2J\x00"
        and len(path.read_text().split("\n")) == 3
    )
    write(path, [])
    assert read(path) == []


@pytest.mark.parametrize("line", ['{"problem": "a"', "null", '{"problem": 7}'])
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "round1.jsonl"
    write(path, [TRACE])
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(UserError, match=r"round1\.jsonl") as raised:
        read(path)
    assert "\n" not in str(raised.value)


@settings(max_examples=40)
@given(st.lists(st.lists(traces, max_size=8), max_size=5), st.integers(0, 99))
def test_merging_keeps_one_a_problem_whatever_the_order(
    rounds: list[list[Trace]], seed: int
) -> None:
    every = [trace for of in rounds for trace in of]
    kept = merged(rounds)
    assert [each.problem for each in kept] == sorted({each.problem for each in every})
    assert set(kept) <= set(every) and merged([kept]) == kept
    for each in kept:
        rivals = [other for other in every if other.problem == each.problem]
        unhinted = [other.round for other in rivals if other.way != "rationalised"]
        assert each.round == max(unhinted or [other.round for other in rivals])
        assert (each.way != "rationalised") == bool(unhinted)
    random.Random(seed).shuffle(every)
    assert merged([every[: len(every) // 2], every[len(every) // 2 :], kept]) == kept
    assert merged([merged(rounds[:2]), *rounds[2:]]) == kept  # round by round it comes to the same
