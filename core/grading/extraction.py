"""Define what reading a text gives: an answer, and a reason why it may be wrong or missing."""

from dataclasses import dataclass, field

from core.types import MAX_ANSWER_CHARS

# Reasons why an answer may be wrong or missing. An Extraction has only the first reason that
# applies.
DOUBTS = {
    "truncated": "The completion was cut off, so that its final answer may be missing.",
    "unclosed": (
        "The last box or tag is not closed. The answer, if any, is from the last box or pair of "
        "tags that is complete and not empty."
    ),
    "no answer": (
        "The text has no box, no Final: line, and no sentence that clearly states an answer."
    ),
    "empty": (
        "Every box is empty. Or there is no box or clear sentence, and Final: lines are empty or "
        "placeholders."
    ),
    "unreadable": (
        f"The last box or Final: line is longer than {MAX_ANSWER_CHARS} characters or nested too "
        "deeply, or the braces of the Final: line do not balance."
    ),
    "not an integer": "The answer type is integer, but the answer is not an integer from 0 to 999.",
    "not an option": (
        "The answer type is choice, but the answer is neither the letter nor the text of an option."
    ),
    "other text": (
        "The answer has the letter of an option, but the text of another. The letter counts."
    ),
    "several": (
        "Boxes or Final: lines have different answers. The last box counts, or else the last "
        "Final: line. Or a sentence after the last box announces another answer. If the reply "
        "continues with another problem after its answer, that answer counts."
    ),
    "list": (
        'Boxes joined by commas, "and" or "or" have different answers. The list of these answers '
        "counts."
    ),
    "next turn": "The answer follows a token that ends a turn. No answer precedes this token.",
    "control character": (
        r"The last box or Final: line has a control character, such as a form feed for \f of \frac."
    ),
    "sentence": "The last box or Final: line is a sentence. Its only number counts.",
    "several numbers": "ANSWER=number: the sentence of the last number has other numbers.",
    "unboxed": (
        'No box or Final: line has an answer. The answer is from a sentence such as "The answer is '
        '42."'
    ),
}


@dataclass(frozen=True)
class Extraction:
    """The answer of a text: the cleaned answer or None, and a `doubt` (a key of DOUBTS, or None).

    If the doubt is "several", `others` lists the other answers, one for each canonical form.
    core/eval.py compares them. `others` is empty if there are more than MAX_OTHERS of them, or if
    one is unreadable. If the doubt is "list", `others` lists the members. If the doubt is
    "sentence", `sentence` is the sentence whose number is the answer. `name` is the name that
    read_value has dropped: "x" in x = 42. It matters if the reference answer has a name."""

    answer: str | None
    doubt: str | None
    others: tuple[str, ...] = field(default=(), compare=False)
    sentence: str = field(default="", compare=False)
    name: str = field(default="", compare=False)
