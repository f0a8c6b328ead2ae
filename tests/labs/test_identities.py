"""The identity of a run: the constants that ledgers, records and searches are known by. Runs of earlier versions go on
only if these stay what they were, so that tests/cases/identities.json has a key for each constant that is changed."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from core import constants
from core.base.files import ROOT
from core.constants import rules
from core.generate.journal import content_key
from core.scaffolds.rsa import RsaConstants
from core.session import run
from labs.endpoint import app, chat
from labs.lean import iterate, searching
from labs.lean.constants import AblationConstants, ControlledConstants, IterationConstants, LeanConstants
from labs.proofs.curate.cli import CurateConstants
from labs.proofs.grade.asking import GradeConstants
from labs.proofs.grade.trial import TrialConstants
from labs.star import door
from labs.star.constants import StarConstants

KNOWN = json.loads((ROOT / "tests" / "cases" / "identities.json").read_text(encoding="utf-8"))


def ledger(config: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(config).items() if name not in run.SAME_RUN}


def star(config: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(config).items() if name not in door.SAME_RUN}


def search(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in rules(LeanConstants) if name not in searching.SAME_SEARCH}


def iteration(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in rules(type(config)) if name not in iterate.SAME_RUN}


PLACES: dict[str, tuple[type[Any], Callable[[Any], dict[str, Any]]]] = {
    "ledger of a run": (RsaConstants, ledger),
    "ledger of a grading": (GradeConstants, ledger),
    "ledger of a trial": (TrialConstants, ledger),
    "ledger of schemes and filter": (CurateConstants, ledger),
    "rounds of STaR": (StarConstants, star),
    "searches": (ControlledConstants, search),
    "searches of an iteration": (IterationConstants, search),
    "iteration": (IterationConstants, iteration),
    "orders": (AblationConstants, vars),
}


@pytest.mark.parametrize("place", PLACES)
def test_identities_are_those_of_earlier_versions(place: str) -> None:
    kind, identity = PLACES[place]
    for overrides, key in KNOWN[place].items():
        assert content_key(identity(constants.read(kind, {}, overrides.split()))) == key, overrides


def test_a_request_to_the_endpoint_may_set_what_is_neither_free_nor_of_the_problems() -> None:
    assert " ".join(chat.OF_A_REQUEST) == (
        "N K T ORDER CARRY CARRY_TOKENS MAX_TOKENS TEMPERATURE TOP_P TOP_K MIN_P SAMPLING ANSWER_TOKENS WAITS "
        "WAIT_WORD SEED RUNS"
    )
    assert " ".join(app.DEFAULTS) == (
        "MAX_TOKENS TEMPERATURE TOP_P TOP_K MIN_P SAMPLING ANSWER_TOKENS WAITS WAIT_WORD CONCURRENCY TIMEOUT "
        "STALL_SECONDS CARRY CARRY_TOKENS N K T ORDER"
    )
