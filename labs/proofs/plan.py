"""The work of grading, for plan.sh: the gradings of 20_grader and of grade.sh, at most."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from core.base.errors import UserError
from core.engines.cards import Card
from core.plan.lengths import VERIFY_MEDIAN_TOKENS
from core.plan.work import Requests, Task, Work
from core.types import CHARACTERS
from labs.proofs import graded, rubric
from labs.proofs.grade.asking import GradeConstants, GraderConstants, Item, checked
from labs.proofs.grade.ways import AUTO, attacks_of, prompts_of, ways_of

if TYPE_CHECKING:
    from labs.proofs.grade.trial import TrialConstants

PROOF_TOKENS = 3000  # of a problem, its reference and a proof in a set that is not read, assumed
INSTRUCTIONS = 300  # tokens of a grader's prompt besides the problem, its texts and the proof, about


def trial(config: "TrialConstants", card: Card) -> Work:
    """Return the work of 20_grader: every way of grading each proof. Of a published set, its size is enough."""
    name = config.GRADED if config.GRADED != AUTO else card.graded_set
    if (known := graded.PUBLISHED.get(name)) and known.rows:
        prompts = prompts_of(config.PROMPTS) or rubric.OURS
        ways_known = len(prompts) + len(attacks_of(config.ATTACKS))
        of = f"{known.rows:,} proofs of {name} in {ways_known} ways"
        return Work(of, (_requests(known.rows * ways_known * config.GRADES, PROOF_TOKENS, config),))
    chosen = graded.load(name).first(config.LIMIT)
    ways, _ = ways_of(chosen, prompts_of(config.PROMPTS), attacks_of(config.ATTACKS))
    count = sum(checked(way, config, way.prompt) for way in ways)
    of = f"{len(chosen.proofs):,} proofs of {chosen.name} in {len(ways)} ways"
    return Work(of, (_gradings(count, (item for way in ways for item in way.items()), config),))


def grade(words: Sequence[str]) -> tuple[str, Task[GradeConstants], list[str]]:
    """Return grade.sh's name, its task and its constants, from the `words` that would stand behind it."""
    if not words or "=" in words[0]:
        raise UserError("name what is to be graded: bash scripts/plan.sh grade NAME|FILE.jsonl GRADER=card")

    from labs.proofs.grade.cli import source_of

    def work(config: GradeConstants, card: Card) -> Work:
        source = source_of(words[0], config)
        count = checked(source, config, rubric.prompt(config.PROMPT))
        return Work(f"the proofs of {source.name}", (_gradings(count, source.items(), config),))

    return f"grade {words[0]}", Task(GradeConstants, work), list(words[1:])


def _gradings(count: int, items: Iterable[Item], config: GraderConstants) -> Requests:
    """Return `count` gradings of `items`, whose texts are on average in each prompt."""
    sizes = [_characters(item.problem) + len(item.proof.text) for item in items]
    return _requests(count, sum(sizes) / max(1, len(sizes)) / CHARACTERS, config)


def _requests(count: int, shown: float, config: GraderConstants) -> Requests:
    """Return `count` gradings that each show texts of so many tokens."""
    return Requests("gradings", count, INSTRUCTIONS + shown, config.MAX_TOKENS, VERIFY_MEDIAN_TOKENS)


def _characters(problem: Any) -> int:
    return sum(map(len, (problem.statement, problem.solution, problem.guidelines, problem.grading_scheme)))
