"""What search asks for energies: the embedding of each state, and the energy of that."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import RunFailed
from core.base.files import sha256
from core.engines.server import Server
from labs.lean import energy
from labs.lean.constants import EnergyConstants
from labs.lean.embedder import Embedder
from labs.lean.embeddings import text_of
from labs.lean.energy import Energy
from labs.lean.search import Failed, State
from labs.lean.world import Scores


@dataclass(frozen=True)
class Guidance:
    """`opened` gives what scores states, or None; `by`: what identifies that, "" without."""

    opened: Callable[[], AbstractAsyncContextManager[Scores | None]] = nullcontext
    by: str = ""


ALONE = Guidance()


def guided(folder: Path, embeds: Server, config: EnergyConstants) -> Guidance:
    """The energy in a folder; `embeds`: a server that embeds by its policy. Raises UserError."""
    head = Energy.load(folder)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Scores]:
        async with Embedder(embeds, config.ENCODE_BATCH_SIZE, config.ENCODE_CONCURRENCY) as asking:
            yield Guide(head, asking)

    return Guidance(opened, str(sha256(folder / energy.WEIGHTS)))


class Guide:
    """Energies of states, as World.energy has them, each computed once. Raises UserError where `embedder` asks another
    model than the one that `energy` was trained with."""

    def __init__(self, energy: Energy, embedder: Embedder) -> None:
        energy.check_made_for(embedder.model)
        self._energy, self._embedder = energy, embedder
        self._known: dict[str, float] = {}

    async def __call__(self, states: Sequence[State]) -> list[float] | None:
        """One number each, lower is nearer to a proof. Raises UserError where the server gives no embeddings of the
        energy's width, and RunFailed, one of these, where it does not answer: all searches need it, and one that ended
        without it would count as one that found no proof."""
        texts = [text_of(state.pp) for state in states]
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            try:
                embedded = await self._embedder(new)
            except Failed as failed:
                raise RunFailed(f"{failed}. Run the same command again: searches that have ended are kept") from None
            self._known |= zip(new, self._energy(embedded.vectors), strict=True)
        return [self._known[text] for text in texts]
