r"""Read answers in the way that the constant ANSWER selects: "boxed", "text", "number", "auto" or
"whole".

"boxed" reads a text as boxed.py does, or else its last statement, with a doubt. "text" reads the
last statement of an answer: a sentence such as "The answer is 42.", a line such as "#### 42", or a
box. Otherwise it reads a last sentence such as "So she has 42 apples", with a doubt. "number" reads
the last number. "auto" reads a box, or else as "text" does. "whole" reads the thinking and the
answer like "boxed" (read_reply)."""

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise

from core.base.thinking import has_tag, split_thinking
from core.base.turns import LINE_ENDS, parts_of
from core.constants import AUTO, BOXED, LAST_NUMBER, WHOLE
from core.grading.boxed import (
    NOTHING,
    NUMBER,
    Extraction,
    box_spans,
    has_box,
    in_turns,
    is_aime,
    of_part,
    others_of,
    read_value,
)
from core.grading.escapes import restored
from core.grading.final import says_nothing, without_lines
from core.grading.numerals import NAMES, in_digits
from core.grading.sentence import is_prose
from core.grading.units import CHANGING, unit_of
from core.types import MAX_ANSWER_CHARS, Completion, Problem

MOST = 20  # most statements that are read, from the end of a part

# Numbers, times and ratios, and mathematics that _hidden has hidden.
_NUMBER = re.compile(
    r"[\ue020-\ue07e]+|(?<![A-Za-z0-9_.,/^:<≤≥])(?<![*×÷+^/<>≤≥] )(?<!\w>)(?<!\\[lg]e "
    r")(?<!\\[lg]eq )"
    r"(?:[-−–](?=[\d.$£€¥₹]))?(?:\$ ?|[£€¥₹] ?)?-?"
    r"(?:(?:\d+:\d+|\d+ : \d+)(?: ?[AaPp]\.?[Mm]\b\.?)?|\\[dt]?frac ?\{\d+\} ?\{\d+\}|\d+ \d+/\d+"
    r"|\d+/\d+"
    r"|\d{1,3}(?:(?:,|\{,\})\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?![A-Za-z0-9_^]|-[a-z]|[.,]\d|:\d| ?[*×÷+^] ?[\w$]| ?/ ?(?:\d|[a-z]\b)| - \w\b)(?:\\?%)?"
)
_ANY = rf"(?:{'|'.join(sorted(NAMES, key=len, reverse=True))})"
_WORDED = re.compile(rf"(?i)\b{_ANY}(?:(?:[- ]| and ){_ANY})*\b")
# Mathematics whose value is neither a number nor a calculation, and relations that state no value.
_SYMBOLIC = re.compile(r"\\(?!times|cdot|div|%|\$|,)[a-z]+|[\^_(\[{]|\d[a-z]|\b[a-z]\b")
_RELATION = re.compile(
    r"[<>≤≥≠≈?]|\\(?:le|ge|ne|lt|gt|equiv|to|approx|ldots|cdots|[Rr]ightarrow|implies"
    r"|quad)(?![a-z])"
)
_INEQUALITY = re.compile(r"[^<>=\\]+(?: ?(?:[<>]|\\[lg](?:eq?|t)(?![a-z])) ?[^<>=]+){1,2}")
_STATES = re.compile(r"(?:\b(?:is|are)\b|:)\s*\Z")
_ZEROS = {"thousand": 3, "million": 6, "billion": 9}
_HIDDEN = {code: 0xE000 + code for code in range(32, 127)}
_SHOWN = {hidden: code for code, hidden in _HIDDEN.items()}
_EQUALS = re.compile(r"=(?![^{]*\})")  # outside braces


def _hidden(span: "re.Match[str]") -> str:
    """Return the mathematics of a `span`. A value that is an expression, a point or an interval is
    put into private characters. So it is one word, which no other pattern matches."""
    text = next(group for group in span.groups() if group is not None)
    value = _EQUALS.split(text)[-1]
    left = text.removesuffix(value)
    value = value.strip(" .,\n")
    is_name = re.fullmatch(r"\\?[A-Za-z]+'?|[a-zA-Z]\(\w\)", value) and not left
    is_stated = _INEQUALITY.fullmatch(value) and _STATES.search(span.string, 0, span.start())
    is_relation = _RELATION.search(value) and not is_stated
    is_plain = is_name or _NUMBER.fullmatch(value) or is_relation
    if is_plain or not _SYMBOLIC.search(value) or len(value) > 80 or not value.isascii():
        return text
    return f"{left}{' ' * bool(left)}{value.translate(_HIDDEN)}"


def _in_one_form(pair: "re.Match[str]") -> str:
    """Return the first number of a `pair` that says the same twice: 0.25 or 1/4, 30 inches or 2
    feet and 6 inches. Only a fraction, a per cent and a decimal may differ by rounding: 100 or 101
    are two numbers."""
    number, unit, other, end = pair.groups()
    is_rounded = re.sub("[^/%]", "", number) != re.sub("[^/%]", "", other)
    try:
        one, two = (
            Fraction(each.strip("%\\")) / (100 if "%" in each else 1) for each in (number, other)
        )
    except (ValueError, ZeroDivisionError):
        return pair[0]
    is_same = " and " in end if unit and end else abs(one - two) <= is_rounded * abs(one) / 100
    return f"{number}{unit}" if is_same else pair[0]


def _with_equals(comma: "re.Match[str]") -> str:
    """Return " = " for a `comma` and "or" between an operation or words and a number, as in "half
    of that, or $20"."""
    clause = re.split(r"[.,;\n]", comma.string[max(0, comma.start() - 100) : comma.start()])[-1]
    is_result = not re.search(r"\d", clause) or re.search(
        r"\d.* (?:[-+*/x×÷]|times|plus|minus|\w+ed by) ", clause
    )
    return " = " if is_result else comma[0]


# What is removed or replaced before reading: TeX's delimiters and names, Markdown's emphasis, tags,
# quotation marks.
_PLAIN: list[tuple[str, str | Callable[["re.Match[str]"], str]]] = [
    (r"\\(?:text|math)\w* ?\{([^{}]*)\}", r"\1"),
    (r"<<[^<>\n]*>>|(?s:```[a-z]+\n.*?```)|\\(?=\*)|<\|(?:begin|end)_of_box\|>", ""),
    (r"(?<!\d)(\d{0,9})(?: ?\*? ?sqrt\(|√\(?)(\d+)\)?", r"\\(\1\\sqrt{\2}\\)"),
    (r"(?<![\w\\])(\d+(?:/\d+)?)π", r"\\(\1\\pi\\)"),
    (r"(?<=[setd=] )([(\[] ?-?[\d./]+(?:, ?-?[\d./]+)+ ?[)\]])(?=\W|\Z)", r"\\(\1\\)"),
    # in another form
    (r"(\\(?:[dt]?frac ?\{[^{}]*\} ?|sqrt ?)\{[^{}]*\}|\\pi)\s*(?:\\approx|≈)\s*\d*\.\d+", r"\1"),
    (
        r"(?s)\\\(((?:(?!\\[()])[^#]){1,300})\\\)|\\\[((?:(?!\\[\[\]])[^#]){1,300})\\\]"
        r"|\$\$([^$#]{1,300})\$\$|(?<![\\$])\$(?! )((?:\\\$|[^$\n])+?)(?<! )\$(?!\d)",
        _hidden,
    ),
    (  # asked for, and no equation: a + b + c = 12, f(1) + f(2) = 5, \\sin 2x = 1
        r"(?<![\d)] )(?<![\w)])(?:[a-w](?: ?\+ ?[a-w]\b)+"
        r"|[a-z]\([^()=]+\)(?: ?[-+] ?[a-z]\([^()=]+\))*"
        r"|\\(?:(?:sin|cos|tan) ?\w+|(?:int|sum|prod|lim)_[^=\n]*))(?= ?=)",
        "sum",
    ),
    (
        (
            r"\$\$|\\[()\[\]]|[\"“”\u2600-\u27bf\U0001f000-\U0001faff\ufe0f]"
            r"|</?(?!answer)[a-z]\w{0,9}>"
        ),
        "",
    ),
    (r"(?<=\d) per ?cent\b", "%"),
    (r"<([$£€]?-?\d[\d.,]*%?)>", r"\1"),
    (r"\b((?:exceed|increas|decreas)\w*\b[^.\d\n]{0,40}) by (?=[$£€\d])", r"\1 "),
    (r"(\bwould [^.,\n]{0,60}) if [^.,=\n]{0,80}(?=[.\n]|\Z)", r"\1"),
    (r"=\s*\n\s*(?=[$\d])", "= "),
    (r", or (?=[$£€\d])", _with_equals),
    (r"(?<![\d,.])(\d+),(\d\d?)(?= ?(?:[€%]|(?:[ck]?m|k?g)\b|[A-Z][a-z]|euro|lit))", r"\1.\2"),
    (
        rf"(?<![\d/.,])(\d+(?:\.\d+)?) ?({'|'.join(_ZEROS)})\b",
        lambda n: f"{Decimal(n[1]).scaleb(_ZEROS[n[2]]):f}",
    ),
    (r"\bnot \$?\d[\d.,/]*,? (?:but|it is|it['’]s) ", ""),
    (r" ?(?:\\pmod ?\{?\d+\}?|\(mod \d+\))", ""),
    (
        r"(?<![\d.,/])(\d(?:[\d.,/]{0,20}\d)?\\?%?)((?: [a-z]+){0,3}?),? (?:or|which is)"
        r"(?: about| approximately| roughly)?"
        r" (\d(?:[\d.,/]{0,20}\d)?\\?%?)((?: [a-z]+ and \d+)?(?: [a-z]+)?)(?! \w+ than)(?!\w)",
        _in_one_form,
    ),
    (r"(?m)^[ \t>*#-]*\d{1,2}[.)][ \t]+(?=[^\s])", ""),  # the number of a list's item
    (r"\$?\b(\d+) dollars? and (\d\d) cents?\b", r"$\1.\2"),
    (r"(?<![\w)])[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}(?![\w(])|\b\d+(?:st|nd|rd|th)\b", ""),
    (r"</?answer>", "\nAnswer: "),
]
_LINE = rf"(?:\A|(?<=[{LINE_ENDS}]))[ \t>#-]*"
_CHECK = re.compile(
    r"(?i)\W*(?:let['’]s |let (?:us|me) |to |we can )?"
    r"(?:check|verif\w+|explanation|note|step-by-step|why|how(?! (?:many|much|long|far)))\b"
)
_RECAP = re.compile(r"(?i)\W*here(?: is|['’]s) (?:a|the|how)\b")
# An announcement: "#### 42", "Answer 42", "A: 42", or "the answer to the question is 42" and its
# kind.
_ANSWER = re.compile(
    rf"(?i)(?P<line>{_LINE}(?<=###) ?(?=[^#\w]*\d))|{_LINE}(?:final[ \t]*[:=]|a[ \t]*:"
    rf"|(?:the )?(?:final |correct )?ans(?:wer)?\b\.?(?:[ \t]*[{LINE_ENDS}]|(?= ?[$\d])))"
    r"|(?<!to )(?<!can )(?:\b(?:answer|ans|correct (?:option|choice)|antwort|réponse|respuesta"
    r"|resposta|risposta|ответ)"
    r"|答案|答え)\b[ _*]*"
    r"(?:final ?|(?:to|for|of|in|that|I|we|you)\b[^.:=\n]{1,60}?|\([^()\n]{1,40}\))?"
    r"(?:[:：=]>?|->|→| - |(?P<is>,? ?(?:is|was|equals|ist|est|es|é|è|(?:would|should|will|must) be"
    r"|comes (?:out )?to"
    r")\b|[是为は])),?(?: ?(?:equal to|therefore|thus|simply|then|just|exactly|indeed|as follows|now"
    r"|only|about|around"
    r"|roughly|approximately|≈|the number|a total of)(?!\w),?)*[ :]*"
)
_PROSE = re.compile(
    r"(?<![A-Za-z])(?:[A-Za-z]{3,}|is|if|it|so|we|to|of|by|or|at|an|as|be)(?![A-Za-z])"
)
_END = re.compile(rf"[.!?](?=\s|\Z)(?!(?<=[: ][A-E]\.) \$?\d)|[{LINE_ENDS}。]")
_SENTENCES = re.compile(rf"(?<=[.!?])[_’)]*\s+|[{LINE_ENDS}]+|(?<=。)")
_OPTION = re.compile(r"\A(?:\([A-Ea-e]\)|[A-Ea-e][.)])\\? ?(?=\S)")  # (B) 42
_REASON = re.compile(r"[,;] |[,;]?(?: (?=\()| (?:because|since|as|which|where|when|but|so)\b)")
_LISTED = re.compile(r"(?:[,;]| and| or| to| of| over| remainder)(?: and| or)? [-$]?\d")
_BRACKETS = re.compile(r"\([^()]*\)")
_UNSURE = (
    r"\b(?:can ?not|unable|impossible|not|no (?:answer|solution|way|pair|value|such)|never|none"
    r"|neither(?! [a-z]+ nor)"
    r"|wrong|incorrect|mistake|unclear|unknown|error|undefined)\b|n['’]t\b"
    r"|\?|\b(?:guess|if|whether|unless|suppos\w+|assum\w+|might|(?-i:may)|maybe|perhaps|possibly"
    r"|possible that|could (?:also |well )?be(?= (?:\W?\d|that\b))|anything but|asked to)\b"
)
_HEDGED = re.compile(
    rf"(?i){_UNSURE}|\b(?:or|either|until|given that|and an? (?:half|third|quarter))\b"
)
_TASK = "(?:find|add|subtract|multiply|divide|calculate|determine|compute)"
_PLANNED = re.compile(
    rf"(?i)\b(?:need|have|must|want|can|should)(?: to)? {_TASK}\b(?!.* (?:get|gives?|us|be"
    rf"|is) \W?\d)"
)
_NEGATED = re.compile(  # as in "boys who do not play"
    r"(?:\b(?:who|that|which)(?: \w+)? (?:do|does|did|are|were|have|has|is|will)"
    r"|(?<=[a-z]) (?:will|do|did|would)) ?n[o'’]t "
    r"(?!the\b|an?\b|work|know|think|believe|see|equal|correct|right|enough|divi)[a-z]+"
)
_WITHDRAWN = re.compile(
    r"(?i)\b(?:wait|actually|wrong|incorrect|mistake|sorry|correction|not (?:right|correct))\b"
)
_CONCLUDES = re.compile(
    r"(?i)\b(?:so|thus|therefore|hence|finally|total|final|left|altogether|in all|remain\w*"
    r"|means)\b"
)
_SO = re.compile(r"(?i)\W*(?:so|thus|therefore|hence)\b")
_MAIN = re.compile(  # all that precedes the main clause
    r"(?i).*\b(?:so|therefore|thus|hence|but|which (?:gives|leaves|means|makes)|(?<=, )(?:giving"
    r"|leaving))\b"
    r"|\A\W*(?:(?:finally|then|and|now)\W*)?"
    r"(?:after|with|when|since|because|as|in|at|for|from|on|during|given|by|out|of)\b[^,]*, "
)
_CONDITION = re.compile(  # since each costs $5, ... or: if each costs $5, then ... = $15
    r"(?i)\A\W*(?:(?:so|thus|then|now|and|therefore|hence)\b\W*)?"
    r"(?:if\b(?!.*\b(?:but|had|answer)\b).*, (?:then|(?:that|this|it) means)"
    r"|(?:since|because|as|given that|when|\w{2,}ing|if(?!.*\b(?:but|would|had"
    r"|answer)\b))\b[^,]*,) "
)
_TAIL = re.compile(  # what follows the main clause
    r"(?i),? (?:(?:which (?!is\b(?!.*\bthan\b)|gives|leaves|means|makes|equals)|when|where"
    r"|attained|achieved|occurring"
    r"|(?:at|for) [a-z] ?= ?(?=\d))\b.*"
    r"|(?:after|before|because|since|so that|even though|although)\b[^=]*\Z)|: (?=\().*"
)
_VALUE = f"(?:{_NUMBER.pattern})"
_CLAIM = re.compile(  # what precedes the claim, as in "the value of y when x = 2 is 7"
    rf"(?i)(?!.*, and ).*(?:=(?!.*=)|\b(?:when|that|who|which)\b).*"
    rf"(?=\b(?:is|are|has) (?:\w+ )?{_VALUE}(?: [a-z]+){{0,3}}[ .]*\Z)"
)
_THERE = re.compile(  # there are 7 primes less than 100
    rf"(?i)\A\W*(?:(?:so|thus|therefore|hence|that)\b\W*)*there (?:is|are|were|(?:will|would) be)"
    rf" ({_VALUE}(?: [a-z-]+){{1,3}}?)"
    r" (?:in|of|on|that|with|which|such|whose|less|between|from|to)\b"
    r"(?!.*(?:=| and \d|, and |\b(?:so|but|if|total)\b)).*"
)
_WRITTEN_LAST = re.compile(
    r"(?is).*(?:\b(?:is|are|equals|equal to|given by|get)\b:?|:)\s+(\S.{0,80}?)[ .,]*"
)
_LIST = re.compile(  # x = 2 or x = 3
    rf"(?:\b(?:are:?|(?:is|at|points?)(?= ?[\ue020-\ue07e]))"
    rf"|(?=\b[a-z] ?=)) ?((?:\b(?P<name>[a-z]) ?= ?)?{_VALUE}"
    rf"(?:(?:, (?:and |or )?| and | or )(?(name)[a-z] ?= ?){_VALUE})+)(?: in \w+ order)?[ .]*\Z"
)
# Words before a number (ending in \Z) or after it, by its role: a result, a total, a number that is
# known, an operand, and a circumstance of the sentence, such as "in 3 hours".
_RESULT = re.compile(
    r"(?i)(?:\b(?:is|are|was|were|be|equals?|(?:would|will) have|(?:equal|comes|amounts"
    r"|adds? up) to|gives?|gets?|makes"
    r"|costs?|obtain|find|(?:simplif\w+|reduces?|evaluates?|factors?) (?:in)?to"
    r"|(?:simplif\w+|factor\w*|writ\w+|express\w*) as)|[=:≈])"
    r"(?: (?:now|only|just|exactly|about|approximately|therefore|thus|still))* ?\Z"
)
_TOTAL = re.compile(r"(?i)\btotal\b[^,;\d]*\Z")
_LEFT = re.compile(r"(?i)[^,;\d]{0,30}? (?:left|remaining|in total|in all|altogether|total)\b")
_KNOWN = re.compile(
    r"(?i)\b(?:the|these|those|all|each|every|both|last|first|other|steps?|equation|question|part"
    r"|problem|day|figure"
    r"|line|case|number|example|(?:out|\d+) of) ?\Z"
)
_OPERAND = re.compile(
    r"(?i)\b(?:by|than|plus|minus|times|from|as|least|most|over|under|twice|double|triple"
    r"|half(?: of)?"
    r"|(?:root|square|cube) of|(?<!needs to )(?:add|subtract|divid|multipl)\w*|check|try|test"
    r"|consider)"
    r"(?: it| them| this| that)?(?: by)? ?\Z"
)
_COMPARED = re.compile(
    r"(?i) (?:\w+ )?(?:more|fewer|less|times|older|younger)\b[^,;]*\b(?:than|as)\b"
    r"|[^,;]{0,20} to make\b"
    r"| (?:decimal|significant|steps|times(?! ?[.,]?\s*\Z)|plus|minus|divided|multiplied)\b"
)
_CIRCUMSTANCE = re.compile(
    r"(?i)\b(?:in|for|after|at|of|with|on|to|within|among|per|during|its|his|her|their) ?\Z"
)
_EQUATION = re.compile(  # has an unknown
    r"\d(?! [mghsLl]\b) ?[a-hj-zA-Z]\b(?! ?\$?\d)|\d ?\([a-hj-zA-Z]\b"
    r"|(?<![\w'’])[a-hj-zA-Z] ?[-+*/^]|[-+*/^] ?[a-hj-zA-Z]\b"
)
_TWO_NAMES = re.compile(r"\b([a-z]) ?=.*\b(?!\1)[a-z] ?=[^=]*\Z")  # x = 18 and y = 5
# Tom: 7
_ITEM = re.compile(
    r"[-•]? ?(?:[^:=\d]{1,40}[:=] *[^\s\d]?\d[^=+×*/]*|\$?\d[\d.,]* [a-z][^=+×*/\d]*)"
)
_UNIT = re.compile(
    r" ?(?:(?:square|cubic) )?[A-Za-z]+(?:/[A-Za-z]+| per [a-z]+)?(?:\^\{?[23]\}?|[²³])?"
)
_CLOSING = re.compile(
    r"(?i)\W*(?:(?:would|do|did|does) (?:you|this|that)\b|want (?:me|to)\b|let me know"
    r"|(?:I )?hope\b|feel free|if you\b"
    r"|shall (?:I|we)\b|can I\b|is there\b|please\b|good (?:luck|job)|great\b|note\b|where\b"
    r"|remember\b)"
)
_UNSOLVED = re.compile(r"(?i)\b(?:has|have|is|are) no (?:real |integer )?solutions?[ .]*\Z")
_GIVEN_UP = re.compile(
    r"(?i)\b(?:enough information|(?:can(?:not|['’]t| ?not)|unable to|(?:im"
    r"|not )possible to) (?:be )?(?:determin"
    r"|answer|solv|say|tell|help)\w*|(?:I['’]m|I am) (?:not sure|sorry)|don['’]t know|depends on"
    r"|no (?:\w+ )?way)"
)
# Words after a number that make it unclear. Other words of CHANGING may begin the rest of a
# sentence.
_SPOILED = CHANGING - {
    *re.findall(
        r"\w+",
        (
            "to in over by is are was were has have for and that which it should can this so fewer "
            "less"
        ),
    )
}


def read(
    text: str, way: str = BOXED, answer_type: str = "integer", truncated: bool = False
) -> Extraction:
    """Read the answer of `text` in one of WAYS. The other arguments are the arguments of
    boxed.extract."""
    text = restored(text)
    if way == WHOLE:  # as in RSA's code: the last box of the whole output
        return _boxed(text, BOXED, answer_type, truncated)
    text = split_thinking(text, None)[1] if has_tag(text) else text
    if way == BOXED or (way == AUTO and has_box(text)):
        read_part = partial(_boxed, way=way, answer_type=answer_type)
        found = in_turns(text, read_part, answer_type, truncated)
        if way == BOXED or found.doubt not in ("empty", "no answer"):
            return found
    if way == LAST_NUMBER:
        answers, doubt = _last_number(text, answer_type, truncated)
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


def read_reply(problem: Problem, reply: Completion, text: str | None = None) -> Extraction:
    """Read the answer of a `reply`, or of its `text` before a forced answer or wait, as the
    problem's `way` says. The way "whole" also reads the thinking."""
    text = text_read(reply, reply.text if text is None else text, problem.way)
    return read(text, problem.way, problem.answer_type, reply.truncated)


def text_read(reply: Completion, text: str, way: str) -> str:
    """Return the text that is read for a `text` of the `reply`. Only the way "whole" adds the
    thinking."""
    return f"{reply.thinking}\n\n{text}" if way == WHOLE else text


def _boxed(text: str, way: str, answer_type: str, truncated: bool) -> Extraction:
    """Read a part of a reply that should have a box. Without one, read the last statement of an
    answer."""
    found = of_part(text, answer_type, truncated)
    if found.answer or found.doubt in ("unreadable", "unclosed"):
        return found if found.doubt else _with_later_answer(found, text, answer_type)
    if has_box(text):  # `Final:` lines count only without a box
        text = without_lines(text)
    answers, _ = _announced(_plain(text), answer_type, truncated)
    if not answers:
        return found
    answer = answers[-1]
    doubt = "unboxed" if way == BOXED else None
    if truncated:
        doubt = "truncated"
    elif answer_type == "integer" and not is_aime(answer):
        doubt = "not an integer"
    return Extraction(answer, doubt)


def _with_later_answer(found: Extraction, text: str, answer_type: str) -> Extraction:
    """Return the answer of the last box, with a doubt if a later sentence announces another.

    A sentence without a number is ignored, and so is a sentence that repeats a formula of the box,
    such as "The answer is 4210_{5}"."""
    spans = box_spans(text)[0]
    if not spans or not found.answer:
        return found
    start, end = spans[-1]
    later = text[end:].lstrip("}$ ")
    if not NUMBER.fullmatch(found.answer) and text[start:end] in later:
        return found
    answers, _ = _announced(_plain(later), answer_type, False)
    later_ones = [
        answer for answer in answers[-1:] if re.search(r"\d", answer) and not is_prose(answer)
    ]
    others = others_of(later_ones, found.answer, answer_type)
    return replace(found, doubt="several", others=tuple(filter(None, others))) if others else found


def _plain(text: str) -> str:
    """Return `text` with each box as a line such as "#### 42", and without Markdown and TeX's
    delimiters."""
    for start, end in reversed(box_spans(text)[0][-MOST:]):
        content = re.sub(r"\s+", " ", text[start:end])
        command = text.rindex("\\", 0, start)
        text = f"{text[:command]}\n#### {content}\n{text[end + (text[end : end + 1] == '}') :]}"
    for pattern, instead in _PLAIN:
        text = re.sub(pattern, instead, text)
    return text


def _last_number(text: str, answer_type: str, truncated: bool) -> tuple[list[str], str | None]:
    """Return the last number of `text` in a list, with a doubt if its sentence has several. If the
    model begins another problem or turn after it announced an answer, the text before counts."""
    parts = parts_of(text)
    for part in parts[:-1]:
        plain = _plain(part.text)
        if _announced(plain, answer_type, False)[0]:
            text = part.text
            truncated = False
            break
    text = _plain(text)
    if truncated and re.search(r"\d[.,:/\d]*\Z", text.rstrip(" *_")):  # the number may be cut
        return [], None
    for sentence in reversed(_SENTENCES.split(text)):
        if numbers := _NUMBER.findall(sentence):
            answer = _read(numbers[-1], answer_type)
            return ([answer] if answer else []), ("several numbers" if len(numbers) > 1 else None)
    return [], None


def _stated(text: str, answer_type: str, truncated: bool) -> tuple[list[str], str | None]:
    """Return the answers of the first part of `text` that has one, the last answer last. A doubt
    means that a sentence only implies the answer. A part ends if the model begins another problem
    or turn."""
    parts = [_plain(part.text) for part in parts_of(text)]
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        answers, rest = _announced(part, answer_type, truncated and is_last)
        if answers:
            return answers, None
        last = _SENTENCES.split(rest.strip())[-1]
        concludes = (
            _CONCLUDES.search(rest)
            or "=" in rest
            or (last and _picked(last, "", answer_type, True))
        )
        is_ended = not truncated if is_last else concludes
        if is_ended and (implied := _implied(rest, answer_type)):
            return [implied], "implied"
    return [], None


def _announced(text: str, answer_type: str, truncated: bool) -> tuple[list[str], str]:
    """Return the answers that sentences of `text` announce, and the text that may imply one if the
    list is empty."""
    answers, rest = list[str](), text
    for one in list(_ANSWER.finditer(text))[-MOST:]:
        start = one.end() + len(text[one.end() :]) - len(text[one.end() :].lstrip())
        end = _END.search(text, start)
        value = text[start : end.start() if end else len(text)].strip(" \t*_`#")
        value = value[: value.rindex("}")] if value.count("}") > value.count("{") else value
        before = _SENTENCES.split(text[max(0, one.start() - 200) : one.start()])[-1]
        is_open = truncated and not text[end.start() if end else len(text) :].strip(" .!?*_`\n")
        if (
            is_open
            or says_nothing(value)
            or _HEDGED.search(re.split("[,;]", before)[-1])
            or (end and end[0] == "?")
        ):
            continue
        if answers and re.search(r"(?i)\bif\b", before) and "would" in one[0]:  # another case
            continue
        is_strict = bool(one["line"] or one["is"]) and not value.startswith("that ")
        lines = [value, *re.findall(r"\A\n([^\n]+)", text[end.start() :] if end else "")]
        is_list = len(lines) > 1 and all(_ITEM.fullmatch(line.rstrip(" .")) for line in lines)
        answer = "" if is_list else _value(value, text[: one.start()], answer_type, is_strict)
        if answer or (re.fullmatch("[A-Z][a-z]+", value) and not _HEDGED.search(value)):
            answers.append(answer or value)
        elif re.search(r"\d", value) or _HEDGED.search(value):
            answers.clear()
        else:
            continue
        rest = rest if is_list else text[end.end() :] if end else ""
    is_withdrawn = any(
        _WITHDRAWN.search(each) and " other " not in each for each in _SENTENCES.split(rest)
    )
    return ([], rest) if is_withdrawn else (answers, rest)


def _value(value: str, earlier: str, answer_type: str, is_strict: bool) -> str:
    """Return the answer in the `value` of a statement, or "" if it is unclear. See _picked for
    `is_strict`."""
    value = _in_digits(_OPTION.sub("", value))
    if re.search(r"[-+*/=×÷^(]\s*\Z", value):
        return ""
    reason = _REASON.search(value)
    head = value[: reason.start()] if reason and not _LISTED.match(value, reason.start()) else value
    for each in (value, head):
        number = _NUMBER.match(each)
        if number and (quantity := _quantity(number[0], each[number.end() :], answer_type)):
            return quantity
    for each in (value, head):
        answer = _read(each, answer_type)
        if answer and "=" not in each and not _is_prose(answer):
            return answer
    picked = _picked(f"{'is' if is_strict else 'So'} {value}", earlier, answer_type, is_strict)
    return picked or ("" if _is_prose(answer) or _HEDGED.search(value) else answer)


def _implied(text: str, answer_type: str) -> str:
    """Return the answer that the last sentence with a number implies. Later sentences must not
    withdraw it."""
    sentences = [each for each in _SENTENCES.split(text) if re.search(r"\w|[\ue020-\ue07e]", each)]
    while len(sentences) > 1 and _CLOSING.match(sentences[-1]):
        sentences.pop()
    if any(map(_GIVEN_UP.search, [*sentences[:1], *sentences[-2:]])):
        return ""
    for i, sentence in enumerate(sentences[1:], 1):
        is_after = _CONCLUDES.search(sentences[i - 1])
        is_check = _CHECK.match(sentence) and (
            (i == 1 and "To " not in sentences[0]) or ":" in sentence or is_after
        )
        is_remark = is_check or (is_after and _RECAP.match(sentence))
        if is_remark and _picked(sentences[i - 1], "\n".join(sentences[: i - 1]), answer_type):
            sentences = sentences[:i]
            break
    items = [sentence for sentence in sentences[-2:] if _ITEM.fullmatch(sentence.rstrip(" ."))]
    if len({re.sub(r"[\W\d]", "", each.lower()) for each in items}) == 2 and not _CONCLUDES.search(
        items[1]
    ):
        return ""
    frames = [re.sub(r"\A\W*\w+|\d[\d.,]*", "", sentence) for sentence in sentences[-2:]]
    is_repeated = len({*frames}) < len(frames)  # as in "Tom has 7 cards. Mary has 42 cards."
    if is_repeated and all(map(_NUMBER.search, sentences[-2:])) and re.match(" [a-z]", frames[0]):
        return ""
    if _UNSOLVED.search(sentences[-1] if sentences else ""):
        return "no solution"
    if expression := _written_last("\n".join(sentences[-2:]), answer_type):
        return expression
    for i, sentence in reversed(list(enumerate(sentences))):
        if _CONCLUDES.search(sentence) or i == len(sentences) - 1:
            sentence = _in_digits(sentence)
        if "?" in sentence or (
            sentence.lstrip().startswith("|") and not _TOTAL.search(sentence.partition("|")[2])
        ):
            return ""
        if _NUMBER.search(sentence) or re.search(r"\d", sentence):
            picked = _picked(sentence, "\n".join(sentences[:i]), answer_type)
            if (
                picked
                or "=" in sentence
                or _CONCLUDES.search(sentence)
                or not _SO.match(sentences[i - 1])
            ):
                return picked
        if any(each.search(sentence) for each in (_HEDGED, _PLANNED)) or re.match(
            rf"(?i)\W*{_TASK}\b", sentence
        ):
            return ""
    return ""


def _written_last(text: str, answer_type: str) -> str:
    """Return the expression with a variable that ends `text` without TeX's delimiters, or ""."""
    written = _WRITTEN_LAST.fullmatch(text)
    value = _EQUALS.split(written[1])[-1].strip() if written else ""
    is_open = re.search(r"[A-Za-z]", value) and re.search(r"[\w)] ?[-+*] ?[\w(\\]", value)
    return (
        _read(value, answer_type)
        if is_open and not _is_prose(value) and not _RELATION.search(value)
        else ""
    )


def _picked(sentence: str, earlier: str, answer_type: str, is_strict: bool = False) -> str:
    """Return the number with its unit that a sentence implies, or "" if it is unclear which number
    this is. `earlier` is the text before the sentence. If `is_strict` is set, the number must
    follow a word such as "is" or a sign "="."""
    concludes = _CONCLUDES.search(sentence)
    if len(sentence) > MAX_ANSWER_CHARS or ("If " in sentence and "If " in earlier):
        return ""
    sentence = _THERE.sub(r"there are \1", sentence)
    if listed := _LIST.search(_without(sentence, _TAIL)):
        names = re.findall(r"\b([a-z]) ?=", listed[1])
        values = ", ".join(_read(one[0], answer_type) for one in _NUMBER.finditer(listed[1]))
        if len({*names}) < 2 or (
            names == sorted({*names}) and re.search(r"\bsol(?:ution|ve)|\bsystem", sentence)
        ):
            return values if len({*names}) < 2 else f"({values})"
    is_unsure = re.search(f"(?i){_UNSURE}", _NEGATED.sub("", sentence))
    main = _without(sentence, *([] if is_unsure else [_CLAIM]), _CONDITION, _TAIL)
    earlier, sentence = f"{earlier}\n{sentence.rpartition(main)[2]}", main
    before, equals, after = sentence.rpartition("=")
    left = before.rpartition("=")[2]
    is_chain = re.search(r"(?<!equation) is |=(?!.*(?:,| and )).*=\Z", before + equals)
    is_equation = _EQUATION.search(left) and not _is_open(after) and not is_chain
    claim = _NEGATED.sub("", _BRACKETS.sub("", sentence.rpartition(":")[2] if equals else sentence))
    if is_equation or _TWO_NAMES.search(sentence) or not after.strip() or _HEDGED.search(claim):
        return ""
    sentence = f"= {after.strip()}" if equals and _NUMBER.match(after.strip()) else sentence
    sentence = _without(sentence, _BRACKETS, _MAIN, _MAIN)
    before_of = {one: sentence[: one.start()] for one in _NUMBER.finditer(sentence)}
    free = [one for one in before_of if not _KNOWN.search(before_of[one])]
    numbers = [one for one in free if not _is_open(one[0])]
    results = [one for one in free if _RESULT.search(before_of[one])]
    computed = _NUMBER.match(earlier.rpartition("=")[2].lstrip()) if "=" in earlier else None
    again = [one for one in free if computed and _one([computed, one])]
    if not again and _PLANNED.search(claim):
        return ""
    operands = {
        one for one in free if one not in [*results, *again] and _OPERAND.search(before_of[one])
    }
    free = [
        one for one in free if one not in operands or (one[0][-1] == "%" and len(before_of) == 1)
    ]
    is_result = len(before_of) == 1 or sentence.startswith("= ")
    free = [
        one for one in free if is_result or one in again or not _COMPARED.match(sentence, one.end())
    ]
    results = [one for one in results if one in free][
        : 1 if re.match("=(?!.* is )", sentence) else None
    ]
    if re.search(
        r"(?<!\^)(?<!\^\{)\d(?!-[a-z])",
        _NUMBER.sub("", sentence[results[-1].start() if results else 0 :]),
    ):
        return ""
    chosen = (None if is_strict or {*results} - {*numbers} else _one(numbers)) or _one(results)
    if (
        len(results) > 1
        and not sentence[results[-1].end() :].strip(" .")
        and " and " not in sentence
    ):
        chosen = results[-1]
    if not chosen and set(numbers) <= set(free):
        chosen = _one(again) or _one(
            [one for one in free if concludes and not _CIRCUMSTANCE.search(before_of[one])]
        )
    gaps = [
        (pair, sentence[pair[0].end() : pair[1].start()])
        for pair in pairwise(numbers)
        if not _one([*pair])
    ]
    if any(chosen in pair and " and " in gap for pair, gap in gaps):
        chosen = None
    # 12 boys and 8 girls are left
    if not chosen and not any(gap.endswith(" and ") for _, gap in gaps):
        chosen = _one(
            [o for o in free if _TOTAL.search(before_of[o]) or _LEFT.match(sentence, o.end())]
        )
    behind = sentence[chosen.end() :] if chosen else ""
    word = re.match(r"\W*(\w*)", "" if behind.strip(" .") == "times" else behind)
    if chosen not in free or _LISTED.match(behind) or (word and word[1].lower() in _SPOILED):
        return ""
    unit = _UNIT.match(behind)
    return _quantity(chosen[0], unit[0] if unit else "", answer_type) or _read(
        chosen[0], answer_type
    )


def _read(value: str, answer_type: str) -> str:
    """Return the cleaned answer of `value`, in which mathematics may be hidden, or "" if it is
    unreadable."""
    return read_value(value.translate(_SHOWN), answer_type) or ""


def _is_open(value: str) -> bool:
    """Return whether hidden mathematics begins `value` and has a variable."""
    return value.strip()[:1] > "\ue000" and bool(
        re.search(r"(?<![\\a-z])[a-z]", value.translate(_SHOWN))
    )


def _is_prose(answer: str) -> bool:
    words = re.sub(
        r"\\[A-Za-z]+ ?(?:\{[^{}\\]*\})?|\b(?:sin|cos|tan|log|sqrt|gcd|lcm|mod)\b", " ", answer
    )
    return bool(_PROSE.search(words)) and answer.lower() not in NOTHING


def _without(sentence: str, *patterns: "re.Pattern[str]") -> str:
    """Return the sentence without the text of each pattern, if numbers remain."""
    for pattern in patterns:
        shorter = pattern.sub("", sentence, count=1)
        sentence = shorter if _NUMBER.search(shorter) else sentence
    return sentence


def _one(numbers: list["re.Match[str]"]) -> "re.Match[str] | None":
    """Return the last of `numbers` if they are all equal, else None."""
    return (
        numbers[-1]
        if len({number[0].strip("$ ").replace(",", "") for number in numbers}) == 1
        else None
    )


def _quantity(number: str, unit: str, answer_type: str) -> str:
    """Return the `number` with its `unit`, or "" if the words do not name one."""
    name = re.fullmatch(r" ?([A-Za-z ./-]*?)(\^\{?[23]\}?|[²³])? ?", unit.rstrip(" .!,;:)"))
    if not name or not re.fullmatch(r"-?[\d,.]+", number):
        return _read(number, answer_type) if not unit.strip(" .!,;:)") else ""
    power = (name[2] or "").translate({ord("²"): "^2", ord("³"): "^3"})
    if unit_of(name[1].strip(), power, number == "1") is None:
        return ""
    return (
        read_value(
            rf"{number}\text{{ {name[1].strip()}}}{power}" if name[1].strip() else number,
            answer_type,
        )
        or ""
    )


def _in_digits(text: str) -> str:
    """Return `text` with its whole numbers in digits."""
    return _WORDED.sub(lambda words: in_digits(words[0]), text)
