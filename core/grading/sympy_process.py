"""Compare mathematical answers (equality.py) in a child process, which ends if it reaches a
deadline. sympy can hang or use up the memory on an answer such as 9^{9^{9^9}}. math-verify's own
time-out is a signal, which fails in threads and under asyncio (Math-Verify #50, #55)."""

import logging
from collections.abc import Callable
from functools import lru_cache

from core.grading.child import Child, serve
from core.grading.doubts import NOTATION

DEADLINE_S = 10.0  # of the child's processor time, for one comparison


@lru_cache(maxsize=65536)
def math_equal(answer: str, truth: str) -> bool | None:
    """Return whether `answer` equals the reference answer `truth`, both in LaTeX without dollar
    signs. Returns None and warns if the child ends before its verdict, for example at a deadline or
    for lack of memory. Threads may call it, but comparisons run one at a time. Raises UserError if
    the child does not start."""
    verdict = _PROCESS.ask("equal", answer, truth, DEADLINE_S)
    if verdict is None:
        logging.getLogger(__name__).warning(
            "no verdict: %.200r and %.200r count as different", answer, truth
        )
    return None if verdict is None else bool(verdict)


@lru_cache(maxsize=65536)
def math_readable(text: str) -> bool | None:
    """Return whether `text` can be compared with other spellings. Returns None and raises in
    math_equal's cases."""
    verdict = _PROCESS.ask("readable", text, DEADLINE_S)
    return None if verdict is None else bool(verdict)


@lru_cache(maxsize=65536)
def math_difference(answer: str, truth: str) -> str | None:
    """Return a doubt (doubts.py) about two readable answers that are not equal, or None if they
    certainly differ. If the child ends first, that is a doubt, too. Raises as math_equal does."""
    doubt = _PROCESS.ask("difference", answer, truth, DEADLINE_S)
    if doubt is None:
        return NOTATION
    return str(doubt) or None


_PROCESS = Child("core.grading.sympy_process", "the judge of math answers")
_PROCESS.cached += [math_equal, math_readable, math_difference]


def _judge() -> Callable[..., bool | str]:
    """Return the function that answers questions. "equal" and "readable" are answered by true or
    false, and "difference" by a doubt, or by "" if there is none."""
    from core.grading.differences import difference
    from core.grading.equality import is_equal, readable

    answers: dict[str, Callable[..., bool | str]] = {
        "equal": is_equal,
        "readable": readable,
        "difference": lambda *texts: difference(*texts) or "",
    }
    return lambda question, *texts: answers[question](*texts)


if __name__ == "__main__":
    serve(_judge)
