"""Run the scripts of scripts/ as a user does, and note which tests run which script."""

import subprocess
from collections.abc import Callable
from typing import TypeVar

from tests.conftest import ROOT, environment

T = TypeVar("T", bound=Callable[..., object])
Done = subprocess.CompletedProcess[str]
# a script, and the name of the test that runs it in a process with an effect
TESTED: dict[str, str] = {}


def runs(*scripts: str) -> Callable[[T], T]:
    """Note that the decorated test runs `scripts`, which are paths in scripts/."""

    def note(test: T) -> T:
        TESTED.update(dict.fromkeys(scripts, test.__qualname__))
        return test

    return note


def script(name: str, *args: object, **changes: str) -> Done:
    """Run a script of this checkout to its end."""
    command = ["bash", str(ROOT / "scripts" / name), *map(str, args)]
    return subprocess.run(
        command, env=environment(**changes), capture_output=True, text=True, timeout=300
    )


def output(name: str, *args: object, **changes: str) -> str:
    """Return the standard output of a script that succeeds."""
    done = script(name, *args, **changes)
    assert done.returncode == 0, done.stderr
    return done.stdout
