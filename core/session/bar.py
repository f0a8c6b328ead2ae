"""Show the progress of a run: a bar on a terminal every second, or a line in a log file every ten seconds.

A timer draws it, because an hour may pass without a completion, for example because of a rate limit."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from core.base.terminal import say, short, wrapped
from core.generate.generator import Generator
from core.types import Completion

SECONDS, SECONDS_IN_A_LOG = 1.0, 10.0
FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


class Bar:
    """A progress bar of `done` out of `total` completions. Use it as a context manager. Callers may change `total`."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.done = name, total, 0
        self._new = self._new_tokens = self._failed = 0
        self._began = time.monotonic()
        self._parts: Callable[[], Sequence[str]] = list
        self._drawn: Any = None  # the bar of tqdm, only on a terminal
        self._stage, self._is_over = "", False

    def __enter__(self) -> "Bar":
        from tqdm import tqdm  # slow to import. Errors in constants are reported before this

        self._clock = tqdm.format_interval  # "05:12" or "1:05:12"
        if sys.stderr.isatty():
            self._drawn = tqdm(total=self.total, desc=self.name, dynamic_ncols=True, bar_format=FORMAT)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._draw()
        if self._drawn is not None:
            self._drawn.close()

    def arrived(self, completion: Completion, is_new: bool) -> None:
        self.done += 1
        self._failed += completion.error is not None
        if is_new:
            self._new += 1
            self._new_tokens += completion.completion_tokens

    def write(self, line: str) -> None:
        """Print a line above the bar."""
        if self._drawn is not None:
            self._drawn.write(wrapped(line, "  "), file=sys.stderr)
        else:
            say(line, sys.stderr)

    @asynccontextmanager
    async def beating(self, generator: Generator, accuracy: Callable[[], str], stage: str = "") -> AsyncIterator[None]:
        """Draw the bar while the block runs, with the text `accuracy()` and the name of this `stage`, if any."""
        self._parts, self._stage = lambda: self._so_far(generator, accuracy()), stage
        heart = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            heart.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(SECONDS if self._drawn is not None else SECONDS_IN_A_LOG)
            self._draw()

    def _so_far(self, generator: Generator, accuracy: str) -> list[str]:
        """Return the texts after the bar, the most important first. Tokens of reused completions do not count."""
        elapsed = time.monotonic() - self._began
        trouble, reason = ("", "") if self._is_over else (generator.trouble, generator.asker.reason)
        shown = [trouble] if trouble else []
        if self._failed:
            shown.append(f"failed {self._failed}")
        if self._new and not self._is_over and not trouble:
            shown.append(f"about {self._clock(elapsed / self._new * max(0, self.total - self.done))} left")
        if not self._is_over:
            shown.append(f"{generator.asker.wire.in_flight} in flight")
        if reason:
            shown.append(reason)
        if tokens := self._new_tokens + generator.asker.wire.streamed:
            shown += [f"{short(tokens)} tok", f"{tokens / max(1e-9, elapsed):,.0f} tok/s"]
        return [*shown, accuracy] if accuracy else shown

    def _draw(self) -> None:
        total = max(self.total, self.done)  # the expected total may be too low
        if self._drawn is not None:
            self._drawn.desc, self._drawn.total, self._drawn.n = self._stage or self.name, total, self.done
            self._drawn.set_postfix_str(", ".join(self._parts()))
            return
        share = 100 * self.done // max(1, total)
        spent = self._clock(time.monotonic() - self._began)
        stage = [self._stage] if self._stage else []
        parts = [f"{self.name}: {share}%", f"{self.done}/{total} completions", spent, *stage, *self._parts()]
        print(", ".join(parts), file=sys.stderr, flush=True)
