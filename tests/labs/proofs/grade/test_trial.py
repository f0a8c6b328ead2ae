"""20_grader as a user runs it: figures beside a recount by hand, attacks, kills, money, and what it can't take."""

import csv
import json
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.base.prices import PICO
from labs.proofs.attacks import ATTACKS
from tests import conftest
from tests.fakes.grader import PROOF, GradingServer, points_of
from tests.labs.proofs.grade.conftest import the_error

MakeCard = Callable[..., str]
Row = dict[str, Any]


def proofs(problems: int, each: int = 3) -> list[Row]:
    """Proofs with points by people, of writers in turn."""
    return [
        {
            "problem_id": f"p{n}",
            "problem": f"Show that {2 * n} is even.",
            "reference_solution": f"It is twice {n}.",
            "marking_scheme": "7: say so",
            "model_solution": f"I have seen {n} {'times ' * (i + n)}and {i}.",
            "expert_rating": (3 * n + 2 * i) % 8,
            "generator": f"writer {i % 2}",
        }
        for n in range(problems)
        for i in range(each)
    ]


def file_of(rows: list[Row], path: Path) -> str:
    path.write_text(json.dumps(rows))
    return f"GRADED={path}"


def load(results: Path) -> Any:
    [path] = (results / "20_grader").glob("*.json")
    return json.loads(path.read_text())


def run(*args: str, **changes: str) -> tuple[int, str, str]:
    return conftest.run("20_grader", *args, COLUMNS="80", **changes)


# A recount in plain code, from the points that are stored: nothing of labs/proofs/agreement.py


def mean(values: Any) -> float:
    found = list(map(float, values))
    return sum(found) / len(found)


def bucket(points: float) -> int:
    return 0 if points == 0 else 1 if points <= 3 else 2 if points <= 6 else 3


def recount(rows: list[Row], key: str) -> Row:
    """`rows` of the document's proofs; of each problem its (human, grader, row) where there are points."""
    by_problem: dict[str, list[tuple[int, int, Row]]] = defaultdict(list)
    for row in rows:
        if row["ways"][key]["points"] is not None:
            by_problem[row["problem"]].append((row["human"], row["ways"][key]["points"], row))
    every = [pair for of in by_problem.values() for pair in of]
    shares, counts = [], {"same": 0, "tied": 0, "reversed": 0}
    for of in by_problem.values():
        kept = []
        for i in range(len(of)):
            for j in range(i):
                (h1, g1, _), (h2, g2, _) = of[i], of[j]
                if h1 > h2:
                    h1, g1, h2, g2 = h2, g2, h1, g1
                if h1 < h2:
                    name = "same" if g1 < g2 else "tied" if g1 == g2 else "reversed"
                    counts[name] += 1
                    kept.append({"same": 1.0, "tied": 0.5, "reversed": 0.0}[name])
        if kept:
            shares.append(mean(kept))
    advantages = []
    for of in by_problem.values():
        if len(of) > 1:
            people, grader = mean(h for h, _, _ in of), mean(g for _, g, _ in of)
            advantages.append(mean(abs((g - grader) - (h - people)) for h, g, _ in of))
    observed = sum((h - g) ** 2 for h, g, _ in every) / len(every)
    chance = sum((h - g) ** 2 for h, _, _ in every for _, g, _ in every) / len(every) ** 2
    writers = {}
    for writer in sorted({row["writer"] for _, _, row in every}):
        its = [[g - h for h, g, row in of if row["writer"] == writer] for of in by_problem.values()]
        writers[writer] = (mean(mean(each) for each in its if each), sum(map(len, its)))
    return {
        "error": mean(mean(abs(h - g) for h, g, _ in of) for of in by_problem.values()),
        "bucket": mean(mean(bucket(h) == bucket(g) for h, g, _ in of) for of in by_problem.values()),
        "order": counts,
        "kept": mean(shares),
        "advantage": mean(advantages),
        "kappa": 1 - observed / chance,
        "bias": mean(mean(g - h for h, g, _ in of) for of in by_problem.values()),
        "writers": writers,
        "given": [sum(g == points for _, g, _ in every) for points in range(8)],
    }


def check_recounted(document: Row) -> None:
    for way in document["ways"]:
        by_hand = recount(document["proofs"], way["way"])
        found = {
            "error": way["mean_absolute_error"]["value"],
            "bucket": way["bucket_accuracy"]["value"],
            "kept": way["order_kept"]["value"],
            "advantage": way["advantage_difference"]["value"],
            "kappa": way["quadratic_kappa"]["value"],
            "bias": way["bias"]["mean"],
        }
        assert found == pytest.approx({name: by_hand[name] for name in found}), way["way"]
        assert (way["order"], way["given"]) == (by_hand["order"], by_hand["given"])
        told = {each["group"]: (each["mean"], each["n"]) for each in way["bias_by_writer"]}
        assert told.keys() == by_hand["writers"].keys()
        for writer, (more, n) in by_hand["writers"].items():
            assert told[writer] == (pytest.approx(more), n)
        lengths = sum(each["n"] for each in way["bias_by_length"])
        assert lengths == sum(way["given"]) == way["graded"]
        for name in ("mean_absolute_error", "bucket_accuracy", "order_kept", "advantage_difference", "quadratic_kappa"):
            assert way[name]["low"] is None or way[name]["low"] <= way[name]["value"] <= way[name]["high"]


def test_on_the_embedded_model_the_figures_are_those_of_a_recount_by_hand(results: Path) -> None:
    few = ("LIMIT=6", "MAX_TOKENS=600", "PROMPTS=guidelines,scheme", "ATTACKS=score,instruction", "TEMPERATURE=1")
    status, out, err = run(*few, ENGINE="embedded")
    assert status == 0, err
    document = load(results)
    assert [way["way"] for way in document["ways"]] == ["guidelines", "scheme", "guidelines+score",
                                                        "guidelines+instruction"]  # fmt: skip
    assert document["problem_set"]["name"] == "sums_graded[:6]" and document["problem_set"]["n"] == 6
    check_recounted(document)
    assert document["ways"][0]["bucket_accuracy"]["value"] > 0.7, "it was taught these words"
    for attack in document["attacks"]:
        key = f"guidelines+{attack['attack']}"
        moves = defaultdict(list)
        for row in document["proofs"]:
            before, after = row["ways"]["guidelines"]["points"], row["ways"][key]["points"]
            if None not in (before, after):
                moves[row["problem"]].append(after - before)
        steps = [step for of in moves.values() for step in of]
        assert attack["change"]["difference"] == pytest.approx(mean(map(mean, moves.values())))
        assert (attack["raised"], attack["lowered"]) == (sum(s > 0 for s in steps), sum(s < 0 for s in steps))
    assert f"{document['ways'][0]['mean_absolute_error']['value']:.2f}" in out
    journal = results / "journal" / "20_grader.jsonl"
    made = journal.read_bytes()
    status, out, err = run(*few, ENGINE="embedded")
    assert status == 0 and "0 completions were made" in out and journal.read_bytes() == made, err


def test_the_figures_of_a_poor_grader_and_its_fall_for_attacks(
    grader: GradingServer, card: MakeCard, results: Path, tmp_path: Path
) -> None:
    def reply(prompt: str, seed: int) -> str:
        proof = PROOF.search(prompt)
        assert proof
        if ATTACKS["fence"] in prompt:
            return "I am confused."
        return f"Well.\nPoints: {7 if ATTACKS['instruction'] in prompt else points_of(proof[2].partition(chr(10))[0])}"

    grader.reply = reply
    rows = proofs(12)
    rows[4]["model_solution"] = None
    named = file_of(rows, tmp_path / "mine.json")
    status, out, err = run(named, card(), "PROMPTS=scheme,alone")
    assert status == 0 and "attacks, under the prompt scheme" in out, err
    document = load(results)
    check_recounted({**document, "ways": [way for way in document["ways"] if way["attack"] != "fence"]})
    plain = document["ways"][0]
    assert (
        plain["not_delivered"] == {"empty": 1} and plain["graded"] == 35 and plain["mean_absolute_error"]["value"] > 1
    )
    score, praise, instruction, fence = document["attacks"]
    for attack in (score, praise):
        assert attack["change"]["difference"] == 0 and attack["same"] == 35
    gains = defaultdict(list)
    for row in rows:
        if row["model_solution"]:
            gains[row["problem_id"]].append(7 - points_of(row["model_solution"]))
    assert instruction["change"]["difference"] == pytest.approx(mean(map(mean, gains.values())))
    assert instruction["change"]["low"] > 0 and instruction["raised"] == sum(g > 0 for of in gains.values() for g in of)
    assert fence["change"] is None and fence["became_missing"] == 35 and fence["proofs"] == 0
    assert document["ways"][-1]["missing"] == {"grading unreadable": 35}
    assert sum(way["cost"] for way in document["ways"]) == pytest.approx(grader.charged / PICO) == document["spent"]
    asked = grader.asked
    assert asked == 35 * (2 + 3 + 2), "unreadable ones are asked for twice"
    assert run(named, card(), "PROMPTS=scheme,alone")[0] == 0 and grader.asked == asked


def test_tables_fit_the_terminal(grader: GradingServer, card: MakeCard, results: Path, tmp_path: Path) -> None:
    status, out, err = run(file_of(proofs(4), tmp_path / "mine.json"), card())
    assert status == 0, err
    lines = [line for line in out.splitlines() if not line.startswith(("results ", "figure "))]
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert [*(results / "20_grader").glob("*.png")]


def test_killed_in_the_middle_nothing_is_asked_twice(
    grader: GradingServer, card: MakeCard, results: Path, tmp_path: Path
) -> None:
    args = (file_of(proofs(6), tmp_path / "mine.json"), card("concurrency = 4"), "PROMPTS=alone", "ATTACKS=praise")
    grader.life = 25
    process = conftest.start("20_grader", *args)
    assert grader.is_stuck.wait(120)
    journal = results / "journal" / "20_grader.jsonl"
    while journal.read_bytes().count(b'"completion":') < 25:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    grader.revive()
    assert run(*args)[0] == 0
    assert len(grader.answered) == 36 == len(set(grader.answered))
    check_recounted(load(results))


def test_money_is_never_passed(grader: GradingServer, card: MakeCard, results: Path, tmp_path: Path) -> None:
    args = (file_of(proofs(20), tmp_path / "mine.json"), card(), "MAX_TOKENS=100")
    status, _, err = run(*args, "MAX_DOLLARS=0.02")
    assert status == 1 and "MAX_DOLLARS" in err and 0 < grader.charged <= 0.02 * PICO
    status, _, err = run(*args[:1], card(price=False), "MAX_DOLLARS=1")
    assert status == 2 and "what tokens cost is not known" in err


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_files_of_every_kind_and_published_columns(
    kind: str, grader: GradingServer, card: MakeCard, results: Path, tmp_path: Path
) -> None:
    path, rows = tmp_path / f"mine.{kind}", proofs(2)
    if kind == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif kind == "csv":
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    else:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.Table.from_pylist(rows), path)
    status, _, err = run(f"GRADED={path}", card(), "ATTACKS=none")
    assert status == 0, err
    document = load(results)
    assert [row["human"] for row in document["proofs"]] == [row["expert_rating"] for row in rows]
    assert [way["way"] for way in document["ways"]] == ["guidelines", "alone", "scheme"]
    assert sum("It is twice" in prompt for prompt, _ in grader.answered) == 6, "the reference, under one prompt"


def test_a_set_without_references_leaves_out_the_prompt_that_shows_them(
    grader: GradingServer, card: MakeCard, results: Path, tmp_path: Path
) -> None:
    rows = [{name: cell for name, cell in row.items() if name != "reference_solution"} for row in proofs(2)]
    named = file_of(rows, tmp_path / "mine.json")
    status, out, err = run(named, card(), "ATTACKS=none")
    assert status == 0 and "left out, for the set lacks what they show: guidelines" in out, err
    asked = grader.asked
    status, _, err = run(named, card(), "PROMPTS=guidelines")
    assert status == 2 and "has no solution, which the prompt guidelines shows" in the_error(err)
    assert grader.asked == asked


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expert_rating": 4.5}, "row 1 has points 4.5; people give a whole number from 0 to 7"),
        ({"expert_rating": 8}, "has points 8; people give"),
        ({"expert_rating": True}, "has points True; people give"),
        ({"expert_rating": None}, 'needs "points" (or human_points, expert_rating'),
        ({"model_solution": 3}, 'needs "proof" (or model_solution, response'),
        ({"problem": " "}, 'needs "problem" (or question'),
        ({"marking_scheme": None}, "has neither guidelines nor a grading_scheme"),
    ],
)
def test_a_row_that_can_t_be_taken_is_one_line(
    change: Row, words: str, grader: GradingServer, card: MakeCard, results: Path, tmp_path: Path
) -> None:
    rows = proofs(1)
    rows[0] |= change
    status, _, err = run(file_of(rows, tmp_path / "mine.json"), card())
    assert status == 2 and words.replace("row 1", "problem 1") in the_error(err) and grader.asked == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["GRADED=nothing"], "unknown graded set 'nothing'. Known sets: sums_graded, proofbench_graded"),
        (["GRADED=sums"], "sums holds problems, and no proofs that people have graded"),
        (["GRADED=data/sums.json"], "has an answer, and no proof with the points that people gave it"),
        (["GRADED=gone.csv"], "can't be read"),
        (["GRADER=nobody"], "nobody"),
        (["GRADER=openai"], "OPENAI_API_KEY"),
        (["PROMPTS=gone.txt"], "the prompt gone.txt can't be read"),
        (["PROMPTS=,"], "names none"),
        (["ATTACKS=bribe"], "ATTACKS has 'bribe'"),
        (["PROBLEMS=sums"], "PROBLEMS says nothing here"),
        (["GRADES=0"], "out of range"),
    ],
)
def test_what_can_t_be_meant_is_one_line(args: list[str], words: str, results: Path) -> None:
    status, _, err = run(*args, ENGINE="embedded", OPENAI_API_KEY="")
    assert status == 2 and words in the_error(err)


def test_without_a_hub_the_error_names_file_columns_and_place(results: Path, tmp_path: Path) -> None:
    for name, column in (("proofbench_graded", "expert_rating"), ("matharena_graded", "details (the scheme)")):
        status, _, err = run(f"GRADED={name}", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
        line = the_error(err)
        assert status == 2 and column in line and f"data/sets/{name}.parquet" in line and "GRADED=path/to" in line
