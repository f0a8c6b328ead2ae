"""Walk traced proofs in Lean: data for the energy before a policy proves anything.

Traced proofs are pairs of a state and a tactic, in the order of each proof, as prepare.py writes
them. Lean repeats each proof, and the policy and PROBES propose tactics in each of its states. The
proof's states are on the path. A state that another tactic reaches is off it. The files have the
format of a search's files (trajectories.py).
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.base.errors import UserError
from core.base.files import sha256
from labs.lean import guard, pairs, trajectories
from labs.lean.constants import LeanConstants
from labs.lean.search import ERROR, PASSING, START, Failed, Found, Node, World, merged
from labs.lean.searching import Searching
from labs.lean.theorem import Step, Theorem

Proofs = Mapping[str, Sequence[str]]  # a theorem's name, and the tactics of its traced proof


def key(named: str) -> dict[str, str | None]:
    """Return the field of a record's key for the value `named` of TRACED. Raises UserError if its
    file is missing."""
    if named == "none":
        return {}
    if not (path := Path(named).expanduser()).is_file():
        raise UserError(f"TRACED={named} does not exist. Set TRACED to a file pairs.jsonl, or none")
    return {"TRACED": sha256(path)}


def given(named: str, theorems: Sequence[Theorem]) -> Proofs:
    """Return the traced proofs of `theorems` in the file `named`. Raises UserError if there are
    none."""
    found: dict[str, list[str]] = {theorem.name: [] for theorem in theorems}
    for pair in pairs.read(Path(named).expanduser()):
        if pair.theorem in found:
            found[pair.theorem].append(pair.tactic)
    if not any(found.values()):
        raise UserError(
            f"TRACED={named} has no proof of a training theorem. Set TRAIN_THEOREMS to theorems in "
            "its file"
        )
    return {name: tactics for name, tactics in found.items() if tactics}


@dataclass
class Walking(Searching):
    """A walk along `proofs` instead of a search."""

    proofs: Proofs = field(default_factory=dict)

    async def _found(self, theorem: Theorem, world: World, config: LeanConstants) -> Found:
        """Return a proof's states and the states that the policy's tactics reach from them. If Lean
        rejects the proof, return no states."""
        tactics, clock = list(self.proofs[theorem.name]), time.monotonic()
        steps = await asyncio.gather(
            *(world.run(tactics[:count]) for count in range(len(tactics) + 1))
        )
        states = [step.state for step in steps if step.state]
        errors = [step.error for step in steps if not step.state]
        if why := errors[0] if errors else await world.rejected(tactics):
            return Found(
                theorem.name, ERROR if why in PASSING else START, why, seconds={"all": 0.0}
            )
        answers = await asyncio.gather(*(world.propose(state) for state in states[:-1]))
        found = Found(theorem.name, path=list(range(len(states))), applied=len(tactics))
        found.nodes.append(Node(0, None, "", 0.0, 0.0, 0, states[0].pp, states[0].goals))
        for number, (tactic, answer) in enumerate(zip(tactics, answers, strict=True)):
            policys = [] if isinstance(answer, Failed) else list(answer)
            probes = [(probe, config.PROBE_LOGPROB) for probe in (tactic, *config.probes)]
            (_, logprob), *others = merged([*probes, *policys])
            found.unique.append(len(merged(policys)))
            found.proposed[number] = [each for each in others if not guard.refused(each[0])]
            found.nodes.append(
                found.nodes[number].then(number + 1, tactic, logprob, Step(states[number + 1]))
            )
        found.seconds["all"] = time.monotonic() - clock
        return await trajectories.harvest(found, world.run, sum(map(len, found.proposed.values())))
