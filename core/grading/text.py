r"""Read answers in the way that the constant ANSWER selects: "boxed", "text", "number" or "auto".

"boxed" reads a text as boxed.py does. "text" reads the last statement of an answer: a sentence such as "The answer is
42.", a line such as "#### 42", or a box. Otherwise it reads a last sentence such as "So she has 42 apples", with a
doubt. "number" reads the last number. "auto" reads a box, or else as "text" does."""

import re

from core.constants import AUTO, BOXED, LAST_NUMBER
from core.grading.boxed import Extraction, box_spans, extract, is_aime, is_prose, others_of, read_value
from core.grading.final import LINE_ENDS, final_lines, says_nothing, statements
from core.grading.units import CHANGING
from core.types import MAX_ANSWER_CHARS

MOST = 20  # most statements that are read, from the end of the text

_NUMBER = re.compile(
    r"(?<![\w.,/^:])(?<![*×÷+^/] )(?:[-−–](?=[\d.$£€¥₹\\]))?(?:\\?\$ ?|[£€¥₹] ?)?-?"
    r"(?:\\[dt]?frac ?\{\d+\} ?\{\d+\}|\d+ \d+/\d+|\d+/\d+|\d{1,3}(?:(?:,|\{,\})\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?!\w|[.,]\d|/\d|:\d|\^| ?[*×÷+^/] ?\w| - \w\b)(?:\\?%)?"
)
# Other words for "the answer is", and "42 is the answer", which become "the answer is".
_SPOKEN = re.compile(
    r"\b(?:(?:the|my|our|your) )?(?:final |correct |overall )?(?<![\w-])answer(?: to [^.:\n]{1,60}?)?"
    r",? (?:is|was|(?:would|should|will|must) be|comes (?:out )?to|equals)\b"
    r",?(?: (?:equal to|therefore|thus|simply|then|just|exactly|indeed|as follows|now)\b,?)* ?:?+",
    re.I,
)
_BEHIND = re.compile(r"(?<=\s)([-$£€\\*]*\d[^.!?\n]{0,40}?) is (?:the|my|our) (?:final |correct )?answer\b", re.I)
_NEXT = re.compile(rf"[{LINE_ENDS}][ \t*#]*(?:next )?(?:question|problem|q)(?: ?\d+)?[*]*[:.]", re.I)  # another problem
_NEGATED = (
    r"\b(?:can ?not|unable|impossible|not|no|never|none|neither|wrong|incorrect|mistake|unclear|unknown|error)\b"
    r"|n['’]t\b"
)
_HEDGED = re.compile(
    rf"{_NEGATED}|\?|\b(?:guess|if|suppose|assum\w+|might|may|maybe|perhaps|possibl[ey]|either|or|between)\b", re.I
)
_REFUSED = re.compile(_NEGATED, re.I)
_WITHDRAWN = re.compile(r"\b(?:wait|actually|wrong|incorrect|mistake|sorry|correction|not (?:right|correct))\b", re.I)
_SENTENCES = re.compile(rf"(?<=[.!?])[*_\"”’)]*\s+|[{LINE_ENDS}]+|(?<=[.!?]\*\*)\s+")
# Words before a number that ends its sentence, if the sentence has other numbers, and words before other numbers.
_VERB = re.compile(
    r"(?:\b(?:is|are|was|were|be|equals?|(?:equal|comes|amounts|up) to|has|have|had|leaves?|left with|gives?|gets?|got"
    r"|makes|needs?|pays?|paid|costs?|spends?|spent|earns?|earned|takes?"
    r"|receives?|received|sold|made|saved|total(?: of)?)|[=:])"
    r"(?: (?:now|only|just|exactly|about|approximately|a total of|therefore|thus|still))* ?\Z",
    re.I,
)
_NOT_VERB = re.compile(
    r"\b(?:by|than|as|least|most|from|on|steps?|equation|number|problem|question|part|case|day|figure|line|example|over"
    r"|under|plus|minus|times|(?<!equal )(?<!comes )(?<!amounts )(?<!up )to|(?:out|\d+|some|all|any|each) of|the"
    r"|th[eo]se|all|other|(?:add|subtract|divid|multipl)\w*)(?: it| them| this| that)*(?: by)? ?\Z",
    re.I,
)
_EQUATION = re.compile(r"\d ?[a-zA-Z]\b(?! ?\$?\d)|(?<![\w'’])[a-zA-Z] ?[-+*/^]|[-+*/^] ?[a-zA-Z]\b")  # has an unknown
_BRACKETS = re.compile(r"\([^()]*\)")
_ASIDE = re.compile(r"[,;] (?:as|which|where|i\.e\.|meaning|rounded|when|given)\b.*")
_OPTION = re.compile(r"\A(?:\([A-Ea-e]\)|[A-Ea-e]\)) ?(?=\S)")  # (B) 42
_ENTRY = re.compile(r"(?i)(?!.*\b(?:total|sum|answer|result|left|remaining|final)\b)[-*•\d. ]*[^:]{1,40}: *\S*\d")
_TOTAL = re.compile(r" (?:[a-z]+ ){0,2}(?:left|remaining|in total|in all|altogether|total)\b", re.I)
_CUT = re.compile(
    r"[,;:()\[\]\"“”*_]|(?<!\d)\.|\.(?!\d)"
    r"| (?:in|on|at|from|for|with|after|before|to|by|and|that|which|who|during|so)\b"
)
_MARKS = re.compile(r"[*_`]{1,3}(?! ?\d)|(?<!\d)[*_`]{1,3}(?=[\d$])|\\[()\[\]]|(?<=\d)\$|\$(?=[^\d])")
# Words after a number that make it unclear. Other words of CHANGING may begin the rest of a sentence.
_SPOILED = CHANGING - {
    *("to", "in", "by", "is", "are", "was", "were", "has", "have"),
    *("for", "and", "that", "which", "it", "should", "can", "this", "so"),
}


def read(text: str, way: str = BOXED, answer_type: str = "integer", truncated: bool = False) -> Extraction:
    """Read the answer of `text` in one of WAYS. The other arguments are the arguments of boxed.extract."""
    spans, unclosed = box_spans(text)
    if way == BOXED or (way == AUTO and (spans or unclosed)):
        return extract(text, answer_type, truncated)
    if way == LAST_NUMBER:
        answers, doubt = _last_number(text, answer_type)
    else:
        answers, doubt = _stated(text, answer_type, truncated)
    answer = answers[-1] if answers else ""
    others = others_of(reversed(answers), answer, answer_type) if answer else []
    if truncated:
        doubt = "truncated"
    elif not answer:
        doubt = "no answer"
    elif answer_type == "integer" and not is_aime(answer):
        doubt = "not an integer"
    elif others:
        doubt = "several"
    return Extraction(answer or None, doubt, tuple(other for other in others if other))


def _last_number(text: str, answer_type: str) -> tuple[list[str], str | None]:
    """Return the last number of `text` in a list, with a doubt if its sentence has several."""
    for sentence in reversed(_SENTENCES.split(text)):
        if numbers := _NUMBER.findall(_plain(sentence)):
            answer = read_value(numbers[-1], answer_type)
            return ([answer] if answer else []), ("several numbers" if len(numbers) > 1 else None)
    return [], None


def _stated(text: str, answer_type: str, truncated: bool) -> tuple[list[str], str | None]:
    """Return the answers that `text` states, the last one last. A doubt means that a sentence implies the answer."""
    text = _SENTENCES.sub(lambda end: end[0] if end[0].strip(" ") != "" else "\n", text)
    text = _BEHIND.sub(r"the answer is \1", _SPOKEN.sub("the answer is ", text))
    found = [(line.end, line.value) for line in final_lines(text)]
    found += [(one.end, one.value) for one in statements(text)]
    found += [(end + 1, text[start:end]) for start, end in box_spans(text)[0]]
    answers, end = list[str](), 0
    for place, value in sorted(found)[-MOST:]:
        if (truncated and place == len(text)) or says_nothing(value) or value in ("correct", "right"):
            continue
        if answers and _NEXT.search(text[end:place]):
            break
        answer, end = _value(value, answer_type), place
        answers = [*answers, answer] if answer else []
    rest = text[end:]
    if answers and not (_WITHDRAWN.search(rest) and not _NEXT.search(rest)):
        return answers, None
    if truncated or (end and not answers and not _NUMBER.search(rest)):
        return [], None
    implied = _implied(rest, answer_type)
    return ([implied] if implied else []), "implied"


def _value(value: str, answer_type: str) -> str:
    """Return the answer in the `value` of a statement, or "" if it is unclear."""
    value = _OPTION.sub("", value)
    answer = read_value(value, answer_type) or ""
    if answer and "=" not in value and not is_prose(answer):
        return answer
    return _in_sentence(value, answer_type) or ("" if is_prose(answer) or _HEDGED.search(value) else answer)


def _implied(text: str, answer_type: str) -> str:
    """Return the answer that the last sentence with a number implies. Later sentences must not withdraw it."""
    sentences = [each for each in _SENTENCES.split(text) if each.strip()]
    one_of_many = all(map(_ENTRY.match, sentences[-2:])) and len(sentences) > 1  # as in "Tom: 7", "Mary: 42"
    for sentence in reversed(sentences):
        if re.search(r"\d", sentence):
            return "" if one_of_many else _in_sentence(sentence, answer_type)
        if _REFUSED.search(sentence):
            return ""
    return ""


def _in_sentence(sentence: str, answer_type: str) -> str:
    """Return the number with its unit that a sentence implies, or "" if it is unclear which number this is."""
    sentence = _plain(sentence)
    if len(sentence) > MAX_ANSWER_CHARS or _HEDGED.search(sentence):
        return ""
    before, equals, after = sentence.rpartition("=")
    if equals and _EQUATION.search(before.rpartition("=")[2]):
        return ""
    sentence = f"= {after.strip()}" if equals and _NUMBER.match(after.strip()) else sentence
    for aside in (_BRACKETS, _ASIDE):
        shorter = aside.sub("", sentence)
        sentence = shorter if len(_NUMBER.findall(shorter)) == 1 else sentence
    numbers = list(_NUMBER.finditer(sentence))
    if not numbers or re.search(r"\d", _NUMBER.sub("", sentence)):
        return ""
    chosen = numbers[-1]
    if len({one[0] for one in numbers}) > 1:
        ends = [one for one in numbers if _VERB.search(sentence[: one.start()]) and _TOTAL.match(sentence[one.end() :])]
        is_last = _VERB.search(sentence[: chosen.start()]) and len(sentence[chosen.end() :].split()) <= 3
        is_last = is_last and " and " not in sentence[numbers[-2].end() : chosen.start()]
        if not is_last and len(ends) != 1:
            return ""
        chosen = ends[0] if len(ends) == 1 else chosen
    if _NOT_VERB.search(sentence[: chosen.start()]) or re.match(r" more than\b", sentence[chosen.end() :]):
        return ""
    behind = re.sub(r"(?<=[a-z])\(.*?\)", "", sentence[chosen.end() :]).rstrip(" .!,;:)")
    words = behind.lower().split()
    if words and re.sub(r"\W", "", words[0]) in _SPOILED:
        return ""
    for unit in (behind, _CUT.split(behind, maxsplit=1)[0], " ".join(words[:1])):
        answer = read_value(chosen[0] + unit if unit[:1] in " %" else f"{chosen[0]} {unit}", answer_type)
        if answer and not is_prose(re.sub(r"\\text\{[^}]*\}", "", answer)):
            return answer
    return read_value(chosen[0], answer_type) or ""


def _plain(sentence: str) -> str:
    """Return a sentence without Markdown's emphasis and TeX's delimiters."""
    sentence = re.sub(r"[\"“”]|\b\d+(?:st|nd|rd|th)\b", "", re.sub(r"\((?:or|about) [^()]*\)", "", sentence))
    sentence = re.sub(r"\\text ?\{([^{}]*)\}", r"\1", sentence)
    return re.sub(
        r"[*_`]{1,3}(?! ?\d)|(?<!\d)[*_`]{1,3}(?=[\d$])|\\[()\[\]]|(?<=\d)\$|\$(?=[^\d])", "", sentence
    ).strip()
