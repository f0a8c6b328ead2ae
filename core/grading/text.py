r"""Read answers in the way that the constant ANSWER selects: "boxed", "text", "number", "auto" or
"whole".

"boxed" reads a text as boxed.py does, or else its last statement, with a doubt. "text" reads the
last statement of an answer (statements.py): a sentence such as "The answer is 42.", a line such as
"#### 42", a box, or a reply that is nothing but "42". "number" reads the last number. "auto" reads
a box, or else as "text" does. "whole" reads the thinking and the answer like "boxed"
(text_read)."""

import re
from dataclasses import replace
from functools import partial

from core.base.thinking import has_tag, split_thinking
from core.base.turns import parts_of
from core.constants import AUTO, BOXED, LAST_NUMBER, WHOLE
from core.grading.boxed import in_turns, of_part, others_of
from core.grading.boxes import box_spans, has_box
from core.grading.canonical import NUMBER
from core.grading.escapes import restored
from core.grading.extraction import Extraction
from core.grading.final import without_lines
from core.grading.grammar import Grammar
from core.grading.plain import NUMBER_IN_TEXT, plain
from core.grading.statements import SENTENCES
from core.types import Completion

_CUT_NUMBER = re.compile(r"\d[.,:/\d]*\Z")


def read(text: str, grammar: Grammar, way: str = BOXED, truncated: bool = False) -> Extraction:
    """Read the answer of `text` in one of WAYS. `truncated` tells that the text was cut off."""
    text = restored(text)
    if way == WHOLE:  # as in RSA's code: the last box of the whole output
        return _boxed(text, BOXED, grammar, truncated)
    text = split_thinking(text, None)[1] if has_tag(text) else text
    if way == BOXED or (way == AUTO and has_box(text)):
        read_part = partial(_boxed, way=way, grammar=grammar)
        extraction = in_turns(text, read_part, grammar, truncated)
        if way == BOXED or extraction.doubt not in ("empty", "no answer"):
            return extraction
    if way == LAST_NUMBER:
        answer, doubt = _last_number(text, grammar, truncated)
        answers = [answer] if answer else []
    else:
        answers = _stated(text, grammar, truncated)
        doubt = None
    return _last_of(answers, doubt, grammar, truncated)


def text_read(reply: Completion, text: str, way: str) -> str:
    """Return the text that is read for a `text` of the `reply`. Only the way "whole" adds the
    thinking, which ends with a tag (RSA's code looks for it)."""
    is_whole = way == WHOLE and reply.thinking
    return f"{reply.thinking}\n</think>\n\n{text}" if is_whole else text


def _last_of(
    answers: list[str], doubt: str | None, grammar: Grammar, truncated: bool
) -> Extraction:
    """Return the last of the `answers`, with the first doubt that applies, or else `doubt`."""
    answer = answers[-1] if answers else ""
    others = others_of(reversed(answers), answer, grammar) if answer else []
    fault = grammar.fault(answer)
    if truncated:
        doubt = "truncated"
    elif not answer:
        doubt = "no answer"
    elif fault:
        doubt = fault
    elif others:
        doubt = "several"
    return Extraction(answer or None, doubt, tuple(other for other in others if other))


def _boxed(text: str, way: str, grammar: Grammar, truncated: bool) -> Extraction:
    """Read a part of a reply that should have a box. Without one, read the last statement of an
    answer."""
    extraction = of_part(text, grammar, truncated)
    if extraction.answer or extraction.doubt in ("unreadable", "unclosed"):
        is_certain = extraction.doubt is None
        return _with_later_answer(extraction, text, grammar) if is_certain else extraction
    if has_box(text):  # `Final:` lines count only without a box
        text = without_lines(text)
    answers = grammar.announced(plain(text), truncated)
    if not answers:
        return extraction
    answer = answers[-1]
    if truncated:
        return Extraction(answer, "truncated")
    unboxed = "unboxed" if way == BOXED else None
    return Extraction(answer, grammar.fault(answer) or unboxed)


def _with_later_answer(extraction: Extraction, text: str, grammar: Grammar) -> Extraction:
    """Return the answer of the last box, with a doubt if a later sentence announces another.

    A sentence without a clear answer is ignored. So is a sentence that repeats a formula of the
    box, such as "The answer is 4210_{5}". A single letter is no formula."""
    spans = box_spans(text)[0]
    if not spans or not extraction.answer:
        return extraction
    start, end = spans[-1]
    later = text[end:].lstrip("}$ ")
    is_formula = end - start > 1 and not NUMBER.fullmatch(extraction.answer)
    if is_formula and text[start:end] in later:
        return extraction
    last = grammar.announced(plain(later), truncated=False)[-1:]
    is_exact = bool(last) and grammar.is_exact(last[0])
    others = others_of(last, extraction.answer, grammar) if is_exact else []
    if not others:
        return extraction
    return replace(extraction, doubt="several", others=tuple(filter(None, others)))


def _stated(text: str, grammar: Grammar, truncated: bool) -> list[str]:
    """Return the answers of the first part of `text` that announces one, or is nothing but one, the
    last answer last. A part ends if the model begins another problem or turn. If a part has a
    number but states no answer, the answers of later parts belong to other problems."""
    parts = [plain(part.text) for part in parts_of(text)]
    for index, part in enumerate(parts):
        is_cut_off = truncated and index == len(parts) - 1
        answers = grammar.announced(part, is_cut_off)
        if not answers and not is_cut_off:
            bare = grammar.bare(part)
            answers = [bare] if bare else []
        if answers or NUMBER_IN_TEXT.search(part):
            return answers
    return []


def _last_number(text: str, grammar: Grammar, truncated: bool) -> tuple[str, str | None]:
    """Return the last number of `text`, with a doubt if its sentence has several. If the model
    begins another problem or turn after it announced an answer, the text before counts."""
    for part in parts_of(text)[:-1]:
        if grammar.announced(plain(part.text), truncated=False):
            text = part.text
            truncated = False
            break
    text = plain(text)
    if truncated and _CUT_NUMBER.search(text.rstrip(" *_")):
        return "", None
    for sentence in reversed(SENTENCES.split(text)):
        numbers = NUMBER_IN_TEXT.findall(sentence)
        if numbers:
            doubt = "several numbers" if len(numbers) > 1 else None
            return grammar.number(numbers[-1]), doubt
    return "", None
