"""Prepare training pairs for a real policy, and theorems to search: bash scripts/prepare_lean.sh.

The source is LeanDojo's traced Mathlib (Yang et al., arXiv 2306.15626): the archive "LeanDojo
Benchmark 4", or a folder with its files. The command writes pairs.jsonl (pairs.py), theorems.json
and theorems_test.json for THEOREMS, and manifest.json with the source, its checksum, and counts.

Pairs come only from the part "train". A pair is omitted if "val" or "test" contains a theorem with
the same name, or a theorem whose first state equals the pair's state. Tactics of several lines are
omitted too (ENDS=line). Theorems are kept only if Lean elaborates their statements. Many statements
fail without their file's namespaces.
"""

import hashlib
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from core.base.errors import Parser, UserError, command, one_line
from core.base.files import draft_of, make_folder, read_json, results_dir, sha256
from labs.lean import guard, outcome, pairs, toolchain
from labs.lean.pairs import Pair
from labs.lean.search import plain
from labs.lean.session import steps
from labs.lean.theorems import decoded, fetched, theorem_in
from labs.lean.toolchain import Toolchain

# Version 10: Mathlib of July 2024 (29dcec07), Lean 4.10, licence CC BY 2.0.
BENCHMARK = "https://zenodo.org/records/12740403/files/leandojo_benchmark_4.tar.gz"
MD5 = "25e1ee60cd8925b9d2e8673ddcc34b4c"
SPLIT = "random"  # the split of the theorems into parts
FILE, REMEDY = "LeanDojo's file", "Download it again, or use another file"
LONGEST_STATE = 8000  # characters
MOST, TRIED = 500, 2000  # most theorems to keep of a part, and most statements to try


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
        description="Extract pairs of a state and a tactic, and theorems with their statements, "
        "from LeanDojo's traced Mathlib. The default source is the archive "
        '"LeanDojo Benchmark 4" (68 MB), which is downloaded and checked.',
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PATH",
        help="a local source (a .tar.gz archive or a folder)",
    )
    with command():
        args = parser.parse_args(argv)
        here = results_dir() / "lean"
        make_folder(here)
        with draft_of(out := here / "prepared", "the prepared data") as new:
            make_folder(new)
            downloaded = here / "downloads" / Path(BENCHMARK).name
            path = (
                Path(args.source).expanduser()
                if args.source
                else fetched(BENCHMARK, downloaded, MD5)
            )
            folder = _folder(path, unpacked := new / "unpacked")
            metadata = read_json(folder / "metadata.json", FILE, REMEDY)
            source = {"path": str(path), "sha256": sha256(path), "metadata": metadata}
            manifest = prepared(folder, new) | {"source": source}
            shutil.rmtree(unpacked, ignore_errors=True)
            outcome.write_json(new / "manifest.json", manifest)
        print(f"{(out / 'manifest.json').read_text(encoding='utf-8')}prepared {out}")


def _folder(path: Path, unpacked: Path) -> Path:
    """Return the folder with the splits. An archive at `path` is first unpacked into `unpacked`.
    Raises UserError."""
    if not path.is_dir():
        try:
            with tarfile.open(path) as archive:
                archive.extractall(unpacked, filter="data")
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise UserError(
                f"{path} can't be unpacked ({one_line(str(error), 150)}). {REMEDY}"
            ) from None
        path = unpacked
    found = next(path.rglob(f"{SPLIT}/train.json"), None)
    if found is None:
        raise UserError(
            f"the source contains no {SPLIT}/train.json, so it is not LeanDojo's data. {REMEDY}"
        )
    return found.parents[1]


def prepared(folder: Path, out: Path) -> dict[str, Any]:
    """Write the pairs, and the theorems of each part, to `out`. Return the manifest. Raises
    UserError."""
    files = {part: folder / SPLIT / f"{part}.json" for part in ("train", "val", "test")}
    train, *held_out = (decoded(file, list[Traced], FILE, REMEDY) for file in files.values())
    others = [theorem for part in held_out for theorem in part]
    if not (kept := _kept(train, others)):
        raise UserError(f"{files['train']} contains no usable pair. {REMEDY}")
    pairs.write(out / "pairs.jsonl", kept)
    known = {
        premise.full_name: found[1]
        for file in decoded(folder / "corpus.jsonl", File, FILE, REMEDY, is_lines=True)
        for premise in file.premises
        if (found := theorem_in(premise.code))
    }
    parts = {
        "theorems.json": _names(train) - _names(others),
        "theorems_test.json": _names(held_out[1]),
    }
    counts: dict[str, int] = {}
    try:
        lean = toolchain.find()
        about = f"statements checked by {lean.name}"
        for name, names in parts.items():
            if rows := _elaborated({name: known[name] for name in names & known.keys()}, lean):
                outcome.write_json(out / name, {"theorems": rows})
                counts[name] = len(rows)
        about += "" if counts else ". It accepted none. Set LEAN to a lake project with Mathlib"
    except UserError as error:
        about = f"no statement was kept, since {error}"
    tactics = sum(len(theorem.traced_tactics) for theorem in train)
    return {
        "schema": 1,
        "split": SPLIT,
        "pairs": {"kept": len(kept), "left out": tactics - len(kept)},
        "theorems": counts,
        "lean": about,
        "files": {file.name: sha256(file) for file in sorted(out.glob("*.json*"))},
    }


def _names(theorems: Iterable[Traced]) -> set[str]:
    return {theorem.full_name for theorem in theorems}


def _kept(theorems: Sequence[Traced], held_out: Sequence[Traced]) -> list[Pair]:
    """Return each usable pair once, in the order of the proofs."""
    names = _names(held_out)
    states = {
        plain(theorem.traced_tactics[0].state_before)
        for theorem in held_out
        if theorem.traced_tactics
    }
    found: dict[tuple[str, str], Pair] = {}
    for theorem in theorems:
        for step in theorem.traced_tactics:
            state, tactic = step.state_before.strip(), step.tactic.strip()
            is_text = "⊢" in state and len(state) <= LONGEST_STATE and "\n" not in tactic
            is_held_out = theorem.full_name in names or plain(state) in states
            if is_text and not is_held_out and not guard.refused(tactic):
                found.setdefault((plain(state), tactic), Pair(theorem.full_name, state, tactic))
    return list(found.values())


def _elaborated(statements: Mapping[str, str], lean: Toolchain) -> list[dict[str, str]]:
    """Return up to MOST theorems whose statements elaborate, in the order of their names'
    hashes."""
    names = sorted(statements, key=lambda name: hashlib.sha256(name.encode()).digest())[:TRIED]
    tried = zip(names, steps(lean, 2, [(statements[name], ()) for name in names]), strict=True)
    good = [name for name, step in tried if step.state and step.state.goals]
    return [{"name": name, "statement": statements[name]} for name in good[:MOST]]


if __name__ == "__main__":
    main()
