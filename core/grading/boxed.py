r"""Read the answer in the last complete \boxed{} of a text, or else in its last `Final:` line
(final.py). If the reply continues with another problem or turn (core/base/turns.py), only the part
with its answer is read. Cleaning never changes a number: 1,024 does not become 1. Answers of type
"integer" are whole numbers from 0 to 999, as in AIME. They lose units and are compared as text.
"math" answers are compared by meaning (answers.py)."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain, takewhile

from core.base.turns import Part, parts_of
from core.grading.escapes import restored, restored_within
from core.grading.final import final_lines, is_echo, says_nothing
from core.grading.numerals import in_digits
from core.grading.sentence import value_in
from core.grading.units import unit_of
from core.types import MAX_ANSWER_CHARS

MAX_PASSES = 20  # passes of cleaning: a text that needs more has no answer
MAX_MEMBERS = 20  # most boxes that make a list
MAX_GAP = 60  # most characters between two boxes of a list
# most other answers in boxes and `Final:` lines to compare with the answer that counts
MAX_OTHERS = 8

# Reasons why an answer may be wrong or missing. An Extraction has only the first reason that
# applies.
DOUBTS = {
    "truncated": "The completion was cut off, so that its final answer may be missing.",
    "unclosed": (
        "The last box is not closed. The answer, if any, is from the last box that is complete and "
        "not empty."
    ),
    "no answer": (
        "The text has no box, no Final: line, and no sentence that clearly states an answer."
    ),
    "empty": (
        "Every box is empty. Or there is no box or clear sentence, and Final: lines are empty or "
        "placeholders."
    ),
    "unreadable": f"The last box or Final: line is longer than {MAX_ANSWER_CHARS} characters or nested too deeply, or "
    "the braces of the Final: line do not balance.",
    "not an integer": "The answer type is integer, but the answer is not an integer from 0 to 999.",
    "several": "Boxes or Final: lines have different answers. The last box counts, or else the last Final: line. "
    "Or a sentence after the last box announces another answer. "
    "If the reply continues with another problem after its answer, that answer counts.",
    "list": (
        'Boxes joined by commas, "and" or "or" have different answers. The list of these answers '
        "counts."
    ),
    "next turn": "The answer follows a token that ends a turn. No answer precedes this token.",
    "control character": (
        r"The last box or Final: line has a control character, such as a form feed for \f of \frac."
    ),
    "sentence": "The last box or Final: line is a sentence. Its only number counts.",
    "implied": (
        "ANSWER=text or auto: no sentence states the answer. The answer is from a last sentence "
        "with a number."
    ),
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
    answers.groups() compares them. `others` is empty if there are more than MAX_OTHERS of them, or
    if one is unreadable. If the doubt is "list", `others` lists the members. If the doubt is
    "sentence", `sentence` is the sentence whose number is the answer. `name` is the name that
    read_value has dropped: "x" in x = 42. It matters if the reference answer has a name."""

    answer: str | None
    doubt: str | None
    others: tuple[str, ...] = field(default=(), compare=False)
    sentence: str = field(default="", compare=False)
    name: str = field(default="", compare=False)


def extract(text: str, answer_type: str = "integer", truncated: bool = False) -> Extraction:
    r"""Read the answer of `text`, a completion without its thinking, in linear time. Never raises.

    The last complete \boxed{} or \fbox{} that is not empty counts, with any box inside it. Without
    a box, the last `Final:` line that is not empty counts. "042" becomes "42", and "1{,}024"
    becomes "1024"."""
    return in_turns(
        restored(text), partial(of_part, answer_type=answer_type), answer_type, truncated
    )


def in_turns(
    text: str, read_part: Callable[..., Extraction], answer_type: str, truncated: bool
) -> Extraction:
    """Read the first part of a reply that has an answer (turns.py), or else the whole `text`.

    `read_part(text, truncated=…)` reads a part. A part with a broken box casts doubt on all that
    follows."""
    parts = parts_of(text)
    broken = None
    for index, part in enumerate(parts if len(parts) > 1 else []):
        found = read_part(part.text, truncated=truncated and index == len(parts) - 1)
        if found.answer is not None:
            return _of_parts(parts, index, found, answer_type, truncated)
        if found.doubt in ("unclosed", "unreadable"):
            broken = found.doubt
            break
    whole = read_part(text, truncated=truncated)
    return replace(whole, doubt=whole.doubt or broken)


def _of_parts(
    parts: Sequence[Part], index: int, found: Extraction, answer_type: str, truncated: bool
) -> Extraction:
    """Return the answer `found` in the part `index`, with a doubt if the other parts give a reason
    for one."""
    if truncated or found.doubt:
        return replace(found, doubt="truncated" if truncated else found.doubt)
    if any(part.is_after_token for part in parts[1 : index + 1]):
        return replace(found, doubt="next turn")
    later = takewhile(lambda part: not part.is_after_token, parts[index + 1 :])
    answers = (answer for part in later for answer in stated(part.text, answer_type))
    others = others_of(answers, found.answer or "", answer_type)
    return replace(found, doubt="several" if others else None, others=_comparable(others))


def of_part(text: str, answer_type: str = "integer", truncated: bool = False) -> Extraction:
    """Read the answer of a part of a reply, as `extract` describes."""
    boxes, members, unclosed = _contents(text, answer_type)
    is_boxed = bool(boxes) or unclosed
    lines = _lines(text, is_boxed, truncated)
    first: Sequence[str | None] = boxes if is_boxed else lines
    value = partial(value_of, answer_type=answer_type)
    earlier = iter(reversed(first))  # read lazily, because few are needed
    answer: str | None = ""
    chosen: str | None = ""
    for chosen in earlier:
        answer = value(chosen)
        if answer != "":
            break
    sentence = _sentence_of(chosen, answer_type)
    above = reversed(lines if is_boxed else [])
    doubt = None
    others: list[str | None] = []
    if truncated:
        doubt = "truncated"
    elif unclosed:
        doubt = "unclosed"
    elif not answer:
        doubt = "unreadable" if answer is None else "empty" if first else "no answer"
    elif answer_type == "integer" and not is_aime(answer):
        doubt = "not an integer"
    elif others := others_of(map(value, chain(earlier, above)), answer, answer_type):
        doubt = "several"
    elif members:
        doubt = "list"
        others = [*members]
    elif chosen and _CONTROL.search(chosen):
        doubt = "control character"
    elif sentence:
        doubt = "sentence"
    name = _dropped_name(chosen, answer_type) if answer else ""
    return Extraction(answer or None, doubt, _comparable(others), sentence, name)


def _contents(text: str, answer_type: str) -> tuple[list[str], list[str], bool]:
    """Return the contents of the boxes, the members of the list that the last boxes make, and
    whether the text ends in an unclosed box. If there is such a list, one content has all members.
    Boxes that repeat the instruction are left out."""
    spans, unclosed = box_spans(text)
    boxes = _answering(text, spans)
    contents = [text[box.start : box.end] for box in boxes]
    if answer_type == "integer":
        return contents, [], unclosed
    joined = _joined(text, boxes)
    members = [value_of(content, answer_type) for content in contents[len(contents) - joined :]]
    listed = ", ".join(member for member in members if member)
    different = others_of(members, "", answer_type)
    if not all(members) or len(different) < 2 or len(listed) > MAX_ANSWER_CHARS:
        return contents, [], unclosed
    if _is_point(text, boxes[len(boxes) - joined], boxes[-1]):
        listed = f"({listed})"
    return (
        [*contents[: len(contents) - joined], listed],
        [member for member in different if member],
        unclosed,
    )


def has_box(text: str) -> bool:
    """Return whether `text` has a box, complete or not, that does not only repeat the
    instruction."""
    spans, unclosed = box_spans(text)
    return unclosed or bool(_answering(text, spans))


def _answering(text: str, spans: Sequence[tuple[int, int]]) -> list["Box"]:
    """Return the boxes at `spans`, without those that only repeat the instruction."""
    boxes = [Box(text.rindex("\\", 0, start), start, end) for start, end in spans]
    return [box for box in boxes if not is_echo(text, box.command, text[box.start : box.end])]


@dataclass(frozen=True)
class Box:
    """The positions of a box: its command, and the start and end of its content."""

    command: int
    start: int
    end: int


def _joined(text: str, boxes: Sequence[Box]) -> int:
    """Return the number of boxes at the end of `boxes` that commas, "and" or "or" join."""
    count = min(len(boxes), 1)
    while count and count < min(len(boxes), MAX_MEMBERS):
        before, after = boxes[-count - 1], boxes[-count]
        gap = text[before.end : after.command]
        if len(gap) > MAX_GAP or not _JOINS.fullmatch(_DELIMITERS.sub(" ", gap).strip()):
            break
        count += 1
    return count


def _is_point(text: str, first: Box, last: Box) -> bool:
    """Return whether parentheses enclose the boxes from `first` to `last`, and no formula's
    delimiters."""
    before = text[max(0, first.command - 3) : first.command].rstrip(" $")
    behind = text[last.end : last.end + 4].lstrip("} $")
    return before.endswith("(") and not before.endswith(r"\(") and behind.startswith(")")


def _comparable(others: Sequence[str | None]) -> tuple[str, ...]:
    """Return the `others` of an Extraction, or () if they are too many or one is unreadable."""
    readable = tuple(other for other in others if other is not None)
    return readable if len(readable) == len(others) <= MAX_OTHERS else ()


def value_of(box: str | None, answer_type: str) -> str | None:
    """Return the answer in the content of a box or `Final:` line, "" for a placeholder, None if it
    is unreadable."""
    if box is None or (says_nothing(box) and box.strip() != "?"):  # with "?", a model gives up
        return box and ""
    text = read_value(restored_within(box), answer_type)
    if not text or (says_nothing(text) and text != "?"):
        return text and ""
    value = value_in(text)
    return text if value is None else read_value(value, answer_type) or text


def _sentence_of(box: str | None, answer_type: str) -> str:
    """Return the content of a box if its answer is the number of a sentence, else ""."""
    text = read_value(restored_within(box), answer_type) if box else ""
    return text if text and value_in(text) else ""


def stated(text: str, answer_type: str = "integer") -> list[str | None]:
    """List the different cleaned answers in boxes and `Final:` lines. An unreadable answer is None.
    "" is left out."""
    text = restored(text)
    boxes, unclosed = _boxes(text)
    found = (
        value_of(each, answer_type) for each in [*boxes, *_lines(text, bool(boxes) or unclosed)]
    )
    return [answer for answer in dict.fromkeys(found) if answer != ""]


def _lines(text: str, has_box: bool, truncated: bool = False) -> list[str | None]:
    """Return the value of each `Final:` line: "" for no value or a placeholder, None for a value
    that does not fit into a box. Lines with a box are left out, and so is a line at the end of a
    truncated text."""
    found = (line for line in final_lines(text) if not (truncated and line.end == len(text)))
    values = (line.value for line in found if not (has_box and BOX.search(line.value)))
    return ["" if says_nothing(value) else value if _fits(value) else None for value in values]


def _fits(value: str) -> bool:
    """Return whether `value` can be put into a box: its braces balance, and it is at most
    MAX_ANSWER_CHARS long."""
    return len(value) <= MAX_ANSWER_CHARS and _boxes(rf"\boxed{{{value}}}") == ([value], False)


def others_of(answers: Iterable[str | None], answer: str, answer_type: str) -> list[str | None]:
    """List the `answers` that differ from `answer` and from each other in canonical form, at most
    MAX_OTHERS + 1."""
    seen: set[str | None] = {"", answer}
    forms: dict[str | None, str | None] = {canonical(answer, answer_type): answer}
    for other in answers:
        if other not in seen:
            seen.add(other)
            forms.setdefault(other and canonical(other, answer_type), other)
            if len(forms) > MAX_OTHERS + 1:
                break
    return list(forms.values())[1:]


def canonical(answer: str, answer_type: str = "integer") -> str:
    r"""Return the canonical form of `answer`, by which votes are counted. For "math", numbers
    become exact fractions ("0.50" and \frac12 are "1/2"). Equal expressions such as \sqrt2/2 and
    1/\sqrt2 keep different forms."""
    text = clean(answer, answer_type)
    if text is None:
        return answer
    if answer_type == "integer":
        return text
    text = clean(in_digits(text), "math") or text
    number = _FRACTION.sub(r"\1\2\3/\4\5", text)
    if _RATIONAL.fullmatch(number):
        try:
            return str(Fraction(number.replace(" ", "")))
        except (ValueError, ZeroDivisionError):  # 1/2/3, 1/0
            pass
    if WORDS.fullmatch(text):
        return text.lower()
    text = re.sub(
        r"([\^_])\{([A-Za-z0-9])\}", r"\1\2", re.sub(r"(\\[A-Za-z]+) (?![A-Za-z])", r"\1", text)
    )
    # A space between digits, or after the comma of a list, separates numbers: "5, 600" is not
    # 5,600.
    return re.sub(r"(?<![A-Za-z0-9.,]) | (?![A-Za-z0-9.,])", "", re.sub(r" ?, ?", ", ", text))


# --- boxes ---

BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
# Braces, and tokens that open or escape a brace. A number without braces (\boxed 42) must be the
# whole answer, because TeX would box only the first digit of \boxed 1/2 and \boxed 2\pi.
_BRACES = re.compile(
    r"""\\(?:boxed|fbox)(?:\s*+(?P<open>\{) | \s*+(?P<bare>[-+−]?[0-9]++)
            (?=[ \t]*+(?:\s|\Z|[$`)\]]|\*\*|\\[)\]]|[.,;:](?![0-9])|[A-Za-z]{2})))
      | \\\\(?!boxed|fbox) | \\[{}]     # a line break, an escaped brace
      | (?P<left>\{+) | (?P<right>\}+)""",
    re.VERBOSE,
)
# The text between two boxes of a list, without delimiters: a comma, "and" or "or", and a name such
# as "x =".
_DELIMITERS = re.compile(r"\$|\\[()\[\],;:! ]|\\q?quad|\\text\w* ?\{|[{}*]|\s+")
_JOINS = re.compile(
    r"(?:[,;、]|(?:[,;] *)?(?:and|or|&)(?: also)?)(?: *\\?[A-Za-z](?:_ *\w+)?'? *=)?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1b]")


def _boxes(text: str) -> tuple[list[str], bool]:
    spans, unclosed = box_spans(text)
    return [text[start:end] for start, end in spans], unclosed


def box_spans(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the span of each outermost complete box's content, and whether a later box is not
    closed."""
    depth = 0
    opened: list[tuple[int, int]] = []  # start of the content, depth outside
    complete: list[tuple[int, int]] = []
    for token in _BRACES.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            opened.append((token.end(), depth))
            depth += 1
        elif kind == "bare":
            complete.append(token.span("bare"))
        elif kind == "left":
            depth += len(token[0])
        elif kind == "right":
            left = max(0, depth - len(token[0]))
            while opened and opened[-1][1] >= left:
                start, outside = opened.pop()
                while complete and complete[-1][0] > start:
                    complete.pop()
                complete.append((start, token.start() + depth - outside - 1))
            depth = left
    return complete, bool(opened) and (not complete or opened[-1][0] > complete[-1][1])


# --- cleaning ---

_CHARACTERS = str.maketrans(
    dict.fromkeys("−–﹣－", "-")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", " ")
    | {"\u202f": "\u2009", "，": ",", "．": ".", "∘": "°", "º": "°"}
    | {chr(ord("０") + digit): str(digit) for digit in range(10)}
    | {
        one: re.sub("(.+)⁄(.+)", r"\\frac{\1}{\2}", unicodedata.normalize("NFKD", one))
        for one in "¼½¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
    }
)
# A backslash and the letters or the character after it are one token, so that \\ or \{ is never
# split.
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|[\s\S])|[$~]")
_MEANING = (
    dict.fromkeys(("$", r"\.", r"\$", r"\(", r"\)", r"\[", r"\]"), " ")
    | dict.fromkeys(
        (r"\quad", r"\qquad", r"\bf", r"\rm", r"\it", r"\large", r"\Large", r"\huge"), " "
    )
    | dict.fromkeys((r"\!", r"\left", r"\right", r"\displaystyle", r"\textstyle", r"\limits"), "")
    | dict.fromkeys((r"\,", r"\thinspace", r"\;", r"\:", r"\>", "\\ ", "\\\u2009", "~"), "\u2009")
    | dict.fromkeys((r"\dfrac", r"\tfrac", r"\cfrac"), r"\frac")
    | {r"\%": "%", r"\degree": "°", r"\textdegree": "°", r"\lvert": "|", r"\rvert": "|"}
)
_WRAPPER = re.compile(
    r"(?<!\\)\\(?:[fmh]?box|boxed|text(?:bf|it|rm|sf|tt|up|normal)?|math(?:rm|bf|it|sf|tt|normal"
    r"|ord)|bm|boldsymbol"
    r"|ensuremath|operatorname|emph|underline|(?:text)?color\s*\{\w*\})(?![A-Za-z])"
)
_WRAPPED = re.compile(r"(?<![\^_])" + _WRAPPER.pattern + r"\s*\{([^{}\\]*)\}")
# A unit or remark after a math answer stays in \text{}. Otherwise its letters would become
# variables.
_REMARK = re.compile(
    r"(?<=[^\s{]) ?\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm(?! ?\{ ?[deij] ?\})) ?"
    r"(\{[^{}\\]*\}(?: ?\^ ?(?:[23]|\{[23]\}))?)\Z"
)

# A box with only a number and a unit. Words that change the number ("5 thousand", "5 or more") are
# not units. Few single letters are units: 5x and 5i are expressions.
_UNIT = (
    r"(?P<degrees>(?:\^ ?)?°|\^ ?\\circ|\^ ?\{ ?\\circ ?\})"
    r"|\\(?:text|textrm|mathrm|mbox) ?\{(?P<unit>[A-Za-z ./()]*)\}(?P<power> ?\^ ?(?:[23]"
    r"|\{[23]\}))?"
    r"|(?<= )(?P<words>[ck]?m/[hs]|(?:[cmk]m|day|men|way|yen|[A-Za-z][a-z]{3,}"
    r"|\([a-z]{4,}\))(?: (?:of|in|[a-z]{3,}))*)"
)
_STATED = re.compile(
    rf"(?P<sign>[-+]?) "
    rf"?(?P<whole>[0-9]+|(?!0,)[0-9]{{1,3}}(?:,[0-9]{{3}})+)(?P<decimals>\.[0-9]*)? ?"
    rf"(?:(?P<percent>%)|{_UNIT})?"
)
# Other text in a box: words before or after the answer, ordinals, 1 000 000, per cent, a residue.
_LEAD = re.compile(
    (
        r"\A(?:(?:so|thus|hence|therefore),? )?(?:(?:the|my|our) )?(?:final "
        r"|correct )?answer ?(?:is ?:?|[:=]) ?"
    ),
    re.I,
)
_HOPE = re.compile(r" ?\. ?I hope (?:it|this) is correct\Z")
_ORDINAL = re.compile(
    r"([0-9]+) ?\^? ?\{? ?(?:\\(?:text|mathrm) ?\{ ?)?(?:st|nd|rd|th)(?: ?\}){0,2}"
)
_MIXED = re.compile(r"(-? ?[0-9]+) ([1-9][0-9]?)/([1-9][0-9]?)")
_SPACED = re.compile(r"[-+]?[1-9][0-9]{0,2}(?: [0-9]{3})+(?:\.[0-9]+)?")
_PERCENT = re.compile(r"(?<=[0-9}]) ?(?:\\text ?\{ ?per ?cent ?\}|per ?cent)\Z")
_MODULO = re.compile(
    r" ?(?:\\pmod|\( ?(?:(?:\\b?)?mod(?![A-Za-z])|\\text ?\{ ?mod ?\})) ?(?:\{ ?([0-9]+) ?\}"
    r"|([0-9]+)) ?\)?\Z"
)
_RESIDUE = re.compile(r"([0-9]{1,9})\\pmod\{([0-9]{1,9})\}")
# every other sign is a dollar
_CURRENCIES = {"£": "pound", r"\pounds": "pound", "€": "euro", "¥": "yen", "₹": "rupee"}
_SIGN = r"\\pounds|(?:US ?)?\\?\$|USD|[£€¥₹]"
_MONEY = re.compile(
    rf"(?P<minus>[-+]?) ?(?:(?P<before>{_SIGN})|(?=[0-9])) ?(?P<amount>[0-9]+(?:(?:,"
    rf"|\{{,\}})[0-9]{{3}})*(?:\.[0-9]+)?)"
    rf" ?(?P<behind>{_SIGN})?[ .,;:]*"
)
_UNIT_WORD = re.compile(r"[A-Za-z./()]{2,}|[mgsLh]")
# Left sides of "= 41": a name ("x"). For integers also names with operators ("m+n"), a value such
# as "f(2)" or "|S|", or a calculation ("16+25"). "2x" is not allowed, because the answer of 2x = 10
# is 5.
_INDEX = r"'*(?:_(?:\{[A-Za-z0-9 ]+\}|[A-Za-z0-9]))?"
_NAME = rf"(?:\\angle )?\\?[A-Za-z]+{_INDEX}"
_OBJECT = (
    rf"{_NAME} ?\((?:{_NAME}|[0-9]+)(?: ?, ?(?:{_NAME}|[0-9]+))*\)|\| ?{_NAME} ?\||\\# ?{_NAME}"
    rf"|\[ ?{_NAME} ?\]"
)
_TERM = rf"(?:{_OBJECT}|{_NAME})"
_ASKED = re.compile(rf"{_TERM}(?: ?(?:[-+/]|\\cdot|\\times) ?{_TERM})*(?: ?\\b?mod ?[0-9]+)?")
# 100m+n: two names, so nothing to solve
_WEIGHTED = re.compile(rf"(?:[0-9]* ?{_NAME})(?: ?[-+] ?[0-9]* ?{_NAME})+")
_ONE_NAME = re.compile(
    rf"(?:\\angle |\\triangle )?(?:\\?[A-Za-z]|\\[A-Za-z]+|[A-Z]+|[A-Za-z]{{4,}}){_INDEX}"
)
_CALCULATION = re.compile(
    r"(?:[0-9+\-*/^(){}!,.× ·]|\\(?:cdot|times|div|d?frac|[dt]?binom|sqrt|b?mod)(?![A-Za-z]))+"
)
_FRACTION = re.compile(
    r"\A(-?) *\\frac *(?:\{ *(-?[0-9]+) *\}|([0-9])) *(?:\{ *([0-9]+) *\}|([0-9]))\Z"
)
# two different canonical forms are two different numbers
NUMBER = re.compile(r"-?[0-9]+(?:/[0-9]+)?")
_RATIONAL = re.compile(r"-? ?[0-9.]+(?: ?/ ?[0-9]+)?")
WORDS = re.compile(r"(?=.*[A-Za-z]{3})[A-Za-z]+(?: [A-Za-z]+)*")
NOTHING = {
    "no solution",
    "no solutions",
    "empty set",
    "the empty set",
    r"\emptyset",
    r"\varnothing",
    "∅",
    r"\{\}",
}


def is_aime(answer: str) -> bool:
    return re.fullmatch("[0-9]{1,3}", answer) is not None


@lru_cache(maxsize=4096)
def clean(text: str, answer_type: str) -> str | None:
    r"""Clean the text of a box. Returns None if it is too long or nested too deeply. Cleaning twice
    changes nothing. Braces stay balanced, so that \boxed{} around the result is read as the same
    answer."""
    if len(text) > MAX_ANSWER_CHARS:
        return None
    for _ in range(MAX_PASSES):
        before, text = text, _clean_once(text, answer_type)
        if text == before:
            return text
    return None


def read_value(box: str | None, answer_type: str) -> str | None:
    """Return the cleaned answer of a box, or None if it is unreadable. For "math", "x = 42" and
    "42°" become "42"."""
    text = None if box is None else clean(box, answer_type)
    if answer_type == "integer" or not text:
        return text
    name, equals, value = text.partition("=")
    named = equals and _ONE_NAME.fullmatch(name.strip())
    number = _stated_number(value.strip() if named else text, "math")
    return text if number is None else number.removesuffix(r"^\circ")


def _dropped_name(box: str | None, answer_type: str) -> str:
    """Return the name of a number that read_value drops, if it is a letter or a few capitals, not a
    word."""
    if box is None or answer_type == "integer":
        return ""
    text = clean(box, answer_type) or ""
    name, equals, _ = text.partition("=")
    is_dropped = equals and read_value(box, answer_type) != text
    is_word = re.search(r"(?<![A-Za-z\\])[A-Za-z]*[a-z]{3}", name)
    return name.strip() if is_dropped and not is_word else ""


def _clean_once(text: str, answer_type: str) -> str:
    text = re.sub("[\ud800-\udfff]", "\ufffd", text).translate(_CHARACTERS)
    text = _money(re.sub(r"[^\S\u2009]+", " ", text), answer_type)
    text = _COMMAND.sub(lambda token: _MEANING.get(token[0], token[0]), text)
    text = re.sub(r"(?<!\\)\{,\}", ",", text)
    text = re.sub(r"(?<=[0-9])\u2009+(?=[0-9]{3}(?![0-9]))", ",", text)
    text = re.sub(r"\s+", " ", re.sub(r"(?<=[\^_])\s+", "", text))
    text = text.lstrip(" ").rstrip(" .,;:%" if answer_type == "integer" else " .,;:")
    text = _MODULO.sub(r"\\pmod{\1\2}", _PERCENT.sub("%", _HOPE.sub("", _LEAD.sub("", text))))
    if ordinal := _ORDINAL.fullmatch(text):
        return ordinal[1]
    if (mixed := _MIXED.fullmatch(text)) and int(mixed[2]) < int(mixed[3]):
        return rf"{mixed[1]}\frac{{{mixed[2]}}}{{{mixed[3]}}}"
    if _SPACED.fullmatch(text):
        return text.replace(" ", "")
    if (number := _stated_number(text, answer_type)) is not None:
        return number
    remark = _REMARK.search(text) if answer_type == "math" else None
    text = text[: remark.start()] if remark else text
    text = _WRAPPED.sub(r" \1 ", text)
    text = _WRAPPER.sub(" ", text) + (rf"\text{remark[1]}" if remark else "")
    if text.startswith("{") and _boxes(r"\boxed" + text)[0] == [text[1:-1]]:
        return text[1:-1]
    if (
        answer_type == "integer"
        and (residue := _RESIDUE.fullmatch(text))
        and int(residue[1]) < int(residue[2])
    ):
        return residue[1]
    if answer_type == "integer" and (number := _worked_out(text)) is not None:
        return number
    return text


def _money(text: str, answer_type: str) -> str:
    """Remove a currency's sign. Math answers get its name instead. A single $ is such a sign. Two
    enclose a formula."""
    dollars = len(re.findall(r"(?<!\\)\$", text))
    found = _MONEY.fullmatch((text if dollars == 1 else re.sub(r"(?<!\\)\$", "", text)).strip())
    if not found or bool(found["before"]) == bool(found["behind"]):
        return text
    number = found["minus"] + found["amount"]
    name = _CURRENCIES.get(found["before"] or found["behind"], "dollar")
    return number if answer_type == "integer" else rf"{number}\text{{ {name}}}"


def _stated_number(text: str, answer_type: str) -> str | None:
    """Return the number in `text` without separators and leading zeros. Returns None unless `text`
    is a number with or without a unit. Only math answers keep the unit: 5 m is not 5 cm, and 12
    boys are not 12 girls."""
    stated = _STATED.fullmatch(text)
    if not stated:
        return None
    words = stated["unit"] or stated["words"] or ""
    power, is_one = stated["power"] or "", stated["whole"] == "1" and not stated["decimals"]
    unit = unit_of(words, power, is_one) if all(map(_UNIT_WORD.fullmatch, words.split())) else None
    if unit is None:
        return None
    decimals = stated["decimals"] or ""
    number = stated["whole"].replace(",", "").lstrip("0") or "0"
    is_grouped = answer_type == "math" and decimals == ".000"  # 1.000 may be a thousand
    number += decimals if is_grouped or decimals.strip(".0") else ""
    number = (
        ("-" if stated["sign"] == "-" and number != "0" else "")
        + number
        + (stated["percent"] or "")
    )
    if answer_type == "integer":
        return number
    if stated["degrees"] or unit.measured == "deg":
        return number + r"^\circ"
    if unit.counted:
        return number + rf"\text{{ {' '.join(words.split())}}}"
    name, _, power = unit.measured.partition("^")
    return number + (rf"\text{{ {name}}}" + (f"^{power}" if power else "") if name else "")


def _worked_out(text: str) -> str | None:
    """Return the number that `text` states, else None. It may be in parentheses, or a fraction that
    divides evenly. It may also follow "=", with a name or a calculation before the sign. The
    calculation is not computed."""
    before, _, last = text.rpartition("=")
    number = _integer(last)
    first, *rest = (part.strip() for part in before.split("="))
    weighted = _WEIGHTED.fullmatch(first) and len(set(re.findall("[A-Za-z]+", first))) > 1
    if first and not (weighted or _ASKED.fullmatch(first) or _calculates(first, number)):
        return None
    return number if all(_calculates(part, number) for part in rest) else None


def _integer(text: str) -> str | None:
    text = text.strip()
    while text[:1] + text[-1:] == "()":
        text = text[1:-1].strip()
    top, _, bottom = _FRACTION.sub(r"\1\2\3/\4\5", text).replace(" ", "").partition("/")
    if re.fullmatch("-?[0-9]+", top) and re.fullmatch("0*[1-9][0-9]*", bottom):
        text = str(Fraction(int(top), int(bottom)))
    return _stated_number(text, "integer")


def _calculates(text: str, number: str | None) -> bool:
    """Return whether `text` is a calculation that may equal `number`. A number or fraction must
    equal `number`."""
    if not _CALCULATION.fullmatch(text) or not re.search("[0-9]", text):
        return False
    alone, plain = _integer(text), _FRACTION.sub(r"\1\2\3/\4\5", text.strip("() "))
    return alone == number if alone or _RATIONAL.fullmatch(plain) else True
