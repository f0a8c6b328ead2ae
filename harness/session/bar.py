"""Show the progress of a run: a bar on a terminal every second, or a line in a log file every ten
seconds.

A timer draws it, because an hour may pass without a completion, for example because of a rate
limit."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from core.base.terminal import say, short, wrapped
from core.generate import Generator
from core.types import Completion

SECONDS, SECONDS_IN_A_LOG = 1.0, 10.0
FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
FORMAT_IN_A_LOG = "{desc}: {percentage:.0f}%, {n_fmt}/{total_fmt} completions, {elapsed}{postfix}"


class Bar:
    """A progress bar of `done` out of `total` completions. Use it as a context manager. Callers may
    change `total`, which may be too low, and `stage`, the part of the command that runs."""

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total
        self.done = 0
        self.stage = ""
        self._new = self._new_tokens = self._failed = 0
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
        self.done += 1
        self._failed += completion.error is not None
        if is_new:
            self._new += 1
            self._new_tokens += completion.completion_tokens

    def write(self, line: str) -> None:
        """Print a line above the bar."""
        if self._drawn.disable:
            say(line, sys.stderr)
        else:
            self._drawn.write(wrapped(line, "  "), file=sys.stderr)

    @asynccontextmanager
    async def refreshing(
        self, generator: Generator, accuracy: Callable[[], str]
    ) -> AsyncIterator[None]:
        """Draw the bar while the block runs, with the text `accuracy()`."""

        async def draw_again() -> None:
            while True:
                await asyncio.sleep(SECONDS_IN_A_LOG if self._drawn.disable else SECONDS)
                self._draw()

        self._texts = lambda: self._so_far(generator, accuracy())
        timer = asyncio.create_task(draw_again())
        try:
            yield
        finally:
            timer.cancel()

    def _so_far(self, generator: Generator, accuracy: str) -> list[str]:
        """Return the texts after the bar, the most important first. Tokens of reused completions do
        not count."""
        elapsed = time.monotonic() - self._began
        remaining = max(0, self.total - self.done)
        tokens = self._new_tokens + generator.streamed
        texts = [generator.trouble]
        if self._failed:
            texts.append(f"failed {self._failed}")
        if self._new and remaining and not generator.trouble:
            seconds = elapsed / self._new * remaining
            texts.append(f"about {self._drawn.format_interval(seconds)} left")
        if remaining:
            texts.append(f"{generator.in_flight} in flight")
        texts.append(generator.reason)
        if tokens:
            texts.append(f"{short(tokens)} tok")
            texts.append(f"{tokens / max(1e-9, elapsed):,.0f} tok/s")
        texts.append(accuracy)
        return texts

    def _draw(self) -> None:
        total = max(self.total, self.done)
        texts = self._texts()
        if self._drawn.disable:
            line = self._drawn.format_meter(
                self.done,
                total,
                time.monotonic() - self._began,
                prefix=self.name,
                postfix=", ".join(filter(None, [self.stage, *texts])),
                bar_format=FORMAT_IN_A_LOG,
            )
            print(line, file=sys.stderr, flush=True)
        else:
            self._drawn.desc = self.stage or self.name
            self._drawn.total = total
            self._drawn.n = self.done
            self._drawn.set_postfix_str(", ".join(filter(None, texts)))
