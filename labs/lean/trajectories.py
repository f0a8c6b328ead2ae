"""What searches leave for the energy model to learn from: parquet files of twelve columns, a row for each state.

| column | |
|---|---|
| theorem_name | |
| state_id | the node's number in its search; 0 is the start |
| state_pp | the goals as text; "" where the proof is complete |
| tactic_applied | what led here from the parent; "" at the start |
| parent_state_id | null at the start |
| label | "positive" on the path of the accepted proof, "negative" off it, and everywhere where no proof was found |
| depth_from_root | tactics from the start |
| remaining_depth | tactics from here to the end of the proof; -1 off the path |
| llm_log_prob | of the tactic, natural, as the model gave it (a probe's is PROBE_LOGPROB); 0 at the start |
| ebm_score | the energy that the search had, lower is nearer to a proof; null where it had none |
| is_proof_complete | whether this is the end of the accepted proof |
| timestamp_ms | when the search met it, in milliseconds since 1970 |

Left out is what says nothing of a state: tactics that failed, states that another node stands for (one of them may be
on the path), and ends of proofs that were not accepted, or not looked at.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from core.base.errors import UserError, one_line
from core.base.files import opened, storable, write_atomically
from labs.lean.search import Failed, Found, Node, Step, begun, ended, plain

POSITIVE, NEGATIVE = "positive", "negative"
OFF_PATH = -1
SCHEMA = pyarrow.schema(
    [
        ("theorem_name", pyarrow.string()),
        ("state_id", pyarrow.int64()),
        ("state_pp", pyarrow.string()),
        ("tactic_applied", pyarrow.string()),
        ("parent_state_id", pyarrow.int64()),
        ("label", pyarrow.string()),
        ("depth_from_root", pyarrow.int64()),
        ("remaining_depth", pyarrow.int64()),
        ("llm_log_prob", pyarrow.float64()),
        ("ebm_score", pyarrow.float64()),
        ("is_proof_complete", pyarrow.bool_()),
        ("timestamp_ms", pyarrow.int64()),
    ]
)
MAY_BE_NULL = ("parent_state_id", "ebm_score")
WHAT, REMEDY = "the trajectories", "Name a file or a folder that a search has written"

Row = dict[str, Any]
Due = tuple[int, str, float]  # the node of a state, a tactic for it, and its log probability


def rows(found: Found, began_ms: int) -> list[Row]:
    """The rows of a search that began at `began_ms`, in the order of its nodes."""
    return [
        {
            "theorem_name": storable(found.theorem),
            "state_id": node.number,
            "state_pp": storable(node.state or ""),
            "tactic_applied": storable(node.tactic),
            "parent_state_id": node.parent,
            "label": POSITIVE if node.number in found.path else NEGATIVE,
            "depth_from_root": node.depth,
            "remaining_depth": len(found.tactics) - node.depth if node.number in found.path else OFF_PATH,
            "llm_log_prob": node.logprob,
            "ebm_score": node.energy,
            "is_proof_complete": found.is_proved and node.number == found.path[-1],
            "timestamp_ms": began_ms + round(1000 * node.seconds),
        }
        for node in found.nodes
        if _is_told(found, node)
    ]


def siblings(found: Found) -> list[Node]:
    """States off the proof's path whose parent is on it, told in its rows; none without a proof."""
    on_path = set(found.path)
    return [
        node for node in found.nodes if node.parent in on_path and node.number not in on_path and _is_told(found, node)
    ]


def to_harvest(found: Found, most: int | None = None) -> list[Due]:
    """Tactics that were to be applied in the states of a proof's path and were not, for the search had ended: those of
    the states nearest to its end first, at most `most`. None without a proof."""
    applied = {(node.parent, node.tactic) for node in found.nodes}
    due = [
        (number, tactic, logprob)
        for number in reversed(found.path[:-1])
        for tactic, logprob in found.proposed.get(number, ())
        if (number, tactic) not in applied
    ]
    return due[:most]


def harvested(found: Found, due: Sequence[Due], steps: Sequence[Step | Failed]) -> Found:
    """`found` with what came of the tactics of to_harvest, as nodes that no limit has counted."""
    nodes = list(found.nodes)
    held = {plain(node.state): node.number for node in nodes if node.state is not None and node.same_as is None}
    for (parent, tactic, logprob), step in zip(due, steps, strict=True):
        above = nodes[parent]
        node = Node(
            len(nodes),
            parent,
            tactic,
            logprob,
            above.total + logprob,
            above.depth + 1,
            None,
            is_harvested=True,
            seconds=found.seconds.get("all", 0.0),
        )
        if isinstance(step, Failed) or step.error or step.state is None:
            node = replace(node, error=str(step) if isinstance(step, Failed) else step.error or "no state")
        else:
            node = replace(node, state=step.state.pp, goals=step.state.goals)
            first = held.setdefault(plain(step.state.pp), node.number)
            node = replace(node, same_as=None if first == node.number else first)
        nodes.append(node)
    return replace(found, nodes=tuple(nodes))


async def harvest(
    found: Found, apply: Callable[[Sequence[str], str], Awaitable[Step]], most: int | None = None
) -> Found:
    """`found` with more siblings of its path: to_harvest, applied beside each other by the search's own `apply`."""
    due = to_harvest(found, most)
    tasks = [begun(apply(found.tactics[: found.path.index(number)], tactic)) for number, tactic, _ in due]
    try:
        return harvested(found, due, await asyncio.gather(*tasks))
    finally:
        await ended(tasks)


def part(folder: Path, theorem: str) -> Path:
    """Where the rows of a theorem lie in a folder of trajectories: its name may be no name of a file."""
    return folder / f"{hashlib.sha256(theorem.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.parquet"


def write(folder: Path, found: Found, began_ms: int) -> Path:
    """Write the rows of a search as the theorem's part of `folder`, whole or not at all. Raises UserError."""
    path = part(folder, found.theorem)
    write_atomically(path, encoded(rows(found, began_ms)))
    return path


def encoded(told: Iterable[Row]) -> bytes:
    """A parquet file of rows."""
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(told), SCHEMA), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read(path: Path) -> Any:
    """The pyarrow.Table of trajectories, with SCHEMA: of a file, or of all parts of a folder in the order of their
    names. Raises UserError for what is none."""
    if not path.is_dir():
        return _read(path)
    parts = sorted(each for each in path.glob("*.parquet") if not each.name.startswith("."))
    if not parts:
        raise UserError(f"{WHAT} {path} is a folder without parquet files. {REMEDY}")
    return pyarrow.concat_tables([_read(each) for each in parts])


def _read(path: Path) -> Any:
    with opened(path, WHAT, REMEDY) as content:
        try:
            file = pyarrow.parquet.ParquetFile(content, pre_buffer=False)
            _check_columns(path, file.schema_arrow)
            # On this thread: a pool of pyarrow's that still winds up as Python ends takes the process down (SIGABRT).
            table = file.read(use_threads=False)
            table.validate(full=True)
        except (pyarrow.ArrowException, OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
            why = one_line(str(error), 200)
            raise UserError(f"{WHAT} {path} is no parquet file that can be read ({why})") from None
    for name in SCHEMA.names:
        if name not in MAY_BE_NULL and table[name].null_count:
            raise UserError(f"{WHAT} {path} has no {name} in some of its rows. {REMEDY}")
    if wrong := {label for label in table["label"].unique().to_pylist() if label not in (POSITIVE, NEGATIVE)}:
        raise UserError(
            f"{WHAT} {path} has the label {min(wrong)!r:.40}, and knows {POSITIVE} and {NEGATIVE}. {REMEDY}"
        )
    return table.cast(SCHEMA)


def _check_columns(path: Path, schema: Any) -> None:
    """Raises UserError where the columns are others than ours, with the first that differs."""
    found, wanted = ([(each.name, str(each.type)) for each in of] for of in (schema, SCHEMA))
    if found == wanted:
        return
    missing = [f"{name} ({kind})" for name, kind in wanted if (name, kind) not in found]
    others = [f"{name} ({kind})" for name, kind in found if (name, kind) not in wanted]
    told = f"lacks {', '.join(missing)}" if missing else "has them in another order or twice"
    told += f" and has {', '.join(others)}" if others else ""
    raise UserError(f"{WHAT} {path} is of another shape: it {one_line(told, 600)}. {REMEDY}")


def _is_told(found: Found, node: Node) -> bool:
    return node.number in found.path or (not node.error and node.same_as is None and node.goals > 0)
