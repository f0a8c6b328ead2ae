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
    path = Path(named).expanduser()
    if not path.is_file():
        raise UserError(f"TRACED={named} does not exist. Set TRACED to a file pairs.jsonl, or none")
    return {"TRACED": sha256(path)}


def given(named: str, theorems: Sequence[Theorem]) -> Proofs:
    """Return the traced proofs of `theorems` in the file `named`. Raises UserError if there are
    none."""
    proofs: dict[str, list[str]] = {theorem.name: [] for theorem in theorems}
    for pair in pairs.read(Path(named).expanduser()):
        if pair.theorem in proofs:
            proofs[pair.theorem].append(pair.tactic)
    if not any(proofs.values()):
        raise UserError(
            f"TRACED={named} has no proof of a training theorem. Set TRAIN_THEOREMS to theorems in "
            "its file"
        )
    return {name: tactics for name, tactics in proofs.items() if tactics}


@dataclass
class Walking(Searching):
    """A walk along `proofs` instead of a search."""

    proofs: Proofs = field(default_factory=dict)

    async def _found(self, theorem: Theorem, world: World, config: LeanConstants) -> Found:
        """Return a proof's states and the states that the policy's tactics reach from them. If Lean
        rejects the proof, return no states."""
        tactics = list(self.proofs[theorem.name])
        clock = time.monotonic()
        prefixes = [tactics[:count] for count in range(len(tactics) + 1)]
        steps = await asyncio.gather(*(world.run(prefix) for prefix in prefixes))
        states = [step.state for step in steps if step.state]
        errors = [step.error for step in steps if not step.state]
        if errors:
            error = errors[0]
        else:
            error = await world.rejected(tactics)
        if error:
            reason = ERROR if error in PASSING else START
            return Found(theorem.name, reason, error, seconds={"all": 0.0})
        path = list(range(len(states)))
        found = Found(theorem.name, path=path, applied=len(tactics))
        start = states[0]
        found.nodes.append(Node(0, None, "", 0.0, 0.0, 0, start.pp, start.goals))
        answers = await asyncio.gather(*(world.propose(state) for state in states[:-1]))
        for number, (tactic, answer) in enumerate(zip(tactics, answers, strict=True)):
            proposals = [] if isinstance(answer, Failed) else list(answer)
            probes = [(probe, config.PROBE_LOGPROB) for probe in (tactic, *config.probes)]
            (_, logprob), *others = merged([*probes, *proposals])
            allowed = [proposal for proposal in others if not guard.refused(proposal[0])]
            found.unique.append(len(merged(proposals)))
            found.proposed[number] = allowed
            step = Step(states[number + 1])
            node = found.nodes[number].then(number + 1, tactic, logprob, step)
            found.nodes.append(node)
        found.seconds["all"] = time.monotonic() - clock
        proposed = sum(len(proposals) for proposals in found.proposed.values())
        return await trajectories.harvest(found, world.run, proposed)
