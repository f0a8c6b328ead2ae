"""Ask a grader about proofs: what is asked of each, and what that takes. The same proof of the same problem is graded
once, wherever it stands."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from core.base.errors import UserError
from core.base.prices import Prices
from core.base.stats import mean_by_problem
from core.constants import constant
from core.engines.server import Server
from core.generate.budget import Purse
from core.generate.journal import Journal
from core.grading.judge import stopping_judge
from core.types import MAX_POINTS, Ask, Completion, Problem
from labs.proofs import proofs, rubric
from labs.proofs.grade.each import AskingConstants, each
from labs.proofs.proofs import Points
from labs.proofs.rubric import Prompt


@dataclass(frozen=True, kw_only=True)
class GraderConstants(AskingConstants):
    """Of whoever asks a grader."""

    GRADES: int = constant(1, "gradings of each proof: their mean counts, and their spread is told", 1, 64)


@dataclass(frozen=True, kw_only=True)
class GradeConstants(GraderConstants):
    PROMPT: str = constant(
        "", "guidelines, alone, scheme, or a file with places like {proof}; else what fits each problem"
    )
    STEPS: str = constant(
        "last",
        "of results: populations that are graded; of a comparison, last: those that budgets buy",
        choices=("last", "all"),
    )


@dataclass(frozen=True)
class Item:
    """A proof to be graded."""

    problem: Problem
    proof: Completion

    @property
    def content(self) -> tuple[str, str, str, str | None]:
        """What its grade follows from."""
        return self.problem.id, self.problem.statement, self.proof.text, proofs.undelivered(self.proof)


class Proofs(Protocol):
    """Where proofs come from, and what they are called."""

    @property
    def name(self) -> str: ...

    def items(self) -> Iterator[Item]:
        """The proofs, in the same order every time. Raises UserError."""


class Source(Proofs, Protocol):
    """The same, and where grades go to. The journal of both is in `folder`."""

    folder: Path

    def write(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> tuple[Path, str]:
        """Write the points of all of them, in their order, whole or not at all; the path, and what they come to in
        words, come back. `about`: the grader, its `prices`, the prompts, what the grading took."""


def checked(source: Proofs, config: GraderConstants, chosen: Prompt | None) -> int:
    """How many gradings there are to be, at most, after a look at every proof. Raises UserError where there are none,
    or a problem lacks what the prompt shows of it: before anything is sent."""
    found, count = set[object](), 0
    for item in source.items():
        count += 1
        rubric.fitting(item.problem, chosen)
        if not proofs.undelivered(item.proof):
            found.add(hash(item.content))
    if not count:
        raise UserError(f"{source.name} holds no proofs. Give results, or lines of JSON, that have some")
    return len(found) * config.GRADES


@dataclass(frozen=True)
class _Grading:
    """The grading of all proofs in `source`, as a job of `each`."""

    source: Proofs
    config: GraderConstants
    chosen: Prompt | None
    what: str = "grading"

    @property
    def title(self) -> str:
        return f"grade {self.source.name}"

    def items(self) -> Iterator[Item]:
        return self.source.items()

    def content(self, item: Item) -> Hashable:
        return item.content

    def name(self, item: Item) -> str:
        return item.problem.id

    async def one(self, item: Item, ask: Ask) -> Points:
        return await proofs.grade(item.problem, item.proof, ask, self.config.GRADES, self.config.SEED, self.chosen)

    def spared(self, made: Points) -> int:
        return self.config.GRADES if made.by != proofs.BY_GRADER else 0

    def errors(self, made: Points) -> list[str | None]:
        return [said.calls[-1].error if said.why == proofs.FAILED else None for said in made.gradings]

    def so_far(self, made: Sequence[Points]) -> str:
        """The mean of what is graded by now; "" before anything is."""
        known = [each.counted / MAX_POINTS for each in made if each.counted is not None]
        return f"mean {mean_by_problem(known).value * MAX_POINTS:.2f} of {MAX_POINTS}, n={len(known)}" if known else ""


async def grade_all(
    source: Proofs,
    config: GraderConstants,
    chosen: Prompt | None,
    server: Server,
    journal: Journal,
    purse: Purse | None,
    total: int,
    stopping: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> list[Points]:
    """The points of every proof in `source`, in order. Raises UserError, also where all gradings failed."""
    async with stopping_judge():
        return await each(_Grading(source, config, chosen), total, config, server, journal, purse, stopping)
