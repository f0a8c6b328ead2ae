"""Names that tell results apart."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.report.labels import labels


@dataclass
class Named:
    name: str
    head: Any


def named(name: str, experiment: str, config: dict[str, Any]) -> Named:
    return Named(name, SimpleNamespace(experiment=experiment, config=config))


def rsa(name: str, **config: Any) -> Named:
    return named(name, "02_rsa_basic", {"N": 8, "K": 3, "SEED": 0} | config)


def test_results_are_told_apart_by_the_constants_that_differ_if_any_do() -> None:
    assert labels([rsa("02_rsa_basic"), named("07_nomos", "07_nomos", {"N": 4})]) == ["02_rsa_basic", "07_nomos"]
    several = [rsa("02_rsa_basic"), rsa("02_rsa_basic.20261122-142237", K=1), rsa("02_rsa_basic.20261122-1", SEED=7)]
    assert labels(several) == ["02_rsa_basic K=3 SEED=0", "02_rsa_basic K=1 SEED=0", "02_rsa_basic K=3 SEED=7"]
    same = [rsa("02_rsa_basic"), rsa("02_rsa_basic.20261122-142237")]
    assert labels(same) == ["02_rsa_basic", "02_rsa_basic.20261122-142237"]
    pairs = [*several[:2], rsa("02_rsa_basic.20261122-3")]
    assert labels(pairs) == ["02_rsa_basic", "02_rsa_basic K=1", "02_rsa_basic.20261122-3"]


@given(
    st.lists(
        st.builds(
            named, st.text(max_size=30), st.text(max_size=30), st.dictionaries(st.text(max_size=9), st.integers())
        ),
        max_size=6,
    ),
    st.integers(10, 60),
)
def test_names_are_short_and_on_one_line(results: list[Named], most: int) -> None:
    made = labels(results, most)
    assert len(made) == len(results)
    assert all(len(label) <= most and label.isprintable() for label in made)
