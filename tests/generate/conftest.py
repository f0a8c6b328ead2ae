"""Fixture: a scripted server."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.fakes.moody import Moody


@pytest.fixture
def moody() -> Iterator[Moody]:
    with closing(Moody()) as moody:
        yield moody
