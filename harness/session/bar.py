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
        self.name, self.total, self.done, self.stage = name, total, 0, ""
        self._new = self._new_tokens = self._failed = 0
        self._began = time.monotonic()
        self._parts: Callable[[], list[str]] = list
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
    async def beating(
        self, generator: Generator, accuracy: Callable[[], str]
    ) -> AsyncIterator[None]:
        """Draw the bar while the block runs, with the text `accuracy()`."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(SECONDS_IN_A_LOG if self._drawn.disable else SECONDS)
                self._draw()

        self._parts = lambda: self._so_far(generator, accuracy())
        heart = asyncio.create_task(beat())
        try:
            yield
        finally:
            heart.cancel()

    def _so_far(self, generator: Generator, accuracy: str) -> list[str]:
        """Return the texts after the bar, the most important first. Tokens of reused completions do
        not count."""
        elapsed, wire, left = (
            time.monotonic() - self._began,
            generator,
            max(0, self.total - self.done),
        )
        tokens = self._new_tokens + wire.streamed
        is_timed = self._new and left and not generator.trouble
        return [
            generator.trouble,
            f"failed {self._failed}" if self._failed else "",
            f"about {self._drawn.format_interval(elapsed / self._new * left)} left"
            if is_timed
            else "",
            f"{wire.in_flight} in flight" if left else "",
            generator.reason,
            *(
                [f"{short(tokens)} tok", f"{tokens / max(1e-9, elapsed):,.0f} tok/s"]
                if tokens
                else []
            ),
            accuracy,
        ]

    def _draw(self) -> None:
        shown, total, parts = self._drawn, max(self.total, self.done), self._parts()
        if shown.disable:
            parts, elapsed = [self.stage, *parts], time.monotonic() - self._began
            postfix = ", ".join(filter(None, parts))
            line = shown.format_meter(
                self.done,
                total,
                elapsed,
                prefix=self.name,
                postfix=postfix,
                bar_format=FORMAT_IN_A_LOG,
            )
            print(line, file=sys.stderr, flush=True)
        else:
            shown.desc, shown.total, shown.n = self.stage or self.name, total, self.done
            shown.set_postfix_str(", ".join(filter(None, parts)))
