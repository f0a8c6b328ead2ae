"""Check the extrapolation of accuracy to twice the tokens, on runs without their last steps and on
simulated runs.

    bash benchmarks/run.sh doubling [RESULTS.json …] [--runs 500]

A recorded run is cut at each step at or before half of its tokens. The rest of the run shows the
vote at twice the tokens of the cut, on the same problems. Simulated runs have six steps, as RSA
with T=5. The truth is known."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.results import doubling, read
from harness.results.doubling import Array

STEPS = np.arange(1, 7, dtype=np.float64)  # tokens, in units of a step
CURVES: dict[str, Callable[[Array], Array]] = {
    "flat": lambda x: 0 * x + 0.6,
    "a line in log2 tokens": lambda x: 0.4 + 0.08 * np.log2(x),
    "levels off": lambda x: 0.85 - 0.45 * np.exp(-x / 3),
    "levels off early": lambda x: 0.7 - 0.4 * np.exp(-x),
    "falls": lambda x: 0.7 - 0.05 * np.log2(x),
    "rises late": lambda x: 0.2 + 0.6 / (1 + np.exp(-(x - 9))),
}


def simulated(curve: Callable[[Array], Array], n: int, rng: np.random.Generator) -> Array:
    """Return scores of `n` problems. Half of them keep their luck at all steps, and the others draw
    it at each step."""
    luck = np.where(rng.random((n, 1)) < 0.5, rng.random((n, 1)), rng.random((n, STEPS.size)))
    return (luck < curve(STEPS)).astype(np.float64)


def cuts(path: Path) -> list[tuple[doubling.Doubling, float]]:
    """Return the extrapolation at each cut of a recorded run, and the vote at twice the tokens."""
    found = doubling.curve(list(read.read(path)[1]))
    if found is None:
        return []
    tokens, scores = found
    pairs = []
    for end in range(doubling.FEWEST, len(tokens)):
        cut = doubling.extrapolate(tokens[:end], scores[:, :end])
        if cut and 2 * cut.tokens <= tokens[-1]:
            pairs.append(
                (
                    cut,
                    float(
                        np.interp(math.log2(2 * cut.tokens), np.log2(tokens), scores.mean(axis=0))
                    ),
                )
            )
    return pairs


def row(name: str, pairs: list[tuple[doubling.Doubling, float]]) -> str:
    """Format the share of intervals that contain the truth, their width, and the errors of three
    predictions."""
    if not pairs:
        return f"{name:40.40} no step to leave out"
    truth = np.array([true for _, true in pairs])
    figures = [
        [each.now.value, each.then.value, each.then.low, each.then.high] for each, _ in pairs
    ]
    now, then, low, high = np.array(figures).T
    inside = ((low - 1e-9 <= truth) & (truth <= high + 1e-9)).mean()
    errors = [
        100 * np.abs(guess - truth).mean() for guess in (now, then, np.minimum(1, 2 * then - now))
    ]
    shown = (
        f"{100 * inside:8.1f} {100 * (high - low).mean():8.1f}",
        *(f"{error:8.1f}" for error in errors),
    )
    return f"{name:40.40} {len(pairs):6} {' '.join(shown)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results", nargs="*", type=Path, help="results files of runs with several steps"
    )
    parser.add_argument("--runs", type=int, default=500, help="simulated runs of each kind")
    args = parser.parse_args()
    print(
        f"{'run':40} {'cuts':>6} {'inside %':>8} {'width':>8}    errors: {'no gain':>8} "
        f"{'half':>8} {'line':>8}"
    )
    for path in args.results:
        print(row(f"{path.parent.parent.parent.name}/{path.stem}", cuts(path)), flush=True)
    for name, curve in CURVES.items():
        for n in (30, 100):
            rng, true = np.random.default_rng(1), float(curve(2 * STEPS[-1:])[0])
            found = (
                doubling.extrapolate(STEPS, simulated(curve, n, rng)) for _ in range(args.runs)
            )
            print(
                row(f"simulated: {name}, n={n}", [(each, true) for each in found if each]),
                flush=True,
            )


if __name__ == "__main__":
    main()
