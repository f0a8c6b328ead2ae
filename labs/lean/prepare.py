"""What a real policy is taught first, and theorems to search, from LeanDojo's traced data: bash scripts/prepare_lean.sh

OUT holds pairs.jsonl (a state and the tactic of its proof, as `pairs.py` has them), theorems.json and
theorems_test.json (THEOREMS=file), and manifest.json: the source with its checksums, counts, what was left out and why.

Pairs are of the part "train" alone; what has the name of a theorem of "val" or "test", or a state that one of theirs
begins with, is left out, and so is a tactic of several lines: a search asks for one line (ENDS). Statements are those
that the Lean at hand elaborates: a theorem of a library is written in its file's namespaces and variables, and many
mean nothing outside.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from core.base.arguments import Parser
from core.base.errors import UserError, command, one_line
from core.base.files import make_folder, results_dir, sweep, whole, write_atomically
from core.base.terminal import aligned
from core.engines.weights import sha256
from labs.lean import download, guard, leandojo, pairs, statements, toolchain
from labs.lean import trace as tracing
from labs.lean.leandojo import BENCHMARK_4, PARTS, SPLITS, Data
from labs.lean.pairs import Pair
from labs.lean.search import plain
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers

ABOUT = (
    "Make pairs of a state and a tactic, and theorems with their statements, from LeanDojo's traced Mathlib: the "
    'archive "LeanDojo Benchmark 4" (68 MB, fetched and checked), or one that is here already.'
)
SCHEMA = 1
MANIFEST, PAIRS = "manifest.json", "pairs.jsonl"
THEOREMS = {"train": "theorems.json", "test": "theorems_test.json"}  # by the part that they are of
LONGEST_STATE = 8000  # characters
MATHLIB = "v4.26.0"  # traced where MATHLIB does not say it
INSTALL = (
    "Install it into an environment of its own (pip install lean-dojo; it needs git and elan), and set LEANDOJO_PYTHON "
    "to that one's python"
)
# Statements that are tried at once, and how many for each that is wanted, at most.
BATCH, TRIES = 64, 8
KEPT, TWICE, HELD_OUT = "kept", "the same pair again", "of a theorem that is held out"
SEVERAL, REFUSED = "a tactic of several lines", "a refused tactic"


def parser() -> Parser:
    made = Parser(prog="prepare_lean.sh", description=ABOUT)
    made.add_argument("--from", dest="source", metavar="PATH", help="an archive (.tar.gz) or a folder that is here")
    made.add_argument(
        "--out", metavar="FOLDER", help="a new folder for what is made (default: lean/prepared in results)"
    )
    made.add_argument("--split", choices=SPLITS, help="how theorems are held out (default: novel_premises)")
    made.add_argument(
        "--theorems",
        metavar="N",
        type=_count,
        default=500,
        help="statements to keep of train and of test (500; 0: none)",
    )
    made.add_argument(
        "--trace", action="store_true", help=f"trace Mathlib anew, MATHLIB={MATHLIB}, by LEANDOJO_PYTHON's lean-dojo"
    )
    return made


def main(argv: Sequence[str] | None = None) -> None:
    with command():
        args = parser().parse_args(argv)
        if args.trace and args.source:
            raise UserError("--trace makes what --from would name. Give one of them")
        here = results_dir() / "lean"
        out = Path(args.out).expanduser() if args.out else here / "prepared"
        make_folder(here)
        make_folder(out.parent)
        sweep(out)
        with ExitStack() as stack:
            made = stack.enter_context(whole(out, "what is prepared"))
            make_folder(made)
            path = _traced(here) if args.trace else _source(args.source, here)
            data = stack.enter_context(leandojo.opened(path))
            split = args.split or ("random" if args.trace else SPLITS[0])
            told = prepared(data, split, made, args.theorems) | {"source": about(data)}
            write_atomically(made / MANIFEST, json.dumps(told, indent=1, ensure_ascii=False).encode() + b"\n")
        print(table(told))
        print(f"\nprepared {out}")


def prepared(data: Data, split: str, out: Path, wanted: int) -> dict[str, Any]:
    """Write the pairs and the theorems of a split into the folder `out`; what the manifest tells of them. Raises
    UserError."""
    names, states = _held_out(data, split)
    counts: Counter[str] = Counter()
    pairs.write(out / PAIRS, _kept(data, split, names, states, counts))
    if not counts[KEPT]:
        raise UserError(f"{data.path} holds no pair that can be used ({dict(counts)}). {leandojo.REMEDY}")
    found, left, lean = _theorems(data, split, wanted, names)
    files = [PAIRS]
    for part, rows in found.items():
        text = json.dumps({"theorems": rows}, indent=1, ensure_ascii=False)
        write_atomically(out / THEOREMS[part], f"{text}\n".encode())
        files.append(THEOREMS[part])
    return {
        "schema": SCHEMA,
        "split": split,
        "pairs": dict(counts.most_common()),
        "theorems": {THEOREMS[part]: len(rows) for part, rows in found.items()},
        "statements": dict(left.most_common()) | {"lean": lean},
        "files": {name: sha256(out / name) for name in files},
    }


def about(data: Data) -> dict[str, Any]:
    """Where the data are from."""
    told = {"path": str(data.path), "metadata": data.metadata()}
    if data.path.is_dir():
        return told
    md5 = download.md5(data.path)
    pinned = {"url": BENCHMARK_4.url, "licence": BENCHMARK_4.licence} if md5 == BENCHMARK_4.md5 else {}
    return told | {"md5": md5, "sha256": sha256(data.path)} | pinned


def table(told: dict[str, Any]) -> str:
    """What was made and left out, fit to be read."""
    rows = [["", "count"], *([f"pairs: {name}", f"{count:,}"] for name, count in told["pairs"].items())]
    rows += [[name, f"{count:,}"] for name, count in told["theorems"].items()]
    rows += [[f"statements: {name}", f"{n:,}"] for name, n in told["statements"].items() if isinstance(n, int)]
    known = "" if "url" in told["source"] else "; it is not the archive that is pinned here"
    several, refused = told["pairs"].get(SEVERAL, 0), _refused(told["pairs"])
    judged = refused + told["pairs"][KEPT] + told["pairs"].get(TWICE, 0)
    shares = (
        f"of several lines: {several / (several + judged):.1%} of {several + judged:,} pairs; "
        f"refused by the guard: {refused / judged:.1%} of {judged:,} of one line"
    )
    lines = [f"{told['source']['path']}, split {told['split']}{known}", "", aligned(rows), shares]
    return "\n".join([*lines, *filter(None, [told["statements"]["lean"]])])


def _refused(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if name.startswith(REFUSED))


# Pairs


def _held_out(data: Data, split: str) -> tuple[set[str], set[str]]:
    """The names of the theorems that are held out, and the states that they begin with."""
    names: set[str] = set()
    states: set[str] = set()
    for part in PARTS[1:]:
        for theorem in data.theorems(split, part):
            names.add(theorem.name)
            states.update(plain(state) for state, _ in theorem.steps[:1])
    return names, states


def _kept(data: Data, split: str, names: set[str], states: set[str], counts: Counter[str]) -> Iterator[Pair]:
    """The pairs of "train" that can be used, each once; `counts` gets why others can't."""
    seen: set[bytes] = set()
    for theorem in data.theorems(split, PARTS[0]):
        for state, tactic in theorem.steps:
            state, tactic = state.strip(), tactic.strip()
            key = hashlib.sha256(f"{plain(state)}\0{tactic}".encode("utf-8", "surrogatepass")).digest()[:16]
            is_held_out = theorem.name in names or plain(state) in states
            why = HELD_OUT if is_held_out else _unusable(state, tactic) or (TWICE if key in seen else "")
            counts[why or KEPT] += 1
            if not why:
                seen.add(key)
                yield Pair(theorem.name, state, tactic)


def _unusable(state: str, tactic: str) -> str:
    """Why a policy is not to learn a pair, in a few words; "" where it may."""
    if not state or "⊢" not in state:
        return "no state"
    if len(state) > LONGEST_STATE:
        return f"a state over {LONGEST_STATE} characters"
    if not tactic:
        return "no tactic"
    if "\n" in tactic:
        return SEVERAL
    why = guard.refused(tactic)
    return f"{REFUSED}: {why}" if why else ""


# Theorems


def _theorems(
    data: Data, split: str, wanted: int, held_out: set[str]
) -> tuple[dict[str, list[dict[str, str]]], Counter[str], str]:
    """Of train and of test, up to `wanted` theorems in an order that their names decide; how many statements were left
    out and why; and by which Lean. No part where there is no Lean, or the data hold no statements."""
    left: Counter[str] = Counter()
    parts = {part: {theorem.name for theorem in data.theorems(split, part)} for part in THEOREMS} if wanted else {}
    known = {name: said for name, said in _statements(data, left) if any(name in names for names in parts.values())}
    if not known:
        return {}, left, "no statements" if wanted else ""
    try:
        lean = toolchain.find()
    except UserError as error:
        return {}, left, f"no statement was kept: {error}"
    found = {}
    for part, names in parts.items():
        own = sorted(names & known.keys() - (held_out if part == "train" else set()), key=_drawn)
        rows = asyncio.run(_elaborated(lean, [{"name": name, "statement": known[name]} for name in own], wanted, left))
        if rows:
            found[part] = rows
    remedy = "" if found else ". It takes none: put LEAN=FOLDER in front, of a lake project with Mathlib"
    return found, left, f"statements checked by {lean.name}{remedy}"


def _statements(data: Data, left: Counter[str]) -> Iterator[tuple[str, str]]:
    for name, source in data.sources():
        if said := statements.theorem_in(source):
            if why := guard.refused_statement(said[1]):
                left[f"refused: {why}"] += 1
            else:
                yield name, said[1]


async def _elaborated(lean: Toolchain, rows: Sequence[dict[str, str]], wanted: int, left: Counter[str]) -> list[Any]:
    """The first of `rows` whose statements elaborate; none where none of the first BATCH does, as without Mathlib."""
    kept: list[dict[str, str]] = []
    async with Workers(lean, 2) as workers:
        for place in range(0, min(len(rows), TRIES * wanted), BATCH):
            batch = rows[place : place + BATCH]
            steps = await asyncio.gather(*(workers.start(row["statement"]) for row in batch))
            good = [row for row, step in zip(batch, steps, strict=True) if step.state and step.state.goals]
            left["not elaborated by itself"] += len(batch) - len(good)
            kept += good
            if len(kept) >= wanted or not kept:
                break
    return kept[:wanted]


def _drawn(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError
    return int(text)


# Sources


def _source(named: str | None, here: Path) -> Path:
    """What --from names, or the pinned archive. Raises UserError."""
    if not named:
        return download.fetched(BENCHMARK_4, here / "downloads" / Path(BENCHMARK_4.url).name)
    path = Path(named).expanduser()
    if not path.exists():
        raise UserError(f"--from {path} is not there. Give an archive (.tar.gz) or a folder of LeanDojo's data")
    return path


def _traced(here: Path) -> Path:
    """The folder of a Mathlib that lean-dojo has traced. Raises UserError."""
    revision, python = os.environ.get("MATHLIB", MATHLIB), os.environ.get("LEANDOJO_PYTHON", "")
    folder = here / f"traced-{revision.replace('/', '-')}"
    if folder.is_dir():
        return folder
    if not python:
        raise UserError(f"--trace needs lean-dojo. {INSTALL}")
    try:
        if subprocess.run([python, "-c", "import lean_dojo"], capture_output=True, check=False).returncode:
            raise UserError(f"LEANDOJO_PYTHON={python} does not import lean_dojo. {INSTALL}")
    except OSError as error:
        raise UserError(f"LEANDOJO_PYTHON={python} can't be run ({error.strerror}). {INSTALL}") from None
    with tempfile.TemporaryDirectory(dir=here, prefix=".tracing-") as name:
        out = Path(name) / "traced"
        done = subprocess.run(
            [python, tracing.__file__, revision, str(out)], stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            last = one_line((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1], 200)
            raise UserError(
                f"LeanDojo could not trace Mathlib {revision} ({last}). Name another MATHLIB, or leave --trace"
            )
        out.rename(folder)
    return folder


if __name__ == "__main__":
    main()
