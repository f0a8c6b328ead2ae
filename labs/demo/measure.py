"""Measure the figures of the embedded model's card that no experiment prints.

    python -m labs.demo measure reworded trust PROBLEMS=data/sums_card.json
    python -m labs.demo measure agreement results/journal/02_rsa_basic.jsonl
    python -m labs.demo measure contest 02_rsa_basic 01_baseline 12_majority

`reworded` runs 02_rsa_basic with a wording of wordings.toml. NAME=value overrides are
allowed, but K must exceed 1. `agreement` prints how often thinking and solution agree, and how
often products and sums are right. `contest` compares the first results with each of the others,
problem by problem. From the first results, it takes the mean and a random member of the last
population. From the other results, it takes the vote or the selection."""

import json
import random
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from core.base import stats
from core.base.files import results_dir
from core.rsa import RSA
from harness.report import tables
from harness.results.find import path_of
from harness.results.read import read
from harness.run import run
from labs.demo import wordings

ROOT = Path(__file__).resolve().parents[2]
SEED = 1  # for drawing random members

PRODUCT = re.compile(r"(\d)\*(\d\d)=(\d+)")
SUM = re.compile(r"(\d+)\+(\d+)=(\d+)")
BOX = re.compile(r"\\boxed\{(\d+)\}")


def reworded(wording: str) -> None:
    """Run 02_rsa_basic with the prompts of another wording. Its results and journal are named
    embedded_reworded."""
    wordings.use(wording)
    constants = runpy.run_path(str(ROOT / "experiments" / "02_rsa_basic.py"))
    run(RSA, constants | {"__file__": "embedded_reworded.py"})


def agreement(journal: Path) -> None:
    """Print how often solutions in a journal agree with their thinking, and how often products and
    sums are right. Completions without thinking or without a box, such as verdicts, are left
    out."""
    agree: list[bool] = []  # whether the products in thinking and solution are equal
    products: list[bool] = []  # whether each product is right
    sums: list[bool] = []
    for line in journal.read_text(encoding="utf-8").splitlines():
        completion = json.loads(line)["completion"]
        thinking, answer = completion["thinking"], completion["answer"]
        if not thinking or not BOX.search(answer):
            continue
        written = PRODUCT.findall(answer)
        agree.append(PRODUCT.findall(thinking) == written)
        products += [int(a) * int(b) == int(c) for a, b, c in written]
        sums += [int(a) + int(b) == int(c) for a, b, c in SUM.findall(answer)]
    if not agree:
        raise SystemExit(
            f"{journal} has no solution with thinking and a box. Give the journal of a run on sums"
        )
    print(
        f"{len(agree)} solutions, and in {fmean(agree):.2%} the products in thinking and "
        "solution are equal"
    )
    print(
        f"{fmean(products):.2%} of {len(products)} products and {fmean(sums):.2%} of "
        f"{len(sums)} sums are right"
    )


def contest(name: str, others: list[str]) -> None:
    """Print the paired differences between the results `name` and the `others`, in percentage
    points."""
    _, problems = read(path_of(name, results_dir()))
    mean: dict[str, float] = {}
    member: dict[str, float] = {}
    for problem in problems:
        population = [float(each.correct is True) for each in problem.steps[-1].members]
        mean[problem.id] = sum(population) / len(population)
        member[problem.id] = random.Random(f"{SEED} {problem.id}").choice(population)
    for other in others:
        _, problems = read(path_of(other, results_dir()))
        votes = {problem.id: problem.steps[-1].majority_correct or 0.0 for problem in problems}
        common = [id for id in mean if id in votes]
        theirs = [votes[id] for id in common]
        print(f"{other}: {interval(theirs)} on {len(common)} problems")
        for figure, values in (("mean", mean), ("a member", member)):
            ours = [values[id] for id in common]
            change = stats.paired(theirs, ours)
            ahead = tables.shift(change.difference, change.low, change.high)
            p = tables.chance(change.p)
            print(f"  {name}, {figure}, has {interval(ours)}: {ahead}, p {p}")


def interval(values: Sequence[float]) -> str:
    return tables.interval(stats.mean_by_problem(values).to_json())


def main() -> None:
    match sys.argv[1:]:
        case ["reworded", wording, *overrides] if wording in wordings.REWORDED:
            sys.argv = [sys.argv[0], *overrides]
            reworded(wording)
        case ["contest", name, *others] if others:
            contest(name, others)
        case ["agreement", path]:
            agreement(Path(path))
        case ["-h" | "--help"]:
            print(__doc__)
        case _:
            raise SystemExit(__doc__)
