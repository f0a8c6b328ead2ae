"""A model that prefers a place must not make one solution the ancestor of all: ORDER = "random", as
simulated."""

from benchmarks.fixation import MODELS, founders


def fixed(order: str, model: str) -> float:
    """The share of populations with one founder left after five steps."""
    first, last = next((first, last) for name, first, last in MODELS if name == model)
    return sum(founders(order, first, last, seed, 5)[5] == 1 for seed in range(20)) / 20


def test_only_where_the_most_used_stand_first_does_a_preferred_place_decide() -> None:
    drift = fixed("random", "no candidate")
    assert drift < 0.3 and fixed("random", "the first, always") < 0.3
    assert fixed("shared", "the first, always") > 0.6


def test_every_population_goes_back_to_fewer_founders_or_as_many() -> None:
    for order in ("random", "shared"):
        left = founders(order, 1, 1, 0, 5)
        assert left[0] == 8 and left == sorted(left, reverse=True)
