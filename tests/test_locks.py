"""The locks: everything that setup.sh installs from them is inside the ranges, pinned, and has
hashes."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "locks").glob("*.lock"))
SHARE_A_VENV = ("fleet", "inspect", "gym", "lean", "dev")


def pinned(lock: Path) -> dict[str, list[str]]:
    """Versions by package (several where platforms or Pythons differ); every entry has a hash."""
    found: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", lock.read_text().strip()):
        requirement = Requirement(entry.partition(" \\")[0])
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), entry[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), f"{entry[:80]} has no hash"
        found.setdefault(canonicalize_name(requirement.name), []).append(
            str(requirement.specifier)[2:]
        )
    return found


def ranges(file: Path) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("-r")]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_holds_every_requirement_within_its_range(lock: Path) -> None:
    versions = pinned(lock)
    part = lock.stem.partition("-")[2]
    if part in SHARE_A_VENV:  # installed together with the harness
        harness = pinned(ROOT / "locks" / "requirements.lock")
        assert not versions.keys() & harness.keys()  # one version of each in a venv
        versions |= harness
    for requirement in ranges(ROOT / f"{lock.stem}.txt"):
        for version in versions[canonicalize_name(requirement.name)]:
            assert requirement.specifier.contains(version), (
                f"{requirement} is not {version}: bash scripts/lock.sh"
            )


def test_what_shares_a_venv_agrees() -> None:
    first: dict[str, list[str]] = {}
    for part in SHARE_A_VENV:
        for name, versions in pinned(ROOT / "locks" / f"requirements-{part}.lock").items():
            assert first.setdefault(name, versions) == versions, name


def test_the_harness_and_its_tests_have_locks() -> None:
    assert {lock.stem for lock in LOCKS} >= {
        "requirements",
        *(f"requirements-{part}" for part in SHARE_A_VENV),
    }
