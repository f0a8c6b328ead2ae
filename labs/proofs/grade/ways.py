"""The ways in which a grader is asked about the same proofs: each prompt, and the first of them with each attack."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.base.errors import UserError
from core.types import Completion
from labs.proofs import rubric
from labs.proofs.attacks import ATTACKS, attacked
from labs.proofs.grade.asking import Item
from labs.proofs.graded import GradedProof, GradedSet
from labs.proofs.rubric import Prompt

AUTO, ALL, NONE = "auto", "all", "none"


@dataclass(frozen=True)
class Way:
    """The proofs of a set as a grader is shown them: under one prompt, with one attack behind them ("": none)."""

    of: str
    proofs: Sequence[GradedProof]
    prompt: Prompt
    attack: str = ""

    @property
    def key(self) -> str:
        """What it is called in results and tables."""
        return f"{self.prompt.name}+{self.attack}" if self.attack else self.prompt.name

    @property
    def name(self) -> str:
        return f"{self.of} {self.key}"

    @property
    def has_reference(self) -> bool:
        return "solution" in self.prompt.places

    def items(self) -> Iterator[Item]:
        for proof in self.proofs:
            is_there = bool(proof.text.strip())  # of nothing, an attack alone would be graded
            text = attacked(proof.text, self.attack) if self.attack and is_there else proof.text
            yield Item(proof.problem, Completion("", 0, "", text, finish_reason="stop"))


def prompts_of(named: str) -> list[Prompt]:
    """The prompts that PROMPTS=`named` asks for, none for AUTO. Raises UserError."""
    if named == AUTO:
        return []
    made = [prompt for each in _parts(named) if (prompt := rubric.prompt(each))]
    if not made:
        raise UserError(f"PROMPTS={named!r:.60} names none. Give {AUTO}, or some of {', '.join(rubric.OURS)} and files")
    if len({prompt.name for prompt in made}) < len(made):
        raise UserError(f"PROMPTS={named:.60} has two prompts of one name. Give each a name of its own")
    return made


def attacks_of(named: str) -> list[str]:
    """The attacks that ATTACKS=`named` asks for. Raises UserError."""
    found = [*ATTACKS] if named == ALL else [] if named == NONE else _parts(named)
    if unknown := [each for each in found if each not in ATTACKS]:
        raise UserError(f"ATTACKS has {unknown[0]!r:.60}. It takes {ALL}, {NONE}, or some of {', '.join(ATTACKS)}")
    return list(dict.fromkeys(found))


def ways_of(chosen: GradedSet, prompts: Sequence[Prompt], attacks: Sequence[str]) -> tuple[list[Way], list[str]]:
    """All ways, the plain ones first; and the names of those prompts of ours that the set can't fill, where none are
    given. Raises UserError for a prompt that was asked for and can't be filled, and where none is left."""
    left_out = []
    if not prompts:
        ours = [Prompt(name, text) for name, text in rubric.OURS.items()]
        left_out = [prompt.name for prompt in ours if not _can_fill(chosen, prompt)]
        prompts = [prompt for prompt in ours if prompt.name not in left_out]
        if not prompts:
            raise UserError(
                f"{chosen.name} has neither guidelines nor a grading_scheme to grade by. Give it one of these columns, "
                "or PROMPTS=file with a prompt that does without"
            )
    for prompt in prompts:
        for proof in chosen.proofs:
            rubric.fitting(proof.problem, prompt)
    plain = [Way(chosen.name, chosen.proofs, prompt) for prompt in prompts]
    return plain + [Way(chosen.name, chosen.proofs, prompts[0], attack) for attack in attacks], left_out


def _can_fill(chosen: GradedSet, prompt: Prompt) -> bool:
    try:
        for proof in chosen.proofs:
            rubric.fitting(proof.problem, prompt)
    except UserError:
        return False
    return True


def _parts(named: str) -> list[str]:
    return [part.strip() for part in named.split(",") if part.strip()]
