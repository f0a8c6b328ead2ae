"""Retry: how long a server that sends nothing usable goes on being asked, and what is said of it meanwhile.

Every request is asked again for about two minutes by itself (core/generate/generator.py). Here is what all of them
together say of the server: one that has never sent anything usable gets no more than that, one that has is waited for
longer; and prompts that it chokes on, where it answers others, end nothing.
"""

import math
import time
from collections.abc import Callable

from core.base.errors import RunFailed

FEW = 3  # unusable replies to one request after which it is said, where nothing else was usable meanwhile
# A server is given up when so many different prompts came to nothing and no other was usable meanwhile: one whose first
# reply is still to come, and one that has answered before and has sent nothing usable for so many seconds.
PROMPTS_NEVER = 2
PROMPTS_SINCE, SECONDS_SINCE = 8, 600.0


class Retry:
    """With the server at `address`; `say` shows a line to the user."""

    def __init__(self, address: str, say: Callable[[str], None]) -> None:
        self._address, self._say = address, say
        self.is_answered = False  # whether anything was usable yet
        self._last = -math.inf  # when it was; monotonic seconds, as all times here
        self._replies = 0  # unusable ones since
        self._prompts: set[str] = set()  # that came to nothing since
        self._is_told = self._is_told_away = False

    def is_hopeless(self, prompt: str) -> bool:
        """Whether it has used up all its tries already, and nothing was ever usable: then one more will do."""
        return prompt in self._prompts and not self.is_answered

    def usable(self) -> None:
        """A reply has come."""
        if self._is_told:
            self._say(f"note: the server at {self._address} answers again")
        self.is_answered, self._last, self._replies = True, time.monotonic(), 0
        self._is_told = self._is_told_away = False
        self._prompts.clear()

    def unusable(self, words: str, sent: float, tries: int, left: float, is_away: bool = False) -> None:
        """A request that was first `sent` then has had `tries` replies that were of no use, the last with these
        `words`, and is asked again for `left` seconds; with which all ends where the server `is_away`."""
        self._replies += 1
        if (self._is_told_away if is_away else self._is_told) or tries < FEW or self._last >= sent:
            return
        self._is_told, self._is_told_away = True, is_away
        if self.is_answered and not is_away:
            left = max(left, SECONDS_SINCE - (time.monotonic() - self._last))
        self._say(
            f"note: the server at {self._address} sends nothing usable{'' if self.is_answered else ' so far'} "
            f"({words.rstrip('.')}). It is asked for about {_span(left)} more"
            f"{'; if nothing comes, the run ends' if is_away or not self.is_answered else ''}; what is finished is kept"
        )

    def used_up(self, prompt: str, words: str, is_at_work: bool) -> None:
        """All tries of a request came to nothing. Raises RunFailed where the server is to be given up; not while it
        `is_at_work` on others."""
        self._prompts.add(prompt)
        since = time.monotonic() - self._last
        enough = PROMPTS_SINCE if self.is_answered else PROMPTS_NEVER
        if is_at_work or len(self._prompts) < enough or since < SECONDS_SINCE:
            return
        when = f" for {_span(since)}" if self.is_answered else ""
        raise RunFailed(
            f"the server at {self._address} has sent nothing usable{when} ({self._replies:,} replies; the last: "
            f"{words.rstrip('.')}). Fix that and run the same command again: what is finished is kept"
        )


def _span(seconds: float) -> str:
    """ "50 seconds", "2 minutes"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    return f"{round(seconds / 60)} minutes"
