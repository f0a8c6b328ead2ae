"""The command of both tools: a file in, its rows with more columns out, and a summary."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base import terminal
from core.base.files import results_dir
from core.base.prices import Prices
from core.constants import constant
from core.report.tables import listed
from core.session import session
from core.session.session import Session
from core.types import Ask
from labs.proofs import places
from labs.proofs.curate.rows import Rows
from labs.proofs.curate.tool import NO_SOLUTION, Texts, Told, Tool, content, find_out
from labs.proofs.grade.command import graders_server, on_file
from labs.proofs.grade.each import AskingConstants, each
from labs.proofs.grade.figures import cost_of, took
from labs.proofs.places import Prompt


@dataclass(frozen=True, kw_only=True)
class CurateConstants(AskingConstants):
    PROMPT: str = constant("", "a file with places like {problem}; else ours")
    LIMIT: int = constant(0, "first problems of the set only; 0 is all", 0, 1_000_000, free=True)


def main(tool: Tool, argv: Sequence[str]) -> None:
    usage, why = f"give a problem file: bash scripts/{tool.name}.sh FILE GRADER=card", "the file stands first"
    with on_file(CurateConstants, argv, tool.about, usage, ("PROBLEMS=",), why) as (config, stop):
        necessary = ("problem", "solution")
        prompt = places.prompt(config.PROMPT, tool.places, necessary, {}) or Prompt("ours", tool.ours)
        folder = results_dir()
        rows = Rows(Path(argv[0]).expanduser(), tool, config.LIMIT)
        with graders_server(config) as server:
            job = _Asking(tool, prompt, rows, config)
            total, name = job.total, f"{rows.name}.{tool.name}"
            line = (
                f"{tool.name} of {rows.name}: {total:,} requests by {server.model}, prompt {prompt.name}, engine "
                f"{server.kind} at {server.base_url} because {server.why}"
            )
            with session.open(name, config, stop, folder, server, opening=line) as opened:
                told = opened.asked(each(job, total, opened), "what was answered is kept")
            write_columns(tool, rows, told, opened)


@dataclass(frozen=True)
class _Asking:
    """What a tool asks about all rows, as a job of `each`."""

    tool: Tool
    prompt: Prompt
    rows: Rows
    config: CurateConstants
    what: str = "request"

    @property
    def title(self) -> str:
        return f"{self.tool.name} {self.rows.name}"

    @property
    def total(self) -> int:
        """The requests that are planned: what is the same in several rows is asked about once."""
        return len({content(texts) for texts in self.items() if texts["solution"]})

    def items(self) -> Iterable[Texts]:
        return self.rows.texts

    def content(self, item: Texts) -> str:
        return content(item)

    name = content  # a row keeps its seeds wherever it stands

    async def one(self, item: Texts, ask: Ask) -> Told:
        return await find_out(self.tool, self.prompt, item, ask, self.config.SEED)

    def spared(self, made: Told) -> int:
        return 0

    def errors(self, made: Told) -> list[str | None]:
        return [made.error] if made.attempts else []

    def so_far(self, made: Sequence[Told]) -> str:
        return f"missing {missing}" if (missing := sum(told.columns is None for told in made)) else ""


def write_columns(tool: Tool, rows: Rows, told: Sequence[Told], opened: Session[CurateConstants]) -> None:
    """Write all rows with what was `told` about them, and print a summary. Raises UserError."""
    server, prices = opened.server, opened.server.card.price
    out = rows.write(told, prices, server.model)
    print()
    for line in summary(tool, told, prices):
        print(terminal.wrapped(line, "  "))
    if opened.spent is not None:
        print(f"spent of MAX_DOLLARS, also on what failed: ${opened.spent:.4f}")
    print(f"{opened.made:,} completions were made, the others came from the journal")
    print(f"written  {out}", flush=True)


def summary(tool: Tool, told: Sequence[Told], prices: Prices | None) -> list[str]:
    """What all rows come to, a line each."""
    found = sum(each.columns is not None for each in told)
    lines = [f"{found:,} of {len(told):,} rows have {tool.what}"]
    missing = Counter(each.trouble.partition(" (")[0] for each in told if each.trouble)
    if missing:
        lines.append(f"missing: {listed(dict(missing))}")
    for column in tool.columns:
        kinds = Counter(each.columns[column] for each in told if each.columns)
        if kinds and all(isinstance(kind, bool | int) for kind in kinds):
            lines.append(f"{column:14} {listed({_word(kind): count for kind, count in sorted(kinds.items())})}")
    asked = {id(each): each for each in told if each.trouble != NO_SOLUTION}.values()  # the same row stands in several
    again = sum(each.attempts - 1 for each in asked)
    cost = cost_of([each for one in asked for each in one.counted], prices)
    return [*lines, f"{len(asked):,} asked about, {again:,} once more; {took(cost)}"]


def _word(kind: bool | int) -> str:
    return ("no", "yes")[kind] if isinstance(kind, bool) else f"of {kind}"
