"""A step that takes longer than a second is announced on standard error, with its time so far."""

import time
from itertools import islice

import pytest

from core.base import terminal
from core.base.terminal import beats, heartbeat


def test_a_short_step_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with heartbeat("loading big.gguf"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_step_that_is_known_to_be_long_is_announced_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with heartbeat("loading big.gguf (4.1 GB)", "up to a minute", is_long=True):
        assert capsys.readouterr().err == "loading big.gguf (4.1 GB), up to a minute …\n"
    assert capsys.readouterr() == ("", "")


def test_a_step_is_announced_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "SECOND", 0.01)
    deadline = time.monotonic() + 30
    err = ""
    with heartbeat("loading big.gguf"):
        while not err and time.monotonic() < deadline:
            time.sleep(0.01)
            err = capsys.readouterr().err
    assert err == "loading big.gguf …\n"


def test_the_time_so_far_follows_every_ten_seconds_and_later_every_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "SECOND", 1)
    lines = list(islice(beats("loading", "some seconds"), 8))
    assert lines[0] == (1, "loading, some seconds …")
    assert [seconds for seconds, _ in lines[1:]] == [10, 20, 30, 40, 50, 60, 120]
    assert lines[-1] == (120, "loading: 120 s so far …")
