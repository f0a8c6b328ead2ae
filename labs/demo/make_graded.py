"""Write data/sums_graded.json: proofs by the embedded model, with points that are computed from
their lines.

    python -m labs.demo.make_graded

Each held-out problem has the model's greedy proof (writer "greedy") and up to three different
proofs drawn at temperature 1 (writer "sampled"). In a quarter of the problems, the last proof is
cut off after one of its lines. In another quarter, the first sampled proof gets a wrong sum. The
model itself rarely makes these two errors. No person graded the proofs, so sums.points_of computes
their points. The journals in results/graded keep all samples."""

import random
import re
from itertools import islice
from pathlib import Path

from core.base.files import DATA
from core.grading.ungraded import ungraded
from core.rsa import BASELINE
from harness.run import solve_sync
from labs.demo.make_sums import proof_rows, write
from labs.demo.sums import held_out, points_of

NAME, SEED, PROBLEMS, TERMS = "sums_graded", 6, 40, (3, 6)
# most sampled proofs that are kept (all different), and number drawn, for each problem
SAMPLED, DRAWN = 3, 16
EVERY = 4  # of four problems, one has a proof that is cut off, and one has a proof with a wrong sum


def texts(
    rows: list[dict[str, object]], count: int, temperature: float, folder: Path
) -> list[list[str]]:
    """Sample `count` proofs of each problem in `rows`, and return the proofs of each problem."""
    results = solve_sync(
        BASELINE, rows, name=f"{NAME}_{count}", grader=ungraded, folder=folder, N=count, TEMPERATURE=temperature,
        MAX_TOKENS=600, ANSWER_TOKENS=0,
    )  # fmt: skip
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
        place = rng.choice(sums)
        head, _, total = lines[place].rpartition("=")
        lines[place] = f"{head}={int(total) + 10}"
    return "\n".join(lines)


def main() -> None:
    problems = proof_rows(NAME, SEED, PROBLEMS, *TERMS)
    drawn = list(islice(held_out(SEED, *TERMS), PROBLEMS))
    folder, rng = Path("results") / "graded", random.Random(SEED)
    greedy = texts(problems, 1, 0.0, folder)
    sampled = texts(problems, DRAWN, 1.0, folder)
    entries: list[dict[str, object]] = []
    for number, (row, terms, [first], others) in enumerate(
        zip(problems, drawn, greedy, sampled, strict=True)
    ):
        kept = [text for text in dict.fromkeys(others) if text not in ("", first)][:SAMPLED]
        if kept and number % EVERY == 0:
            kept[-1] = "\n".join(kept[-1].splitlines()[: rng.randrange(1, len(terms))])
        if kept and number % EVERY == 2:
            kept[0] = with_wrong_sum(kept[0], rng)
        asked = {
            "problem_id": row["id"],
            **{name: row[name] for name in ("problem", "solution", "grading_guidelines")},
        }
        for writer, text in [("greedy", first), *(("sampled", text) for text in kept)]:
            entries.append(
                asked | {"proof": text, "points": points_of(terms, text), "writer": writer}
            )
    write(DATA / f"{NAME}.json", entries)


if __name__ == "__main__":
    main()
