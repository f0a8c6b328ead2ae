"""The identity of a run: the constants in the keys of records and searches.

Runs of earlier versions resume only if keys stay the same. tests/cases/identities.json has a key
for each constant.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from core import constants
from core.base.files import ROOT
from core.client.journal import content_key
from core.constants import identity
from core.rsa import RsaConstants
from labs.endpoint import chat
from labs.lean.constants import (
    AblationConstants,
    ControlledConstants,
    IterationConstants,
    LeanConstants,
)
from labs.star.constants import StarConstants

KNOWN = json.loads((ROOT / "tests" / "cases" / "identities.json").read_text(encoding="utf-8"))
# STaR leaves them out if a run does not use them
UNUSED = {"ANSWER", *constants.rules(constants.Framed)}
PLACES: dict[str, tuple[type[Any], Callable[[Any], dict[str, Any]]]] = {
    "rounds of STaR": (
        StarConstants,
        lambda config: {k: v for k, v in identity(config).items() if k not in UNUSED},
    ),
    "searches": (ControlledConstants, lambda config: identity(config, LeanConstants)),
    "searches of an iteration": (
        IterationConstants,
        lambda config: identity(config, LeanConstants),
    ),
    "iteration": (IterationConstants, identity),
    "orders": (AblationConstants, lambda config: {**config.closed, **vars(config)}),
}


@pytest.mark.parametrize("place", PLACES)
def test_identities_are_those_of_earlier_versions(place: str) -> None:
    kind, identity = PLACES[place]
    for overrides, key in KNOWN[place].items():
        assert content_key(identity(constants.read(kind, {}, overrides.split()))) == key, overrides


def test_a_request_to_the_endpoint_may_set_the_constants_that_change_it() -> None:
    assert " ".join(chat.of_a_request(RsaConstants)) == (
        "N K T ORDER CARRY CARRY_TOKENS MAX_TOKENS TEMPERATURE TOP_P TOP_K MIN_P ANSWER_TOKENS "
        "ELICIT WAITS WAIT_WORD SEED"
    )
