"""Word problems: the files are what the program writes, the answers are right, and the two sets are
disjoint."""

import json
from collections import Counter

import pytest

from core.base.files import DATA
from harness.problems import sets
from labs.demo import make_words

# The first 42 problems have every template. Their answers were found by reading them, not by the
# program.
BY_HAND = (
    "9 13 13 8 26 125 54 36 85 2 10 14 13 104 26 1 7 32 12 42 34 2 9 112 14 91 38 5 26 77 21 18 14 "
    "2 22 31 5 3 143 8 44 60"
)  # fmt: skip
HASHES = {
    "words": "7bd5e873f8dfc3f9fd3327e67a21a94e116e3f4572ec1fd28e9560e576220391",
    "words_train": "66f271178d892b55570dadcaedb1bc55e1eb81e6c1da05e61ed40393a0df9534",
}


@pytest.mark.parametrize("name", make_words.SIZES)
def test_a_bundled_set_is_what_the_program_writes(name: str) -> None:
    assert (
        json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
        == make_words.bundled()[name]
    )
    loaded = sets.load(name)
    assert (loaded.sha256, len(loaded.problems)) == (HASHES[name], make_words.SIZES[name])
    levels = Counter(problem.columns["split"] for problem in loaded.problems)
    assert (
        levels.keys() == make_words.LEVELS.keys()
        and max(levels.values()) - min(levels.values()) <= 1
    )
    assert {problem.answer_type for problem in loaded.problems} == {"integer"}


def test_answers_are_right() -> None:
    assert [problem.answer for problem in sets.load("words").problems[:42]] == BY_HAND.split()


def test_training_problems_have_other_numbers() -> None:
    eval_rows, keys = make_words.rows("words", make_words.SIZES["words"], 1)
    train_rows, others = make_words.rows("words_train", make_words.SIZES["words_train"], 2, keys)
    statements = [row["problem"] for row in (*eval_rows, *train_rows)]
    assert not keys & others and len(set(statements)) == len(statements) == 800
