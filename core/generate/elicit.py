"""Continue a reply that ended without an answer (ELICIT=1) with "Therefore, the answer is" and an open box.
If the run reads words (ANSWER=text or number), the box is left out.

The second of the two prompts is from zero-shot chain of thought (Kojima et al. 2022, arXiv 2205.11916). It is the same
request as budget forcing at the cap, but all of the reply precedes the box."""

from core.constants import BOXED
from core.grading.text import read
from core.types import ELICITED_ANSWER, Completion, opening_for


def lacks_answer(completion: Completion, reading: str) -> bool:
    """Return whether the model itself ended `completion` and the grading finds no answer (Problem.reading) in it.
    Empty, failed, filtered, truncated and forced completions do not count."""
    is_cut = completion.truncated or completion.filtered or completion.finish_reason is None
    is_excluded = is_cut or completion.empty or completion.error or completion.forced is not None
    way, _, answer_type = reading.rpartition(" ")
    return not is_excluded and read(completion.answer, way or BOXED, answer_type).answer is None


def opened(answer: str, reading: str) -> str:
    """Return `answer`, then the beginning of the elicited answer (for this Problem.reading) as a new paragraph."""
    return f"{answer}\n\n{opening_for(ELICITED_ANSWER, reading)}".lstrip()
