"""Prepare training pairs for a real policy, and theorems to search: bash scripts/prepare_lean.sh.

The source is LeanDojo's traced Mathlib (Yang et al., arXiv 2306.15626): the archive "LeanDojo Benchmark 4", or a
folder with its files. The command writes pairs.jsonl (pairs.py), and theorems.json and theorems_test.json for THEOREMS.
It also writes manifest.json with the source, its checksum, and counts of kept and omitted rows by reason.

Pairs come only from the part "train". A pair is omitted if "val" or "test" contains a theorem with the same name, or a
theorem whose first state equals the pair's state. Tactics of several lines are omitted too (ENDS=line). Theorems are
kept only if Lean elaborates their statements. Many statements fail without their file's namespaces.
"""

import asyncio
import hashlib
import shutil
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from core.base.arguments import Parser
from core.base.errors import UserError, command, one_line
from core.base.files import make_folder, read_json, results_dir, sha256, whole
from labs.lean import guard, outcome, pairs, toolchain
from labs.lean.pairs import Pair
from labs.lean.search import plain
from labs.lean.session import Workers
from labs.lean.theorems import decoded, fetched, theorem_in

# Version 10: Mathlib of July 2024 (29dcec07), Lean 4.10, licence CC BY 2.0.
BENCHMARK = "https://zenodo.org/records/12740403/files/leandojo_benchmark_4.tar.gz"
MD5 = "25e1ee60cd8925b9d2e8673ddcc34b4c"
SPLITS = ("novel_premises", "random")
THEOREMS = {"train": "theorems.json", "test": "theorems_test.json"}  # a part, and its file of theorems
FILE, REMEDY = "LeanDojo's file", "Download it again, or use another file"
LONGEST_STATE = 8000  # characters
BATCH, TRIES = 64, 8  # statements tried at once, and the most statements tried for each requested theorem
KEPT, TWICE, HELD_OUT = "kept", "the same pair again", "of a theorem that is held out"


class Tactic(Struct):
    state_before: str
    tactic: str


class Traced(Struct):
    full_name: str
    traced_tactics: list[Tactic]


class Premise(Struct):
    full_name: str
    code: str


class File(Struct):
    premises: list[Premise]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command. Raises SystemExit with status 2 after a UserError."""
    parser = Parser(
        prog="prepare_lean.sh",
        description="Extract pairs of a state and a tactic, and theorems with their statements, from LeanDojo's traced "
        'Mathlib. The default source is the archive "LeanDojo Benchmark 4" (68 MB), which is downloaded and checked.',
    )
    parser.add_argument("--from", dest="source", metavar="PATH", help="a local source (a .tar.gz archive or a folder)")
    parser.add_argument("--out", metavar="FOLDER", help="the folder to write (default: lean/prepared in results)")
    parser.add_argument("--split", choices=SPLITS, default=SPLITS[0], help="the split of LeanDojo's data to use")
    about = "most theorems to keep from each of train and test (0: none)"
    parser.add_argument("--theorems", metavar="N", type=int, default=500, help=about)
    with command():
        args = parser.parse_args(argv)
        here = results_dir() / "lean"
        out = Path(args.out).expanduser() if args.out else here / "prepared"
        make_folder(out.parent)
        with whole(out, "the prepared data") as new:
            make_folder(new)
            downloaded = here / "downloads" / Path(BENCHMARK).name
            path = Path(args.source).expanduser() if args.source else fetched(BENCHMARK, downloaded, MD5)
            folder = _folder(path, unpacked := new / "unpacked")
            metadata = read_json(folder / "metadata.json", FILE, REMEDY)
            source = {"path": str(path), "sha256": sha256(path), "metadata": metadata}
            manifest = prepared(folder, args.split, new, args.theorems) | {"source": source}
            shutil.rmtree(unpacked, ignore_errors=True)
            outcome.write_json(new / "manifest.json", manifest)
        print(f"{(out / 'manifest.json').read_text(encoding='utf-8')}prepared {out}")


def _folder(path: Path, unpacked: Path) -> Path:
    """Return the folder with the splits. An archive at `path` is first unpacked into `unpacked`. Raises UserError."""
    if not path.is_dir():
        try:
            with tarfile.open(path) as archive:
                archive.extractall(unpacked, filter="data")
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise UserError(f"{path} can't be unpacked ({one_line(str(error), 150)}). {REMEDY}") from None
        path = unpacked
    found = next(path.rglob(f"{SPLITS[0]}/train.json"), None)
    if found is None:
        raise UserError(f"the source contains no {SPLITS[0]}/train.json, so it is not LeanDojo's data. {REMEDY}")
    return found.parents[1]


def prepared(folder: Path, split: str, out: Path, wanted: int) -> dict[str, Any]:
    """Write the pairs, and up to `wanted` theorems of each part, to `out`. Return the manifest. Raises UserError."""
    files = {part: folder / split / f"{part}.json" for part in ("train", "val", "test")}
    parts = {part: decoded(file, list[Traced], FILE, REMEDY) for part, file in files.items()}
    held_out = [*parts["val"], *parts["test"]]
    names = {theorem.full_name for theorem in held_out}
    states = {plain(theorem.traced_tactics[0].state_before) for theorem in held_out if theorem.traced_tactics}
    counts: Counter[str] = Counter()
    pairs.write(out / "pairs.jsonl", _kept(parts["train"], names, states, counts))
    if not counts[KEPT]:
        left_out = f"left out: {outcome.counts(counts)}" if counts else "no tactics"
        raise UserError(f"{split}/train.json contains no usable pair ({left_out}). {REMEDY}")
    wanted_of = {part: {each.full_name for each in parts[part]} for part in THEOREMS}
    wanted_of["train"] -= names
    theorems, statements = _theorems(folder, wanted_of, wanted) if wanted > 0 else ({}, {"lean": ""})
    for part, rows in theorems.items():
        outcome.write_json(out / THEOREMS[part], {"theorems": rows})
    return {
        "schema": 1,
        "split": split,
        "pairs": dict(counts.most_common()),
        "theorems": {THEOREMS[part]: len(rows) for part, rows in theorems.items()},
        "statements": statements,
        "files": {file.name: sha256(file) for file in sorted(out.glob("*.json*"))},
    }


def _kept(theorems: Sequence[Traced], names: set[str], states: set[str], counts: Counter[str]) -> Iterator[Pair]:
    """Yield each usable pair once, and count rows by reason. Theorems with `names` or first `states` are held out."""
    seen: set[tuple[str, str]] = set()
    for theorem in theorems:
        for step in theorem.traced_tactics:
            state, tactic = step.state_before.strip(), step.tactic.strip()
            key = plain(state), tactic
            is_held_out = theorem.full_name in names or key[0] in states
            why = HELD_OUT if is_held_out else _unusable(state, tactic) or (TWICE if key in seen else "")
            counts[why or KEPT] += 1
            if not why:
                seen.add(key)
                yield Pair(theorem.full_name, state, tactic)


def _unusable(state: str, tactic: str) -> str:
    """Return why a pair must not train a policy, or "" if it may."""
    if "⊢" not in state:
        return "no state"
    if len(state) > LONGEST_STATE:
        return f"a state over {LONGEST_STATE} characters"
    if not tactic:
        return "no tactic"
    if "\n" in tactic:
        return "a tactic of several lines"
    why = guard.refused(tactic)
    return f"a refused tactic: {why}" if why else ""


def _theorems(folder: Path, parts: dict[str, set[str]], wanted: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return up to `wanted` theorems of each part, and counts of omitted theorems with the Lean that was used.
    Theorems are tried in the order of their names' hashes. Without a Lean, no theorem is kept."""
    left: Counter[str] = Counter()
    known: dict[str, str] = {}
    for file in decoded(folder / "corpus.jsonl", File, FILE, REMEDY, is_lines=True):
        for premise in file.premises:
            if found := theorem_in(premise.code):
                if why := guard.refused_statement(found[1]):
                    left[f"refused: {why}"] += 1
                else:
                    known[premise.full_name] = found[1]
    try:
        lean = toolchain.find()
    except UserError as error:
        return {}, dict(left) | {"lean": f"no statement was kept, since {error}"}

    async def elaborated(part: set[str]) -> list[dict[str, str]]:
        names = sorted(part & known.keys(), key=lambda name: hashlib.sha256(name.encode()).digest())
        # Without Mathlib, perhaps no statement of the first batch elaborates. Then no more are tried.
        kept: list[dict[str, str]] = []
        async with Workers(lean, 2) as workers:
            for place in range(0, min(len(names), TRIES * wanted), BATCH):
                batch = names[place : place + BATCH]
                steps = await asyncio.gather(*(workers.run(known[name]) for name in batch))
                good = [name for name, step in zip(batch, steps, strict=True) if step.state and step.state.goals]
                left["not elaborated by itself"] += len(batch) - len(good)
                kept += [{"name": name, "statement": known[name]} for name in good]
                if len(kept) >= wanted or not kept:
                    break
        return kept[:wanted]

    kept = {part: rows for part, names in parts.items() if (rows := asyncio.run(elaborated(names)))}
    remedy = "" if kept else ". It accepted none. Set LEAN to a lake project with Mathlib"
    return kept, dict(left.most_common()) | {"lean": f"statements checked by {lean.name}{remedy}"}


if __name__ == "__main__":
    main()
