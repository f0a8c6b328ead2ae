r"""Read the answers that sentences announce: "The answer is 42.", "Answer: 42", "#### 42".

A sentence that only implies its answer, such as "So she has 42 apples", announces none."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.base.turns import LINE_ENDS
from core.grading.canonical import NOTHING
from core.grading.final import says_nothing
from core.grading.numerals import NAMES, in_digits
from core.grading.plain import NUMBER_IN_TEXT, shown
from core.grading.units import CHANGING, unit_of

Read = Callable[[str], str | None]

MAX_STATEMENTS = 20  # most statements that are read, from the end of a part
MAX_BEFORE = 200  # most characters of the sentence before a statement

# An announcement: "#### 42", "Answer 42", "A: 42", or "the answer to the question is 42" and its
# kind.
LINE_START = rf"(?:\A|(?<=[{LINE_ENDS}]))[ \t>#-]*"
_HASHES = rf"(?P<line>{LINE_START}(?<=###) ?(?=[^#\w]*\d))"
_HEADING = (
    rf"{LINE_START}(?:final[ \t]*[:=]|a[ \t]*:"
    r"|(?:the )?(?:final |correct )?ans(?:wer)?\b\.?"
    rf"(?:[ \t]*[{LINE_ENDS}]|(?= ?[$\d])))"
)
_SUBJECT = (
    r"(?<!to )(?<!can )(?:\b(?:answer|ans|correct (?:option|choice)|antwort|réponse|respuesta"
    r"|resposta|risposta|ответ)\b|答案|答え)[ _*]*"
)
QUALIFIER = (
    r"(?:final ?|(?:correct[ea]|corretta)\b"
    r"|(?:to|for|of|in|that|I|we|you)\b[^.:=\n]{1,60}?|\([^()\n]{1,40}\))?"
)
IS = (
    r"(?P<is>,? ?(?:is|was|equals|ist|lautet|est|es|é|è|(?:would|should|will|must) be"
    r"|comes (?:out )?to)\b|[是为は])"
)
ADVERB = (
    r"(?:equal to|therefore|thus|simply|then|just|exactly|indeed|as follows|now|only|about|around"
    r"|roughly|approximately|≈|the number|a total of)"
)
_ANNOUNCEMENT = re.compile(
    rf"(?i){_HASHES}|{_HEADING}"
    rf"|{_SUBJECT}{QUALIFIER}(?:[:：=]>?|->|→| - |{IS}),?(?: ?{ADVERB}(?!\w),?)*[ :：]*"
)
_END = re.compile(rf"[.!?](?=\s|\Z)(?!(?<=[: ][A-E]\.) \$?\d)|[{LINE_ENDS}。]")
SENTENCES = re.compile(rf"(?<=[.!?])[_’)]*\s+|[{LINE_ENDS}]+|(?<=。)")
_OPTION = re.compile(r"\A(?:\([A-Ea-e]\)|[A-Ea-e][.)])\\? ?(?=\S)")  # (B) 42
_REASON = re.compile(r"[,;] |[,;]?(?: (?=\()| (?:because|since|as|which|where|when|but|so)\b)")
_LISTED = re.compile(r"(?:[,;]| and| or| to| of| over| remainder)(?: and| or)? [-$]?\d")
_OPEN = re.compile(r"[-+*/=×÷^(]\s*\Z")  # the value continues, but we cannot read it
# Words by which a statement is unsure of its answer, or has several.
_DENIES = (
    r"\b(?:can ?not|unable|impossible|not|no (?:answer|solution|way|pair|value|such)|never|none"
    r"|neither(?! [a-z]+ nor)|wrong|incorrect|mistake|unclear|unknown|error|undefined)\b"
    r"|n['’]t\b"
)
_SUPPOSES = (
    r"\?|\b(?:guess|if|whether|unless|suppos\w+|assum\w+|might|(?-i:may)|maybe|perhaps|possibly"
    r"|possible that|could (?:also |well )?be(?= (?:\W?\d|that\b))|anything but|asked to)\b"
)
_CHOOSES = r"\b(?:or|either|until|given that|and an? (?:half|third|quarter))\b"
HEDGED = re.compile(f"(?i){_DENIES}|{_SUPPOSES}|{_CHOOSES}")
_WITHDRAWN = re.compile(
    r"(?i)\b(?:wait|actually|wrong|incorrect|mistake|sorry|correction|not (?:right|correct))\b"
)
_PROSE = re.compile(
    r"(?<![A-Za-z])(?:[A-Za-z]{3,}|is|if|it|so|we|to|of|by|or|at|an|as|be)(?![A-Za-z])"
)
_MATHEMATICS = re.compile(
    r"\\[A-Za-z]+ ?(?:\{[^{}\\]*\})?|\b(?:sin|cos|tan|log|sqrt|gcd|lcm|mod)\b"
)
_ITEM = re.compile(  # Tom: 7
    r"[-•]? ?(?:[^:=\d]{1,40}[:=] *[^\s\d]?\d[^=+×*/]*|\$?\d[\d.,]* [a-z][^=+×*/\d]*)"
)
_NAME = f"(?:{'|'.join(sorted(NAMES, key=len, reverse=True))})"
_WORDED = re.compile(rf"(?i)\b{_NAME}(?:(?:[- ]| and ){_NAME})*\b")
# A letter that is a variable. In 5 x 3 it is a sign.
_VARIABLE = re.compile(r"(?<![A-Za-z\\])(?!x ?[\d$])[A-Za-z](?![A-Za-z])")
_UNIT = re.compile(
    r" ?(?:(?:square|cubic) )?[A-Za-z]+(?:/[A-Za-z]+| per [a-z]+)?(?:\^\{?[23]\}?|[²³])?"
)
# Words after a result that change it. In "42 in total" and "42, which is even" they do not.
_CHANGING = CHANGING - {"in", "for", "which", "that", "this", "so"}
_UNIT_AND_POWER = re.compile(r" ?([A-Za-z ./-]*?)(\^\{?[23]\}?|[²³])? ?")


@dataclass(frozen=True)
class Statement:
    """A statement of an answer, with the sentence `before` it and the text `after` it. `end` is the
    punctuation or line end after its `value`, or "" at the end of the text."""

    announcement: re.Match[str]
    before: str
    value: str
    end: str
    after: str


def announced(text: str, stated: Callable[[str], str], truncated: bool) -> list[str]:
    """Return the answers that sentences of a plain `text` announce. `stated` returns the answer in
    the words after "The answer is". The list is empty if a later sentence withdraws them."""
    answers: list[str] = []
    rest = text  # the text after the last statement
    for statement in statements_in(text):
        if not is_certain(statement, truncated) or (answers and is_other_case(statement)):
            continue
        is_list = _is_list(statement)
        answer = "" if is_list else stated(statement.value)
        if answer:
            answers.append(answer)
        elif re.search(r"\d", statement.value) or HEDGED.search(statement.value):
            answers.clear()
        else:
            continue
        if not is_list:
            rest = statement.after
    return [] if _is_withdrawn(rest) else answers


def statements_in(text: str, pattern: re.Pattern[str] = _ANNOUNCEMENT) -> list[Statement]:
    """Return the last statements of a plain `text`. Their announcements match `pattern`."""
    statements = []
    for announcement in list(pattern.finditer(text))[-MAX_STATEMENTS:]:
        behind = text[announcement.end() :]
        start = announcement.end() + len(behind) - len(behind.lstrip())
        end = _END.search(text, start)
        stop = end.start() if end else len(text)
        value = text[start:stop].strip(" \t*_`#")
        if value.count("}") > value.count("{"):
            value = value[: value.rindex("}")]
        earlier = text[max(0, announcement.start() - MAX_BEFORE) : announcement.start()]
        before = SENTENCES.split(earlier)[-1]
        after = text[end.end() :] if end else ""
        statements.append(Statement(announcement, before, value, end[0] if end else "", after))
    return statements


def is_certain(statement: Statement, truncated: bool) -> bool:
    """Return whether a statement is complete, and neither a question nor hedged before its
    announcement."""
    if truncated and not (statement.end + statement.after).strip(" .!?*_`\n"):
        return False
    if says_nothing(statement.value) or statement.end == "?":
        return False
    clause = re.split("[,;]", statement.before)[-1]
    return not HEDGED.search(clause)


def is_other_case(statement: Statement) -> bool:
    """Return whether a statement is about another case: if he had 5, the answer would be 47."""
    is_case = re.search(r"(?i)\bif\b", statement.before) is not None
    return is_case and "would" in statement.announcement[0]


def _is_list(statement: Statement) -> bool:
    """Return whether a statement and the line after it are items, such as "Tom: 7"."""
    next_line = re.match(r"\n([^\n]+)", statement.end + statement.after)
    lines = [statement.value, next_line[1]] if next_line else []
    return bool(lines) and all(_ITEM.fullmatch(line.rstrip(" .")) for line in lines)


def _is_withdrawn(rest: str) -> bool:
    for sentence in SENTENCES.split(rest):
        if _WITHDRAWN.search(sentence) and " other " not in sentence:
            return True
    return False


# --- the value of a statement, for numbers and formulas ---
# `read` cleans a number or formula. It returns "" or None if it can't.


def bare_quantity(text: str, read: Read) -> str:
    """Return the answer of a plain `text` that is nothing but a number and its unit, such as 42
    apples, or ""."""
    answers = _quantities([text.strip(" *_`\t\n")], read)
    return answers[0] if answers else ""


def stated_formula(value: str, read: Read) -> str:
    """Return the number or formula in the `value` of a statement, or "" if it is unclear."""
    is_word = re.fullmatch("[A-Z][a-z]+", value) is not None and not HEDGED.search(value)
    text = _WORDED.sub(lambda words: in_digits(words[0]), _OPTION.sub("", value))
    if _OPEN.search(text):
        return value if is_word else ""
    texts = (text, _without_reason(text))
    for readings in (_quantities, _expressions, _results):
        answers = [answer for answer in readings(texts, read) if answer]
        if answers:
            return answers[0]
    answer = read_text(texts[-1], read)
    if answer and not _is_prose(answer) and not HEDGED.search(text):
        return answer
    return value if is_word else ""


def _without_reason(text: str) -> str:
    """Return `text` without a subordinate clause or remark, unless a list continues there."""
    reason = _REASON.search(text)
    if not reason or _LISTED.match(text, reason.start()):
        return text
    return text[: reason.start()]


def _quantities(texts: Sequence[str], read: Read) -> list[str]:
    """Read a number and a unit: 42 apples."""
    answers = []
    for text in texts:
        number = NUMBER_IN_TEXT.match(text)
        if number:
            answers.append(_quantity(number[0], text[number.end() :], read))
    return answers


def _expressions(texts: Sequence[str], read: Read) -> list[str]:
    r"""Read an expression or a name: 2\sqrt{3}, no solution."""
    answers = [read_text(text, read) for text in texts if "=" not in text]
    return [answer for answer in answers if not _is_prose(answer)]


def _results(texts: Sequence[str], read: Read) -> list[str]:
    """Read the result of a calculation: 10 - 2 = 8 flowers left. Another number after it makes it
    unclear."""
    value, sentence = texts
    before, equals, after = sentence.rpartition("=")
    calculation = before.rpartition("=")[2]
    number = NUMBER_IN_TEXT.match(after.strip())
    if not equals or not number or HEDGED.search(value) or _VARIABLE.search(calculation):
        return []
    if before.strip() and not re.search(r"\d", calculation):
        return []
    behind = after.strip()[number.end() :] + value[len(sentence) :]
    words = re.findall(r"\w+", behind.lower())
    if re.search(r"\d", behind) or (words and words[0] in _CHANGING):
        return []
    unit = _UNIT.match(behind)
    quantity = _quantity(number[0], unit[0] if unit else "", read)
    return [quantity or read_text(number[0], read)]


def _quantity(number: str, unit: str, read: Read) -> str:
    """Return the `number` with its `unit`, or "" if the words do not name one."""
    unit = unit.rstrip(" .!,;:)")
    words = _UNIT_AND_POWER.fullmatch(unit)
    if not words or not re.fullmatch(r"-?[\d,.]+", number):
        return "" if unit.strip() else read_text(number, read)
    name = words[1].strip()
    power = (words[2] or "").replace("²", "^2").replace("³", "^3")
    if unit_of(name, power, number == "1") is None:
        return ""
    written = rf"{number}\text{{ {name}}}{power}" if name else number
    return read(written) or ""


def read_text(value: str, read: Read) -> str:
    """Return the cleaned answer of `value`, in which formulas may be hidden (plain.py), or "" if it
    is unreadable."""
    return read(shown(value)) or ""


def _is_prose(answer: str) -> bool:
    words = _MATHEMATICS.sub(" ", answer)
    return _PROSE.search(words) is not None and answer.lower() not in NOTHING
