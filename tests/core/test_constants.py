"""Constants: read, overridden and checked, with errors that name a close match and the help."""

from dataclasses import replace
from typing import Any

import pytest

from core import command_line, constants
from core.base.errors import UserError
from core.base.files import ROOT
from core.constants import Asking, Carrying, Constants, Paid, Sampled, Served, constant, identity
from core.rsa import RSA, RsaConstants
from core.types import Sampling
from harness import experiment_file
from harness.scaffolds import math_agent, nomos

PATH = str(ROOT / "experiments" / "02_rsa_basic.py")
FILE: dict[str, Any] = {
    "__file__": PATH,
    "run": len,
    "N": 8,
    "K": 3,
    "TEMPERATURE": 0.7,
    "_P": 1,
    "RSA": RSA,
}


def read(overrides: list[str], **changes: Any) -> RsaConstants:
    return constants.read(RsaConstants, FILE | changes, overrides)


def test_constants_are_the_upper_case_names_with_defaults_below_and_overrides_on_top() -> None:
    config = read(["N=16", "TEMPERATURE=1", "TOP_K=20"])
    assert (config.N, config.K, config.TEMPERATURE, config.TOP_K) == (16, 3, 1.0, 20)
    assert isinstance(config.N, int) and isinstance(config.TEMPERATURE, float)
    assert config == replace(RsaConstants(), N=16, TEMPERATURE=1.0, TOP_K=20)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("TAU=3", "'TAU'"),
        ("N", "NAME=value"),
        ("N=", "N="),
        ("N=three", "N=three"),
        ("N=8.5", "N=8.5"),
        ("N=0", "N=0"),
        ("N=2000000", "1,024"),
        ("TEMPERATURE=nan", "TEMPERATURE=nan"),
        ("CARRY=everything", "answer, tail, full"),
        ("K=9", "N=8"),
        ("n=4", "N=4?"),
        ("--temperature=0.2", "TEMPERATURE=0.2?"),
        ("TEMP=1", "TEMPERATURE=1?"),
        ("MAXTOKENS=9", "MAX_TOKENS=9?"),
        ("--model=owner/name", "MODEL=owner/name before"),
    ],
)
def test_a_wrong_override_is_one_line_with_a_close_match_and_the_help(
    override: str, words: str
) -> None:
    with pytest.raises(UserError) as raised:
        read([override])
    message = str(raised.value)
    assert words in message and "\n" not in message and len(message) < 200
    assert message.endswith("bash scripts/run.sh 02_rsa_basic --help")


def test_a_key_among_the_overrides_is_refused_and_not_shown() -> None:
    with pytest.raises(UserError, match="API_KEY") as raised:
        read(["API_KEY=secret"])
    assert "secret" not in str(raised.value)


def test_constants_are_explained_within_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = command_line.help_text(RsaConstants, {"__doc__": "word " * 40, "N": 16}).splitlines()
    assert max(map(len, shown)) <= 80 and any(line.startswith("  N=16 ") for line in shown)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: math_agent.Constants(CALLS=15, K=1), "K=1"),
        (lambda: nomos.Constants(MINUTES=5, ROUNDS=0), "MINUTES=5"),
        (lambda: replace(RsaConstants(), N=2), "K=3"),
    ],
)
def test_constants_that_contradict_each_other_are_refused(build: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        build()


@pytest.mark.parametrize(
    "changes",
    [
        {"N": True},
        {"N": None},
        {"CARRY": 3},
        {"ORDER": "used"},
        {"SIZE": 3},
        {"N": 8.5},
        {"N": float("inf")},
    ],
)
def test_a_wrong_constant_in_the_file_is_found(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(changes))):
        read([], **changes)
    assert read([], N="8").N == 8, "text is converted, as on the command line"


def test_unknown_constants_in_the_file_are_listed_with_their_close_matches() -> None:
    with pytest.raises(UserError) as raised:
        read([], MAX_TOKEN=100, NN=4)
    message = str(raised.value)
    assert "'MAX_TOKEN', 'NN'" in message and "MAX_TOKENS=100? Did you mean N=4?" in message


def test_a_scaffold_may_change_a_default_and_add_a_constant_with_its_own_rule() -> None:
    class Own(Carrying):
        CARRY: str = constant("full", "what is shown", choices=("answer", "full"))
        DEPTH: int = constant(2, "levels", 1, 3)

    assert constants.read(Own, {}, ["DEPTH=3"]) == Own(DEPTH=3, CARRY="full")
    with pytest.raises(UserError, match="DEPTH=4 .* 1 to 3"):
        constants.read(Own, {}, ["DEPTH=4"])


class Searching(Paid, Asking):
    """A lab's, with one free constant of its own."""

    DEPTH: int = constant(2, "levels", 1, 3, free=True)


def test_a_lab_inherits_the_parts_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [
        "Sampled",
        "Reasoning",
        "Forced",
        "Waiting",
        "Framed",
        "Answered",
        "Shuffled",
        "OnProblems",
        "Seeded",
        "Repeated",
        "Served",
        "Paid",
    ]
    names = [name for part in named for name in constants.rules(getattr(constants, part))]
    assert names == list(constants.rules(Constants)) == list(vars(Constants())), (
        "in the order of --help"
    )
    monkeypatch.setenv("PROBLEMS", "mine.json")
    assert constants.read(Searching, {}) == Searching(), "it has no PROBLEMS"
    assert [read(given, PROBLEMS="auto").PROBLEMS for given in ([], ["PROBLEMS=sums"])] == [
        "mine.json",
        "sums",
    ]
    assert Sampling.from_config(Searching(TOP_K=9)) == Sampling(top_k=9), (
        "no forced answer, no waits"
    )
    for name in ("RUNS", "ANSWER_TOKENS", "LIMIT", "PROBLEMS"):
        with pytest.raises(UserError, match=f"'{name}'"):
            constants.read(Searching, {}, [f"{name}=0"])


def test_a_run_is_known_by_the_constants_that_are_not_free() -> None:
    known = identity(Searching())
    assert list(known) == [*constants.rules(Sampled), "SEED"]
    assert (
        identity(Searching(DEPTH=3, CONCURRENCY=1, TIMEOUT=9, STALL_SECONDS=9, MAX_DOLLARS=9))
        == known
    )
    assert identity(Searching(SEED=1)) == known | {"SEED": 1}
    assert identity(Searching(SEED=1), Served) == {}


def test_each_constant_of_an_experiment_may_have_another_value() -> None:
    for path in experiment_file.paths():
        for rule in constants.rules(experiment_file.load(path.stem).planned.constants).values():
            assert len(rule.choices) > 1 or (
                not rule.choices and (rule.type is str or rule.low < rule.high)
            )
