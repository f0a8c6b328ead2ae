"""Show the progress of a run: a bar on a terminal every second, or a line in a log file every ten
seconds.

A timer draws it, because an hour may pass without a completion, for example because of a rate
limit. On a terminal, texts are left out if they do not fit, the least important ones first."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.base.terminal import columns, say, short, wrapped
from core.generate import Generator
from core.types import Completion
from harness.results import progress
from harness.results.progress import Progress
from harness.session.growth import Growth
from harness.session.time_left import TimeLeft

SECONDS, SECONDS_IN_A_LOG = 1.0, 10.0
WIDE = 160  # columns of a terminal that does not tell its width
FORMAT = "{desc}: {percentage:3.0f}%|{bar}| "
AROUND = ": 100%|###| "  # what the bar shows around its name and texts, and its shortest form
FORMAT_IN_A_LOG = "{desc}: {percentage:.0f}%, {elapsed}{postfix}"


class Bar:
    """A progress bar of `done` out of `total` units, which are completions or theorems. Use it as a
    context manager. Callers may change `total`, which may be too low, and `stage`, the part of the
    command that runs. For other units than completions, callers call `note` for each completion and
    `ended` for each unit. They set `ages`, the seconds since each unit in progress began. `growth`
    is the growth of a run's requests, if it is known."""

    def __init__(self, name: str, total: int, unit: str = "completions") -> None:
        self.name = name
        self.total = total
        self.unit = unit
        self.ages: Callable[[], list[float]] | None = None
        self.growth: Growth | None = None
        self.done = 0
        self.stage = ""
        self._new_tokens = self._failed = 0
        self._in_progress: Callable[[], int] = lambda: 0
        self.time_left = TimeLeft()
        self._began = time.monotonic()
        self._texts: Callable[[], list[str]] = list
        self._drawn: Any = None  # the bar of tqdm, which shows nothing in a log file

    def __enter__(self) -> "Bar":
        from tqdm import tqdm  # slow to import. Errors in constants are reported before this

        self._drawn = tqdm(
            desc=self.name, total=self.total, disable=None, dynamic_ncols=True, bar_format=FORMAT
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()
        self._drawn.close()

    def arrived(self, completion: Completion, is_new: bool) -> None:
        """Count a completion."""
        self.note(completion, is_new)
        if is_new:
            if self.growth:
                self.growth.add(completion)
            self.ended(completion.seconds)
        else:
            self.done += 1

    def note(self, completion: Completion, is_new: bool) -> None:
        """Count the tokens of a completion, or its failure."""
        self._failed += completion.error is not None
        if is_new:
            self._new_tokens += completion.completion_tokens

    def ended(self, seconds: float) -> None:
        """Count a unit that took so long."""
        self.done += 1
        self.time_left.add(seconds)

    def write(self, line: str) -> None:
        """Print a line above the bar."""
        if self._drawn.disable:
            say(line, sys.stderr)
        else:
            self._drawn.write(wrapped(line, "  "), file=sys.stderr)

    @asynccontextmanager
    async def refreshing(
        self, generator: Generator, accuracy: Callable[[], str], record: Path | None = None
    ) -> AsyncIterator[None]:
        """Draw the bar while the block runs, with the text `accuracy()`. If `record` is given, also
        store the progress in this file."""

        async def draw_again() -> None:
            while True:
                await asyncio.sleep(SECONDS_IN_A_LOG if self._drawn.disable else SECONDS)
                self._draw()

        async def store_again(path: Path) -> None:
            while True:
                progress.write(self._progress(generator, accuracy()), path)
                await asyncio.sleep(progress.SECONDS)

        self._in_progress = lambda: len(self._ages(generator))
        self._texts = lambda: self._so_far(generator, accuracy())
        timers = [asyncio.create_task(draw_again())]
        if record:
            timers.append(asyncio.create_task(store_again(record)))
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
            if record:
                progress.remove(record)

    def _so_far(self, generator: Generator, accuracy: str) -> list[str]:
        """Return the texts after the bar, the most important first."""
        tokens = self._tokens(generator)
        left = self.seconds_left(generator)
        texts = [generator.trouble, accuracy]
        if left is not None:
            texts.append(f"{self._drawn.format_interval(left)} left")
        if self._failed:
            texts.append(f"failed {self._failed}")
        texts.append(f"{self.done}/{self._known_total()} {self.unit}")
        if tokens:
            texts.append(f"{self._speed(generator):,.0f} tok/s")
        if self.done < self._known_total():
            texts.append(f"{generator.in_flight} in flight")
        texts.append(generator.reason)
        if tokens:
            texts.append(f"{short(tokens)} tok")
        return list(filter(None, texts))

    def _progress(self, generator: Generator, accuracy: str) -> Progress:
        """Return the progress for a live page."""
        notes = [accuracy, generator.trouble, generator.reason]
        if self._failed:
            notes.append(f"failed {self._failed}")
        return Progress(
            name=self.stage or self.name,
            done=self.done,
            total=self._known_total(),
            unit=self.unit,
            seconds_left=self.seconds_left(generator),
            speed=self._speed(generator) or None,
            notes=list(filter(None, notes)),
        )

    def _tokens(self, generator: Generator) -> int:
        """Count the tokens of this command. Tokens of reused completions do not count."""
        return self._new_tokens + generator.streamed

    def _speed(self, generator: Generator) -> float:
        """Return the tokens per second so far."""
        elapsed = time.monotonic() - self._began
        return self._tokens(generator) / max(1e-9, elapsed)

    def seconds_left(self, generator: Generator) -> float | None:
        """Return the time left, or None if it can't be estimated."""
        ages = self._ages(generator)
        waiting = max(0, self.total - self.done - len(ages))
        if generator.trouble or not (ages or waiting):
            return None
        return self.time_left.seconds(ages, waiting, self._growth(len(ages) + waiting))

    def _growth(self, left: int) -> float:
        """Return how many times longer the `left` completions take than those that have ended."""
        used = self.time_left.used
        if not (self.growth and used):
            return 1.0
        total = self.done + left
        ended = ((self.done - used) / total, self.done / total)
        return self.growth.factor(ended, (self.done / total, 1.0))

    def _ages(self, generator: Generator) -> list[float]:
        """Return the seconds since each unit in progress began."""
        return self.ages() if self.ages else generator.ages

    def _known_total(self) -> int:
        """Return the total, or the units that have begun if these are more."""
        return max(self.total, self.done + self._in_progress())

    def _draw(self) -> None:
        texts = self._texts()
        total = self._known_total()
        name = self.stage or self.name
        if self._drawn.disable:
            line = self._drawn.format_meter(
                self.done,
                total,
                time.monotonic() - self._began,
                prefix=name,
                postfix=", ".join(texts),
                bar_format=FORMAT_IN_A_LOG,
            )
            print(line, file=sys.stderr, flush=True)
            return
        self._drawn.desc = name
        self._drawn.total = total
        self._drawn.n = self.done
        room = (columns(sys.stderr) or WIDE) - len(name) - len(AROUND)
        shown = _fitting(texts, room).replace("{", "{{").replace("}", "}}")
        self._drawn.bar_format = FORMAT + shown
        self._drawn.refresh()


def _fitting(texts: Sequence[str], room: int) -> str:
    """Join the texts that fit into `room` columns. Earlier texts come first."""
    chosen: list[str] = []
    for text in texts:
        length = len(", ") + len(text)
        if length <= room:
            chosen.append(text)
            room -= length
    return ", ".join(chosen)
