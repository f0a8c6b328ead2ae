"""Write data/sums_graded.json: proofs by the embedded model, with points that are computed from
their lines.

    python -m labs.demo graded

Each held-out problem has the model's greedy proof (writer "greedy") and up to three different
proofs drawn at temperature 1 (writer "sampled"). In a quarter of the problems, the last proof is
cut off after one of its lines. In another quarter, the first sampled proof gets a wrong sum. The
model itself rarely makes these two errors. No person graded the proofs, so sums.points_of computes
their points. The journals in results/graded keep all samples."""

import argparse
import random
import re
from itertools import islice
from pathlib import Path

from core.base.files import DATA
from core.grading.ungraded import ungraded
from core.rsa import BASELINE
from harness.run import solve_sync
from labs.demo.make_sums import proof_rows, write
from labs.demo.sums import Term, held_out, points_of

NAME = "sums_graded"
SEED = 6
PROBLEMS = 40
TERMS = (3, 6)
DRAWN = 16  # sampled proofs of each problem
SAMPLED = 3  # most of them that are kept, all different
EVERY = 4  # of four problems, one has a proof that is cut off, and one has a proof with a wrong sum


def texts(
    rows: list[dict[str, object]], count: int, temperature: float, folder: Path
) -> list[list[str]]:
    """Sample `count` proofs of each problem in `rows`, and return the proofs of each problem."""
    results = solve_sync(
        BASELINE,
        rows,
        name=f"{NAME}_{count}",
        grader=ungraded,
        folder=folder,
        N=count,
        TEMPERATURE=temperature,
        MAX_TOKENS=600,
        ANSWER_TOKENS=0,
    )
    return [
        [results.completion(member).text.strip() for member in problem.steps[0].members]
        for problem in results.problems
    ]


def with_wrong_sum(proof: str, rng: random.Random) -> str:
    """Return the proof with one running sum that is 10 too large. Without a running sum, return it
    unchanged."""
    lines = proof.splitlines()
    sums = [i for i, line in enumerate(lines) if re.search(", .*=[0-9]+$", line)]
    if sums:
        i = rng.choice(sums)
        head, _, total = lines[i].rpartition("=")
        lines[i] = f"{head}={int(total) + 10}"
    return "\n".join(lines)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    problems = proof_rows(NAME, SEED, PROBLEMS, *TERMS)
    drawn = list(islice(held_out(SEED, *TERMS), PROBLEMS))
    folder = Path("results") / "graded"
    rng = random.Random(SEED)
    greedy = texts(problems, 1, 0.0, folder)
    sampled = texts(problems, DRAWN, 1.0, folder)
    entries: list[dict[str, object]] = []
    for i, (row, terms) in enumerate(zip(problems, drawn, strict=True)):
        [first] = greedy[i]
        different = [text for text in dict.fromkeys(sampled[i]) if text not in ("", first)]
        proofs = different[:SAMPLED]
        if proofs and i % EVERY == 0:
            proofs[-1] = cut_off(proofs[-1], rng.randrange(1, len(terms)))
        if proofs and i % EVERY == 2:
            proofs[0] = with_wrong_sum(proofs[0], rng)
        entries.append(entry(row, terms, first, "greedy"))
        entries.extend(entry(row, terms, proof, "sampled") for proof in proofs)
    write(DATA / f"{NAME}.json", entries)


def cut_off(proof: str, lines: int) -> str:
    return "\n".join(proof.splitlines()[:lines])


def entry(row: dict[str, object], terms: list[Term], proof: str, writer: str) -> dict[str, object]:
    """Return a line of the file: a problem with one proof and its points."""
    return {
        "problem_id": row["id"],
        "problem": row["problem"],
        "solution": row["solution"],
        "grading_guidelines": row["grading_guidelines"],
        "proof": proof,
        "points": points_of(terms, proof),
        "writer": writer,
    }
