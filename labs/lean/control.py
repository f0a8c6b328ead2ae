"""The control of a baseline: the same theorems at the same nodes, searched with the tactics of states that are known,
and the paired difference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.generate.journal import content_key
from labs.lean import figures, pairs
from labs.lean.constants import ControlledConstants
from labs.lean.index import Index
from labs.lean.outcome import Outcome
from labs.lean.pairs import Pair
from labs.lean.record import keep
from labs.lean.searching import Searching
from labs.lean.taught import taught
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain

FOLDER = "index"  # within the baseline's


@dataclass(frozen=True)
class Control:
    """`pairs` that are known, and what they are `of`."""

    pairs: list[Pair]
    of: str

    def compared(self, policy: Searching, theorems: Sequence[Theorem], outcomes: list[Outcome]) -> dict[str, Any]:
        """Search with the index as `policy` has searched, to `outcomes`; the figures and the gain, for the record."""
        config, folder = policy.session.config, policy.folder.parent / FOLDER
        by = content_key([vars(pair) for pair in self.pairs])
        index = Index(self.pairs, config.CANDIDATES)
        named = policy.session.but(name="index")
        searching = replace(policy, session=named, folder=folder / "trajectories", proposing=index, by=by)
        found = searching.of(theorems)
        made = figures.figures(found, [config.MAX_NODES])
        keep(folder, found, made)
        gain = vars(figures.compared(found, outcomes, config.MAX_NODES))
        return {"of": self.of, "pairs": len(self.pairs), "states": len(index.tactics), "figures": made, "gain": gain}


def given(config: ControlledConstants, theorems: Sequence[Theorem], lean: Toolchain) -> Control | None:
    """What INDEX asks for; None for no control. No pair is of a theorem that is searched. Raises UserError."""
    if config.INDEX == "none" or (config.INDEX == "auto" and config.THEOREMS != "auto"):
        return None
    if config.INDEX == "auto":
        found, of = taught(lean, config.NUM_WORKERS), "the taught lemmas"
    else:
        path = Path(config.INDEX).expanduser()
        found, of = pairs.read(path), path.name
    names = {theorem.name for theorem in theorems}
    known = [pair for pair in found if pair.theorem not in names]
    if not known:
        raise UserError(f"INDEX={config.INDEX} holds no pair of a theorem that is not searched. Name another, or none")
    return Control(known, of)


def said(told: dict[str, Any], nodes: int) -> str:
    """What the control came to, in a line."""
    return (
        f"index of {told['pairs']} pairs of {told['of']}, without a model: {figures.rate(told['figures'], nodes)}%; "
        f"the policy: {figures.gained(told['gain'])} on that"
    )
