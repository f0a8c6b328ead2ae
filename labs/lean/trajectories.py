"""Write and read trajectories, the training data of the energy: parquet files with a row for each
state of a search.

A node off the path has no row if its tactic failed, if another node represents its state, or if it
has no goals. So the end of a proof that was not accepted has no row.
"""

import asyncio
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from core.base.errors import UserError, one_line
from core.base.files import opened, storable, write_atomically
from labs.lean.search import Found, Runs, plain

POSITIVE, NEGATIVE = "positive", "negative"
OFF_PATH = -1
_TYPES = {
    "theorem_name": pyarrow.string(),
    "state_id": pyarrow.int64(),  # the node's number in its search (0: the start)
    "state_pp": pyarrow.string(),  # the goals as text, or "" if the proof is complete
    # the tactic that led from the parent to this state, or "" at the start
    "tactic_applied": pyarrow.string(),
    "parent_state_id": pyarrow.int64(),  # null at the start
    "label": pyarrow.string(),  # POSITIVE on the path of the accepted proof, else NEGATIVE
    "depth_from_root": pyarrow.int64(),  # number of tactics from the start
    # number of tactics to the end of the proof, or OFF_PATH off the path
    "remaining_depth": pyarrow.int64(),
    # the tactic's natural log probability (probe: at least PROBE_LOGPROB, start: 0)
    "llm_log_prob": pyarrow.float64(),
    # the state's energy in the search, or null if it was not computed
    "ebm_score": pyarrow.float64(),
    "is_proof_complete": pyarrow.bool_(),  # whether this state ends the accepted proof
    "timestamp_ms": pyarrow.int64(),  # when the state was reached, in milliseconds since 1970
}
_NULLABLE = ("parent_state_id", "ebm_score")
SCHEMA = pyarrow.schema(
    [pyarrow.field(name, kind, name in _NULLABLE) for name, kind in _TYPES.items()]
)
WHAT, REMEDY = (
    "the trajectories",
    "Remove the file and repeat its search, or use a path that a search has written",
)

Row = dict[str, Any]


def rows(found: Found, began_ms: int) -> list[Row]:
    """Return the rows of a search, in the order of its nodes. The search began `began_ms`
    milliseconds after 1970."""
    return [
        {
            "theorem_name": storable(found.theorem),
            "state_id": node.number,
            "state_pp": storable(node.state or ""),
            "tactic_applied": storable(node.tactic),
            "parent_state_id": node.parent,
            "label": POSITIVE if node.number in found.path else NEGATIVE,
            "depth_from_root": node.depth,
            "remaining_depth": len(found.tactics) - node.depth
            if node.number in found.path
            else OFF_PATH,
            "llm_log_prob": node.logprob,
            "ebm_score": node.energy,
            "is_proof_complete": found.is_proved and node.number == found.path[-1],
            "timestamp_ms": began_ms + round(1000 * node.seconds),
        }
        for node in found.nodes
        if node.number in found.path or (not node.error and node.same_as is None and node.goals > 0)
    ]


async def harvest(found: Found, run: Runs, most: int) -> Found:
    """Apply up to `most` tactics that were proposed on a proof's path but not applied, beginning at
    the proof's end. Return `found` with nodes for these tactics. These nodes do not count towards
    MAX_NODES."""
    applied = {(node.parent, node.tactic) for node in found.nodes}
    due = [
        (depth, number, tactic, logprob)
        for depth, number in reversed([*enumerate(found.path[:-1])])
        for tactic, logprob in found.proposed.get(number, ())
        if (number, tactic) not in applied
    ][:most]
    steps = await asyncio.gather(
        *(run([*found.tactics[:depth], tactic]) for depth, _, tactic, _ in due)
    )
    nodes, seconds = list(found.nodes), found.seconds.get("all", 0.0)
    held = {
        plain(node.state): node.number
        for node in nodes
        if node.state is not None and node.same_as is None
    }
    for (_, parent, tactic, logprob), step in zip(due, steps, strict=True):
        node = nodes[parent].then(len(nodes), tactic, logprob, step)
        node.seconds = seconds
        if node.state is not None:
            first = held.setdefault(plain(node.state), node.number)
            node.same_as = None if first == node.number else first
        nodes.append(node)
    return replace(found, nodes=nodes)


def part(folder: Path, theorem: str) -> Path:
    """Return the path of a theorem's file in `folder`. The file's name is a hash, so it is always
    valid."""
    return (
        folder
        / f"{hashlib.sha256(theorem.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.parquet"
    )


def write(folder: Path, found: Found, began_ms: int) -> Path:
    """Write the rows of a search to the theorem's file in `folder`, and return its path. Raises
    UserError."""
    path = part(folder, found.theorem)
    write_atomically(path, encoded(rows(found, began_ms)))
    return path


def encoded(rows: Iterable[Row]) -> bytes:
    """Encode rows as the bytes of a parquet file."""
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(list(rows), SCHEMA), sink, compression="zstd"
    )
    return bytes(sink.getvalue())


def read(path: Path) -> Any:
    """Read a file, or all files of a folder in order of name, as a pyarrow.Table with SCHEMA.
    Raises UserError."""
    parts = sorted(path.glob("[!.]*.parquet")) if path.is_dir() else [path]
    if not parts:
        raise UserError(f"{path} contains no parquet files. Use a folder that a search has written")
    return pyarrow.concat_tables([_read(each) for each in parts])


def _read(path: Path) -> Any:
    with opened(path, WHAT, REMEDY) as content:
        try:
            # Use only this thread: if a thread pool of pyarrow is still ending as Python exits, the
            # process aborts.
            table = pyarrow.parquet.ParquetFile(content, pre_buffer=False).read(use_threads=False)
            table.validate(full=True)
            return table.cast(SCHEMA)
        except (
            pyarrow.ArrowException,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            ArithmeticError,
        ) as error:
            raise UserError(
                f"{WHAT} {path} can't be read ({one_line(str(error), 200)}). {REMEDY}"
            ) from None
