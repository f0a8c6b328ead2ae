"""Test that trajectories are read as they were written, and other files are refused."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from core.base.files import storable
from labs.lean.search import Found, Node
from labs.lean.trajectories import SCHEMA, encoded, harvest, part, read, rows, write
from tests.labs.lean.worlds import PROOF, Graph, Toy, run

COLUMNS = [
    *(
        "theorem_name",
        "state_id",
        "state_pp",
        "tactic_applied",
        "parent_state_id",
        "label",
        "depth_from_root",
    ),
    *("remaining_depth", "llm_log_prob", "ebm_score", "is_proof_complete", "timestamp_ms"),
]
GRAPH: Graph = {
    0: {
        "good": (-2.0, 1),
        "bad": (-1.0, 2),
        "wrong": (-0.5, "unknown"),
        "same": (-0.1, 0),
        "late": (-9.0, 5),
    },
    1: {
        "cheat": (-0.5, PROOF),
        "last": (-1.0, PROOF),
        "more": (-1.5, 3),
        "back": (-2.5, 2),
        "slow": (-3.0, "died"),
    },
    2: {"on": (-0.5, 4)},
}


def found(**changes: Any) -> Found:
    """Return a proof of two tactics, and tactics with all other results."""
    toy = Toy(GRAPH, lambda state: float(state), lambda tactics: "cheat" not in tactics)
    return run(toy, **{"ALPHA": 1.0, "BATCH": 2, "CANDIDATES": 5} | changes)


def test_a_proof_has_its_path_and_what_lies_beside_it() -> None:
    written = rows(found(), 1_700_000_000_000)
    assert [list(row) for row in written] == [COLUMNS] * len(written) and SCHEMA.names == COLUMNS
    names = ("state_pp", "tactic_applied", "label", "depth_from_root", "remaining_depth")
    shown = [tuple(row[name] for name in names) for row in written]
    assert sorted(shown) == [
        ("", "last", "positive", 2, 0),
        ("0", "", "positive", 0, 2),
        ("1", "good", "positive", 1, 1),
        ("2", "bad", "negative", 1, -1),
        ("4", "on", "negative", 2, -1),
        ("5", "late", "negative", 1, -1),
    ]
    by_state = {row["state_pp"]: row for row in written}
    assert by_state["0"]["parent_state_id"] is None and by_state["0"]["llm_log_prob"] == 0
    assert by_state["1"]["parent_state_id"] == by_state["0"]["state_id"] == 0
    assert by_state["1"]["llm_log_prob"] == -2.0 and by_state["4"]["llm_log_prob"] == -0.5
    assert by_state["5"]["ebm_score"] == 5.0 and by_state[""]["ebm_score"] is None
    assert [row["state_pp"] for row in written if row["is_proof_complete"]] == [""]
    assert {row["theorem_name"] for row in written} == {"toy"} and {
        row["timestamp_ms"] for row in written
    } == {1.7e12}


def test_what_was_proposed_on_the_path_and_not_applied_is_harvested_up_to_a_limit() -> None:
    proof, toy = found(), Toy(GRAPH)
    more = asyncio.run(harvest(proof, toy.world.run, 9))
    assert toy.asked("apply") == [("good", "more"), ("good", "back"), ("good", "slow")]
    assert (
        more.applied == proof.applied and more.path == proof.path and more.tactics == proof.tactics
    )
    added = [
        (node.state, node.error, node.same_as is None) for node in more.nodes[len(proof.nodes) :]
    ]
    assert added == [("3", "", True), ("2", "", False), (None, "died", True)]
    assert rows(more, 0)[-1]["state_pp"] == "3" and rows(more, 0)[: len(rows(proof, 0))] == rows(
        proof, 0
    )
    assert asyncio.run(harvest(more, toy.world.run, 9)) == more
    assert len(asyncio.run(harvest(proof, toy.world.run, 1)).nodes) == len(proof.nodes) + 1


def test_another_end_that_is_harvested_is_no_sibling() -> None:
    graph: Graph = {0: {"a": (-1.0, PROOF), "b": (-2.0, PROOF)}}
    more = asyncio.run(harvest(run(Toy(graph)), Toy(graph).world.run, 9))
    assert not more.nodes[2].error and len(rows(more, 0)) == 2


HOSTILE = st.text(st.characters(), max_size=30) | st.sampled_from(
    [
        "\ud800",
        "a\x00b",
        "\udc00\ud800",
        "\ud83d\ude00",
        "é ⊢ ∀ x, x = x\n\r\u2028",
        "☃" * 70_000,
        "'; DROP",
        "\ufeff",
    ]
)


@settings(max_examples=25)
@given(
    HOSTILE,
    st.lists(
        st.tuples(HOSTILE, HOSTILE, st.floats(-1e9, 0), st.none() | st.floats(allow_nan=False)),
        max_size=4,
    ),
    st.integers(0, 2**41),
)
def test_what_is_written_is_read_again_whatever_the_texts(
    tmp_path_factory: pytest.TempPathFactory,
    theorem: str,
    written: list[tuple[Any, ...]],
    began: int,
) -> None:
    nodes = [Node(0, None, "", 0.0, 0.0, 0, "start", 1)]
    for state, tactic, logprob, energy in written:
        nodes.append(
            Node(len(nodes), 0, tactic, logprob, logprob, 1, state, 1, energy=energy, seconds=1.5)
        )
    built = Found(theorem, "budget", "5 nodes", nodes, applied=len(written))
    folder = tmp_path_factory.mktemp("trajectories")
    path = write(folder, built, began)
    table = read(path)
    assert (
        table.schema.equals(SCHEMA) and read(folder).equals(table) and path == part(folder, theorem)
    )
    assert table.to_pylist() == rows(built, began)
    texts = [(storable(state), storable(tactic)) for state, tactic, *_ in written]
    assert [(row["state_pp"], row["tactic_applied"]) for row in table.to_pylist()[1:]] == texts
    assert {row["theorem_name"] for row in table.to_pylist()} == {storable(theorem)}
    assert [row["timestamp_ms"] - began for row in table.to_pylist()] == [0, *[1500] * len(written)]


def test_a_folder_is_read_as_its_parts_and_a_part_is_written_again(tmp_path: Path) -> None:
    one, other = found(), replace(found(MAX_NODES=5), theorem="../other/.\x00")
    for each in (one, other, one):
        write(tmp_path / "made", each, 7)
    (tmp_path / "made" / ".x.parquet.new").write_bytes(b"left by a killed writer")
    (tmp_path / "made" / ".x.parquet").write_bytes(b"hidden")
    assert read(tmp_path / "made").num_rows == len(rows(one, 7)) + len(rows(other, 7))
    assert len(list((tmp_path / "made").glob("[!.]*"))) == 2 and not (tmp_path / "other").exists()


def test_damaged_parquet_and_parquet_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(rows(found(), 0), SCHEMA).drop_columns(["label"]), path
    )
    for content in (path.read_bytes(), b"", encoded(rows(found(), 0))[:-9]):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"x\.parquet"):
            read(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("none.parquet", "empty"):
        with pytest.raises(UserError, match=name):
            read(tmp_path / name)
