r"""Read the answer in the last complete \boxed{} of a text, or else in its last `Final:` line
(final.py). If the reply continues with another problem or turn (core/base/turns.py), only the part
with its answer is read. A grammar (grammar.py) tells what the content of a box means."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from core.base.turns import Part, parts_of
from core.grading.boxes import BOX, answering_boxes, box_contents, is_point, joined_boxes
from core.grading.escapes import restored, restored_within
from core.grading.extraction import Extraction
from core.grading.final import final_lines, says_nothing
from core.grading.grammar import Grammar
from core.types import MAX_ANSWER_CHARS

# most other answers in boxes and `Final:` lines to compare with the answer that counts
MAX_OTHERS = 8
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1b]")


def in_turns(
    text: str, read_part: Callable[..., Extraction], grammar: Grammar, truncated: bool
) -> Extraction:
    """Read the first part of a reply that has an answer (turns.py), or else the whole `text`.

    `read_part(text, truncated=…)` reads a part. A part with a broken box casts doubt on all that
    follows."""
    parts = parts_of(text)
    broken = None
    for index, part in enumerate(parts if len(parts) > 1 else []):
        is_last = index == len(parts) - 1
        extraction = read_part(part.text, truncated=truncated and is_last)
        if extraction.answer is not None:
            return _of_parts(parts, index, extraction, grammar, truncated)
        if extraction.doubt in ("unclosed", "unreadable"):
            broken = extraction.doubt
            break
    whole = read_part(text, truncated=truncated)
    return replace(whole, doubt=whole.doubt or broken)


def _of_parts(
    parts: Sequence[Part], index: int, extraction: Extraction, grammar: Grammar, truncated: bool
) -> Extraction:
    """Return the `extraction` of the part `index`, with a doubt if the other parts give a reason
    for one."""
    if truncated:
        return replace(extraction, doubt="truncated")
    if extraction.doubt:
        return extraction
    if any(part.is_after_token for part in parts[1 : index + 1]):
        return replace(extraction, doubt="next turn")
    later = takewhile(lambda part: not part.is_after_token, parts[index + 1 :])
    answers = (answer for part in later for answer in stated(part.text, grammar))
    others = others_of(answers, extraction.answer or "", grammar)
    return replace(extraction, doubt="several" if others else None, others=_comparable(others))


def of_part(text: str, grammar: Grammar, truncated: bool = False) -> Extraction:
    r"""Read the answer of a part of a reply, a text without thinking, in linear time. Never raises.

    The last complete \boxed{} or \fbox{} that is not empty counts, with any box inside it. Without
    a box, the last `Final:` line that is not empty counts. "042" becomes "42", and "1{,}024"
    becomes "1024"."""
    boxes = _contents(text, grammar)
    is_boxed = bool(boxes.values) or boxes.is_unclosed
    lines = _lines(text, is_boxed, truncated)
    candidates: Sequence[str | None] = boxes.values if is_boxed else lines
    earlier = iter(reversed(candidates))  # read lazily, because few are needed
    chosen, answer = _last_answer(earlier, grammar)
    sentence = grammar.sentence(restored_within(chosen)) if chosen else ""
    fault = grammar.fault(answer) if answer else None
    others: Sequence[str | None] = []
    doubt: str | None
    if truncated:
        doubt = "truncated"
    elif boxes.is_unclosed:
        doubt = "unclosed"
    elif not answer:
        doubt = _reason_for_no_answer(answer, candidates)
    elif fault:
        doubt = fault
    else:
        above = reversed(lines) if is_boxed else iter(())
        values = (value_of(content, grammar) for content in chain(earlier, above))
        others = others_of(values, answer, grammar)
        doubt = _doubt_of_answer(others, boxes.members, chosen, sentence)
        others = others or boxes.members
    name = grammar.dropped_name(chosen) if chosen and answer else ""
    return Extraction(answer or None, doubt, _comparable(others), sentence, name)


def _last_answer(
    candidates: Iterator[str | None], grammar: Grammar
) -> tuple[str | None, str | None]:
    """Return the first of the `candidates` that is no placeholder, and its answer."""
    chosen: str | None = ""
    answer: str | None = ""
    for chosen in candidates:
        answer = value_of(chosen, grammar)
        if answer != "":
            break
    return chosen, answer


def _reason_for_no_answer(answer: str | None, candidates: Sequence[str | None]) -> str:
    if answer is None:
        return "unreadable"
    return "empty" if candidates else "no answer"


def _doubt_of_answer(
    others: Sequence[str | None], members: Sequence[str], chosen: str | None, sentence: str
) -> str | None:
    if others:
        return "several"
    if members:
        return "list"
    if chosen and _CONTROL.search(chosen):
        return "control character"
    return "sentence" if sentence else None


@dataclass(frozen=True)
class _Contents:
    """The contents of a text's boxes. If the last boxes make a list, one value has all `members`.
    `is_unclosed` is True if the text ends in an unclosed box."""

    values: list[str]
    members: list[str]
    is_unclosed: bool


def _contents(text: str, grammar: Grammar) -> _Contents:
    """Return the contents of the boxes, without those that repeat the instruction."""
    boxes, is_unclosed = answering_boxes(text)
    contents = [text[box.start : box.end] for box in boxes]
    single = _Contents(contents, [], is_unclosed)
    if not grammar.joins_boxes:
        return single
    joined = joined_boxes(text, boxes)
    values = [value_of(text[box.start : box.end], grammar) for box in joined]
    members = [value for value in values if value]
    listed = ", ".join(members)
    different = others_of(values, "", grammar)
    if len(members) < len(values) or len(different) < 2 or len(listed) > MAX_ANSWER_CHARS:
        return single
    if is_point(text, joined[0], joined[-1]):
        listed = f"({listed})"
    before = contents[: len(contents) - len(joined)]
    return _Contents([*before, listed], [member for member in different if member], is_unclosed)


def _comparable(others: Sequence[str | None]) -> tuple[str, ...]:
    """Return the `others` of an Extraction, or () if they are too many or one is unreadable."""
    readable = tuple(other for other in others if other is not None)
    return readable if len(readable) == len(others) <= MAX_OTHERS else ()


def value_of(box: str | None, grammar: Grammar) -> str | None:
    """Return the answer in the content of a box or `Final:` line, "" for a placeholder, None if it
    is unreadable."""
    if box is None:
        return None
    if says_nothing(box) and box.strip() != "?":  # with "?", a model gives up
        return ""
    text = grammar.value(restored_within(box))
    if text is None:
        return None
    is_answer = text and (text == "?" or not says_nothing(text))
    return text if is_answer else ""


def stated(text: str, grammar: Grammar) -> list[str | None]:
    """List the different cleaned answers in boxes and `Final:` lines. An unreadable answer is None.
    "" is left out."""
    text = restored(text)
    boxes, is_unclosed = box_contents(text)
    lines = _lines(text, has_box=bool(boxes) or is_unclosed)
    values = [value_of(content, grammar) for content in [*boxes, *lines]]
    return [value for value in dict.fromkeys(values) if value != ""]


def _lines(text: str, has_box: bool, truncated: bool = False) -> list[str | None]:
    """Return the value of each `Final:` line: "" for no value or a placeholder, None for a value
    that does not fit into a box. Lines with a box are left out, and so is a line at the end of a
    truncated text."""
    values: list[str | None] = []
    for line in final_lines(text):
        is_cut_off = truncated and line.end == len(text)
        if is_cut_off or (has_box and BOX.search(line.value)):
            continue
        if says_nothing(line.value):
            values.append("")
        else:
            values.append(line.value if _fits(line.value) else None)
    return values


def _fits(value: str) -> bool:
    """Return whether `value` can be put into a box: its braces balance, and it is at most
    MAX_ANSWER_CHARS long."""
    if len(value) > MAX_ANSWER_CHARS:
        return False
    return box_contents(rf"\boxed{{{value}}}") == ([value], False)


def others_of(answers: Iterable[str | None], answer: str, grammar: Grammar) -> list[str | None]:
    """List the `answers` that differ from `answer` and from each other in canonical form, at most
    MAX_OTHERS + 1."""
    seen: set[str | None] = {"", answer}
    forms: dict[str | None, str | None] = {grammar.canonical(answer): answer}
    for other in answers:
        if other in seen:
            continue
        seen.add(other)
        form = other and grammar.canonical(other)
        forms.setdefault(form, other)
        if len(forms) > MAX_OTHERS + 1:
            break
    return list(forms.values())[1:]
