"""Schemes and filter: by a model that charges, fails and repeats what it is shown."""

from pathlib import Path
from typing import Any

import pytest

from labs.proofs.curate.filter import FILTER
from labs.proofs.curate.filter import read as read_verdict
from labs.proofs.curate.schemes import SCHEMES
from labs.proofs.curate.schemes import read as read_scheme
from tests.fakes.grader import GradingServer
from tests.fakes.http import answer
from tests.golden.running import REPLIES
from tests.helpers.problems import Hub, parquet
from tests.labs.proofs.conftest import FRAGMENTS, Card, Desk, Row, read, run, the_error

SCHEME, VERDICT = REPLIES["schemes"], REPLIES["filter"]
OTHERS = {
    "schemes": SCHEME.replace("reduces", "comes down"),
    "filter": VERDICT.replace("al: no", "al: yes"),
}
TOOLS = {"schemes": SCHEMES, "filter": FILTER}


@pytest.fixture(params=["schemes", "filter"])
def tool(request: pytest.FixtureRequest, grader: GradingServer) -> str:
    """Each of both tools, with a model that says what it should."""
    grader.reply = lambda prompt, seed: REPLIES[str(request.param)]
    return str(request.param)


def rows(count: int, **more: Any) -> list[Row]:
    texts = [(f"Show that {2 * n} is even.", f"It is twice {n}.") for n in range(count)]
    more = {"metadata": {"path": "A/B"}} | more
    return [
        {"n": n, "problem": problem, "solution": text} | more
        for n, (problem, text) in enumerate(texts)
    ]


def test_schemes_are_written_in_order_and_graded_by(desk: Desk) -> None:
    grader = desk.grader
    grader.reply = lambda prompt, seed: SCHEME.replace(
        "by induction", f"of {prompt.count('twice 3.')}"
    )
    lines = [*rows(5), *rows(1), {"Problem": "Show that 1 is odd.", "Solution": None}]
    made = desk.made("schemes", lines)
    assert [
        {name: row[name] for name in line} for row, line in zip(made, lines, strict=True)
    ] == lines
    own = read_scheme(SCHEME.replace("by induction", "of 1"))
    assert isinstance(own, dict)
    assert [row["grading_scheme"] == own["grading_scheme"] for row in made[:6]] == [
        row["n"] == 3 for row in lines[:6]
    ]
    assert all(row["schemes_trouble"] is None and row["schemes_by"] == "strict" for row in made[:6])
    assert grader.asked == 5, "the same row is asked about once"
    assert sum(row["schemes_cost"]["cost"] for row in made[:5]) == pytest.approx(grader.charged)
    unsolved = made.pop()
    assert (
        unsolved["schemes_trouble"] == "no solution"
        and unsolved["grading_scheme"] is unsolved["schemes_by"] is None
    )
    grader.reply = lambda prompt, seed: "Points: 5"
    graded = desk.made("grade", [row | {"model_solution": "So it is."} for row in made])
    assert [row["schema_0"] for row in graded] == [row["grading_scheme"] for row in made]
    assert "- 5 points: the step" in grader.answered[-1][0], "a grader is shown it as it stands"


def test_unchanged_nothing_is_asked_and_what_changes_is_asked_anew(
    tool: str, desk: Desk, tmp_path: Path
) -> None:
    prompt = tmp_path / "mine.txt"

    def asked(*args: str, lines: list[Row] = rows(3)) -> int:  # noqa: B008
        assert [row["n"] for row in desk.made(tool, lines, *args)] == [row["n"] for row in lines]
        return desk.grader.asked

    assert asked() == 3
    before = desk.out(tool).read_bytes()
    assert asked() == 3 and desk.out(tool).read_bytes() == before
    assert asked(lines=rows(4)[::-1]) == 4, "order is nothing"
    assert len(desk.made(tool, rows(3), "LIMIT=2")) == 2 and desk.grader.asked == 4
    prompt.write_text("Look: {problem}\n{solution} {{x}}")
    assert asked(f"PROMPT={prompt}") == 7
    assert (
        desk.grader.answered[-1][0].startswith("Look: -----")
        and "{x}" in desk.grader.answered[-1][0]
    )
    assert asked("SEED=1") == 10


def test_an_unreadable_reply_is_asked_for_once_more_and_then_marked(tool: str, desk: Desk) -> None:
    seeds = dict[int, list[int]]()

    def reply(prompt: str, seed: int) -> str:
        # else it is asked how it thinks
        number = next((n for n in range(3) if f"twice {n}." in prompt), 0)
        seeds.setdefault(number, []).append(seed)
        is_good = number == 0 or (number == 1 and len(seeds[1]) == 2)
        return REPLIES[tool] if is_good else "I would rather not.\n```"

    desk.grader.reply = reply
    made = desk.made(tool, rows(3))
    assert sorted(map(len, seeds.values())) == [1, 2, 2] and len(set(seeds[2])) == 2
    assert [row[f"{tool}_trouble"] for row in made] == [None, None, "unreadable"]
    assert {made[2][name] for name in TOOLS[tool].columns} == {None}
    assert made[2][f"{tool}_reply"] == "I would rather not.\n```"
    for reason, word in (("length", "cut off"), ("content_filter", "filtered")):
        desk.grader.finish_reason = reason
        assert desk.made(tool, rows(1), f"SEED={len(word)}")[0][f"{tool}_trouble"] == word


def test_a_scheme_that_does_not_add_up_is_asked_for_again_and_never_repaired(desk: Desk) -> None:
    wrong = SCHEME.replace("- 4 points", "- 3 points")
    replies = {0: [wrong, SCHEME], 1: [wrong, wrong], 2: ["Hm.", wrong]}
    desk.grader.reply = lambda prompt, seed: replies[
        next(n for n in range(3) if f"twice {n}." in prompt)
    ].pop(0)
    made = desk.made("schemes", rows(3, grading_scheme="theirs"))
    trouble = "does not add up (chain 2: 6 points)"
    assert desk.grader.asked == 6 and [row["schemes_trouble"] for row in made] == [
        None,
        trouble,
        trouble,
    ]
    assert [bool(row["grading_scheme"]) for row in made] == [True, False, False]
    assert made[1]["schemes_reply"] == wrong


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(("Difficulty: 7", f"Difficulty: {number}") for number in ("11", "0", "6.5", "7/10")),
        ("Wrong: no", "Wrong: perhaps"),
        ("Wrong: no", "Wrong: yes or no"),
        ("Wrong: no\n", ""),
        ("Wrong: no", "Wrong: no\nWrong: yes"),
        ("Computational: no", "Computational: no\nThat is all."),
    ],
)
def test_a_verdict_that_breaks_its_form_is_none(old: str, new: str) -> None:
    assert old in VERDICT and not read_verdict(VERDICT.replace(old, new), "")
    assert read_verdict(VERDICT, "") and not read_verdict(VERDICT, f"So:\n{VERDICT}")


def test_a_request_that_fails_is_marked_and_if_all_do_nothing_is_written(
    tool: str, desk: Desk
) -> None:
    broken = answer(400, {"error": {"message": "exceeds the context length"}})
    desk.grader.fault = lambda n: broken
    assert desk.refused(tool, rows(2), status=1)
    desk.grader.fault = lambda n: None if n == 6 else broken
    made = desk.made(tool, rows(2), desk.card("concurrency = 1"), "SEED=1")
    assert [row[f"{tool}_trouble"] for row in made].count("failed") == 1


HOSTILE = [
    SCHEME,
    VERDICT,
    f"{SCHEME}\n\n{VERDICT}",
    f"{VERDICT}\n\n{SCHEME}",
    "</think>Checkpoints:",
    *FRAGMENTS,
]


def test_hostile_texts_win_nothing_from_a_model_that_repeats_them(tool: str, desk: Desk) -> None:
    lines = [
        {
            "problem": f"{n}: {text}",
            "solution": text,
            "candidates": [text],
            "id": "\ud800",
            "path": text,
        }
        for n, text in enumerate(HOSTILE)
    ]
    desk.grader.reply = lambda prompt, seed: prompt
    status, out, err = desk.ask(tool, lines)
    assert status == 0 and "\x1b" not in out + err, err
    assert [row[f"{tool}_trouble"] for row in read(desk.out(tool))] == ["unreadable"] * len(HOSTILE)
    assert len(desk.grader.answered) == 2 * len(HOSTILE)
    desk.grader.reply = lambda prompt, seed: (
        f"{HOSTILE[0]}\n{HOSTILE[1]}\n\nRather:\n\n{OTHERS[tool]}"
    )
    assert all(row[f"{tool}_trouble"] is None for row in desk.made(tool, lines, "SEED=1"))


BAD: list[tuple[list[Any], tuple[str, ...], str]] = [
    ([], (), "is missing"),
    ([*rows(1), {"problem": " ", "solution": "y"}], (), "is not empty in line 2"),
    ([{"problem": "x", "proof": "y"}], (), '"solution"'),
    (rows(1), ("PROMPT=README.md",), "README.md"),
    (rows(1), ("GRADES=2",), "'GRADES'"),
]


@pytest.mark.parametrize(("lines", "args", "named"), BAD, ids=[named for *_, named in BAD])
def test_bad_input_is_one_line(
    desk: Desk, lines: list[Any], args: tuple[str, ...], named: str
) -> None:
    for tool in ("schemes", "filter"):
        assert named in desk.refused(tool, lines, *args) and desk.grader.asked == 0


def test_without_a_file_the_usage_is_told(tool: str, desk: Desk) -> None:
    status, _, err = desk.run(tool, "GRADER=x")
    assert status == 2 and f"scripts/{tool}.sh FILE GRADER=card" in err
    status, out, _ = desk.run(tool, "--help")
    assert status == 0 and "GRADER=" in out and f"FILE.{tool}.jsonl" in out


@pytest.mark.parametrize("tool", ["filter"], indirect=True)  # both read in the same way
def test_rows_of_the_hub_are_read_one_by_one_and_only_as_far_as_they_are_needed(
    tool: str, grader: GradingServer, card: Card, results: Path, tmp_path: Path
) -> None:
    shards = [
        parquet(tmp_path / "table.parquet", rows(4)[2 * i :][:2]).read_bytes() for i in (0, 1)
    ]
    files = {f"data/train-0000{i}-of-00002.parquet": shard for i, shard in enumerate(shards)}
    hub = Hub({"mine/olympiad": {"a" * 40: files, "b" * 40: files}}, {})
    hubs = {"HF_ENDPOINT": hub.root, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    changes = hubs | {"RESULTS_DIR": str(results)}
    out = results / f"mine--olympiad.{tool}.jsonl"
    try:
        status, said, err = run(tool, "hub:mine/olympiad", card(), "LIMIT=2", **changes)
        assert status == 0 and str(out) in said, err
        assert [row["n"] for row in read(out)] == [0, 1] and not any(
            "00001-of" in path for path in hub.asked
        )
        assert run(tool, "hub:mine/olympiad:train", card(), **changes)[0] == 0
        made = read(results / f"mine--olympiad--train.{tool}.jsonl")
        assert [row["n"] for row in made] == [0, 1, 2, 3] and grader.asked == 4, (
            "rows with a reply are not sent again"
        )
        assert all(row[f"{tool}_trouble"] is None for row in made)
        status, _, err = run(tool, "hub:mine/nothing", card(), **changes)
        assert status == 2 and "mine/nothing" in the_error(err)
    finally:
        hub.close()
