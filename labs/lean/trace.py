"""Trace a commit of Mathlib with LeanDojo, into a folder of the shape that leandojo.py reads. This runs where
`lean-dojo` is installed, as a program of its own: python labs/lean/trace.py REVISION OUT

A hash of its name decides which part a theorem is of, so that it does not move from one revision to the next.
"""

import hashlib
import json
import sys
from pathlib import Path

URL = "https://github.com/leanprover-community/mathlib4"
HELD_OUT = 2  # percent of theorems in each of val and test


def part_of(name: str) -> str:
    """The part that a theorem belongs to."""
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100
    return "val" if place < HELD_OUT else "test" if place < 2 * HELD_OUT else "train"


def main(revision: str, out: Path) -> None:
    import lean_dojo  # type: ignore[import-not-found]

    traced = lean_dojo.trace(lean_dojo.LeanGitRepo(URL, revision))
    parts: dict[str, list[dict[str, object]]] = {"train": [], "val": [], "test": []}
    for theorem in traced.get_traced_theorems():
        if theorem.repo.is_lean4:
            continue  # Lean's own library
        tactics = [
            {"tactic": each.tactic, "state_before": each.state_before, "state_after": each.state_after}
            for each in theorem.get_traced_tactics()
            if each.state_before != "no goals" and "·" not in each.tactic  # a dot's block is traced tactic by tactic
        ]
        row = {
            "url": theorem.repo.url,
            "commit": theorem.repo.commit,
            "file_path": str(theorem.theorem.file_path),
            "full_name": theorem.theorem.full_name,
            "traced_tactics": tactics,
        }
        parts[part_of(theorem.theorem.full_name)].append(row)
    folder = out / "random"
    folder.mkdir(parents=True)
    for part, rows in parts.items():
        (folder / f"{part}.json").write_text(json.dumps(rows), encoding="utf-8")
    with open(out / "corpus.jsonl", "w", encoding="utf-8") as corpus:
        for file in traced.traced_files:
            row = {"path": str(file.path), "imports": [], "premises": file.get_premise_definitions()}
            corpus.write(json.dumps(row) + "\n")
    told = {"from_repo": {"url": URL, "commit": traced.repo.commit}, "leandojo_version": lean_dojo.__version__}
    (out / "metadata.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
