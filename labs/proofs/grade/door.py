"""What commands that ask a model about each of many things share: its server, the journal, the budget, a stop."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from core.engines.need import Need
from core.engines.server import Server
from core.engines.start import grading_server
from core.generate.budget import Budget
from core.generate.journal import Journal
from core.session.run import check_context, open_budget, open_journal
from labs.proofs.grade.each import AskingConstants, R


@contextmanager
def graders_server(config: AskingConstants) -> Iterator[Server]:
    """The server of who is asked, which can hold what it is asked. Raises UserError."""
    with grading_server(config.GRADER, Need(1, config.MAX_TOKENS, 0)) as server:
        check_context(server, config)
        yield server


@dataclass(frozen=True)
class Asked(Generic[R]):
    """What came of it: the results in order, the completions that were `made` for them (the others came from the
    journal), and the dollars that were `spent` by now, None where nobody knows prices."""

    results: list[R]
    made: int
    spent: float | None


def asked(
    ask: Callable[[Journal, Budget | None], Coroutine[Any, Any, list[R]]],
    path: Path,
    on: str,
    config: AskingConstants,
    server: Server,
    kept: str,
) -> Asked[R]:
    """All that `ask` gets, with the journal in `path` and the budget of what is asked `on`. Raises UserError; stopped,
    says what is `kept` and ends with status 130."""
    with open_journal(path) as journal, open_budget(journal, config, server, on) as budget:
        before = len(journal)
        try:
            results = asyncio.run(ask(journal, budget))
        except (KeyboardInterrupt, asyncio.CancelledError):
            print(f"\nstopped; {kept} is kept. Run the same command again to go on.", flush=True)
            raise SystemExit(130) from None
        return Asked(results, len(journal) - before, budget.spent if budget else None)
