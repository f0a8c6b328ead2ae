"""Fit a value head, and keep it in a file.

A head is a logistic regression on a model's embedding of a problem and a solution. It estimates the
chance that the solution is right. Its file is JSON. It also has the model of the embeddings, and
the origin of the samples."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from core.base import stats
from core.base.errors import UserError
from core.base.fields import Filled, Finite, Positive, fitted
from core.base.files import read_json
from core.types import Message
from labs.training.embeddings import Vectors

RIDGE = 10.0  # weight of the squared coefficients in the loss (inputs have variance 1)
ROUNDS = 30  # most Newton steps
SMALLEST = 1e-6  # scale of an input

NOUN = "the value head"
REMEDY = "Give a file that bash scripts/value.sh NAME --out FILE has written"

Floats = NDArray[np.float64]
Scale = Annotated[float, Meta(ge=SMALLEST, le=1e308)]


def text_of(messages: Sequence[Message]) -> str:
    """Return the text of which a head reads the embedding. `messages` are those that a reward model
    gets: the problem's statement, and the answer text."""
    return "\n\n".join(message["content"] for message in messages)


@dataclass(frozen=True)
class Regression:
    """A logistic regression on inputs from which `mean` is subtracted, and which are divided by
    `scale`. Raises ValueError if the lists differ in length."""

    mean: list[Finite]
    scale: list[Scale]
    weights: list[Finite]
    constant: Finite

    def __post_init__(self) -> None:
        if not len(self.mean) == len(self.scale) == len(self.weights):
            raise ValueError("mean, scale and weights differ in length")

    @classmethod
    def of(cls, vectors: Vectors, right: Floats) -> Self:
        """Train a regression on `vectors` (samples, width). `right` is 1 for a right sample and 0
        for a wrong one."""
        mean = vectors.mean(axis=0, dtype=np.float64)
        deviation = vectors.std(axis=0, dtype=np.float64)
        scale = np.maximum(deviation, SMALLEST)
        *weights, constant = fit((vectors - mean) / scale, right).tolist()
        return cls(mean.tolist(), scale.tolist(), weights, constant)

    def values(self, vectors: Vectors) -> Floats:
        """Return the chance that each sample is right, between 0 and 1."""
        inputs = (vectors - np.array(self.mean)) / np.array(self.scale)
        return _chances(inputs @ np.array(self.weights) + self.constant)


def fit(inputs: Floats, right: Floats) -> Floats:
    """Return the coefficients of a logistic regression, the constant last. Newton's method
    minimises the log loss and RIDGE / 2 times the squares of all coefficients but the constant."""
    table = np.column_stack([inputs, np.ones(len(inputs))])
    ridge = np.diag([RIDGE] * inputs.shape[1] + [1e-6])
    coefficients = np.zeros(table.shape[1])
    for _ in range(ROUNDS):
        chances = _chances(table @ coefficients)
        slope = table.T @ (chances - right) + ridge @ coefficients
        weights = chances * (1 - chances)
        curvature = (table * weights[:, None]).T @ table + ridge
        step = np.linalg.solve(curvature, slope)
        coefficients -= step
        if np.abs(step).max() < 1e-6:
            break
    return coefficients


def _chances(scores: Floats) -> Floats:
    chances: Floats = 1 / (1 + np.exp(-np.clip(scores, -30, 30)))
    return chances


@dataclass(frozen=True)
class Head:
    """A value head, as its file has it."""

    model: Filled  # whose embeddings it reads (Embedder.model)
    run: Filled  # the results with the samples
    sampled_by: Filled  # the model that wrote the samples
    problems: Positive
    samples: Positive
    held_out_auc: stats.Estimate  # within problems
    regression: Regression

    @cached_property
    def content(self) -> bytes:
        """The content of the file."""
        return f"{json.dumps(asdict(self), indent=1)}\n".encode()

    @property
    def name(self) -> str:
        """The head's name for clients. It has the digest of the content, so that scores of another
        head are not reused."""
        digest = hashlib.sha256(self.content).hexdigest()
        return f"{self.model.partition('@')[0]}-value@{digest[:12]}"

    @property
    def about(self) -> str:
        """The origin and the quality of the head, in one line."""
        area = self.held_out_auc
        return (
            f"trained on {self.samples:,} samples of {self.problems:,} problems ({self.run}, by "
            f"{self.sampled_by}), AUC within held-out problems {area.value:.3f} "
            f"[{area.low:.3f}, {area.high:.3f}]"
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a head's file. Raises UserError if it is missing or is no value head."""
        value = read_json(path, NOUN, REMEDY)
        return fitted(value, cls, f"{path} is no value head", REMEDY)

    def check_model(self, model: str) -> None:
        """Raise UserError if the head reads the embeddings of another `model`."""
        if model != self.model:
            raise UserError(
                f"the value head reads embeddings of {self.model}, but MODEL selects {model}. Set "
                "MODEL as for value.sh"
            )
