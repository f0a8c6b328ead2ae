r"""Rewrite a reply as plain text before its sentences are read: without TeX's delimiters, Markdown
and other spellings of one number.

RULES apply in their order. Each has an example, which is its test. A formula whose value is an
expression, a point or an interval is put into private characters. So it is one word, which no other
pattern matches."""

import re
from decimal import Decimal
from fractions import Fraction

from core.grading.boxes import box_spans
from core.grading.rules import Rule, replacing, rewritten

MAX_BOXES = 20  # most boxes that become lines, from the end of a text

# A number of a text, or a formula in private characters. A number has no letter, digit or operator
# directly before or after it.
_FORMULA = r"[\ue020-\ue07e]+"
_BEFORE = (
    r"(?<![A-Za-z0-9_.,/^:<≤≥])(?<![*×÷+^/<>≤≥] )(?<!\w>)(?<!\\[lg]e )(?<!\\[lg]eq )"
    r"(?:[-−–](?=[\d.$£€¥₹]))?(?:\$ ?|[£€¥₹] ?)?-?"
)
_TIME = r"(?:\d+:\d+|\d+ : \d+)(?: ?[AaPp]\.?[Mm]\b\.?)?"
_FRACTION = r"\\[dt]?frac ?\{\d+\} ?\{\d+\}|\d+ \d+/\d+|\d+/\d+"
_DECIMAL = r"\d{1,3}(?:(?:,|\{,\})\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_BEHIND = (
    r"(?![A-Za-z0-9_^]|-[a-z]|[.,]\d|:\d| ?[*×÷+^] ?[\w$]| ?/ ?(?:\d|[a-z]\b)| - \w\b)(?:\\?%)?"
)
NUMBER_IN_TEXT = re.compile(f"{_FORMULA}|{_BEFORE}(?:{_TIME}|{_FRACTION}|{_DECIMAL}){_BEHIND}")
# Mathematics whose value is neither a number nor a calculation, and relations that state no value.
_SYMBOLIC = re.compile(r"\\(?!times|cdot|div|%|\$|,)[a-z]+|[\^_(\[{]|\d[a-z]|\b[a-z]\b")
_RELATION = re.compile(
    r"[<>≤≥≠≈?]|\\(?:le|ge|ne|lt|gt|equiv|to|approx|ldots|cdots|[Rr]ightarrow|implies"
    r"|quad)(?![a-z])"
)
_INEQUALITY = re.compile(r"[^<>=\\]+(?: ?(?:[<>]|\\[lg](?:eq?|t)(?![a-z])) ?[^<>=]+){1,2}")
_STATES = re.compile(r"(?:\b(?:is|are)\b|:)\s*\Z")
_EQUALS = re.compile(r"=(?![^{]*\})")  # outside braces
_NAME = re.compile(r"\\?[A-Za-z]+'?|[a-zA-Z]\(\w\)")
_ZEROS = {"thousand": 3, "million": 6, "billion": 9}
_HIDDEN = {code: 0xE000 + code for code in range(32, 127)}
_SHOWN = {hidden: code for code, hidden in _HIDDEN.items()}
MAX_FORMULA = 80  # most characters of a formula that is one word


def shown(value: str) -> str:
    """Return `value` with its hidden formulas."""
    return value.translate(_SHOWN)


def _hidden(span: re.Match[str]) -> str:
    """Return the mathematics of a `span`, with its value in private characters unless it is a
    number, a name or a relation."""
    formula = next(group for group in span.groups() if group is not None)
    side = _EQUALS.split(formula)[-1]
    before = formula.removesuffix(side)
    value = side.strip(" .,\n")
    if not _SYMBOLIC.search(value) or len(value) > MAX_FORMULA or not value.isascii():
        return formula
    if NUMBER_IN_TEXT.fullmatch(value) or (_NAME.fullmatch(value) and not before):
        return formula
    is_stated = _INEQUALITY.fullmatch(value) and _STATES.search(span.string, 0, span.start())
    if _RELATION.search(value) and not is_stated:
        return formula
    hidden = value.translate(_HIDDEN)
    return f"{before} {hidden}" if before else hidden


def _in_one_form(pair: re.Match[str]) -> str:
    """Return the first number of a `pair` that says the same twice: 0.25 or 1/4, 30 inches or 2
    feet and 6 inches. Only a fraction, a per cent and a decimal may differ by rounding: 100 or 101
    are two numbers."""
    number, unit, other, end = pair.groups()
    first = _value(number)
    second = _value(other)
    if first is None or second is None:
        return pair[0]
    if unit and end:
        is_same = " and " in end
    else:
        is_rounded = re.sub("[^/%]", "", number) != re.sub("[^/%]", "", other)
        tolerance = abs(first) / 100 if is_rounded else 0
        is_same = abs(first - second) <= tolerance
    return f"{number}{unit}" if is_same else pair[0]


def _value(number: str) -> Fraction | None:
    try:
        value = Fraction(number.strip("%\\"))
    except (ValueError, ZeroDivisionError):
        return None
    return value / 100 if "%" in number else value


def _with_zeros(number: re.Match[str]) -> str:
    return f"{Decimal(number[1]).scaleb(_ZEROS[number[2]]):f}"


# Formulas between delimiters: \( \), \[ \], $$ $$, $ $
_IN_PARENTHESES = r"\\\(((?:(?!\\[()])[^#]){1,300})\\\)"
_IN_BRACKETS = r"\\\[((?:(?!\\[\[\]])[^#]){1,300})\\\]"
_IN_DOLLARS = r"\$\$([^$#]{1,300})\$\$|(?<![\\$])\$(?! )((?:\\\$|[^$\n])+?)(?<! )\$(?!\d)"
# Left sides of what a problem asks for, and no equation: a + b + c, f(1) + f(2), \sin 2x
_SUM_OF_NAMES = r"[a-w](?: ?\+ ?[a-w]\b)+"
_SUM_OF_VALUES = r"[a-z]\([^()=]+\)(?: ?[-+] ?[a-z]\([^()=]+\))*"
_FUNCTION = r"\\(?:(?:sin|cos|tan) ?\w+|(?:int|sum|prod|lim)_[^=\n]*)"
_ASKED = rf"(?<![\d)] )(?<![\w)])(?:{_SUM_OF_NAMES}|{_SUM_OF_VALUES}|{_FUNCTION})(?= ?=)"
_EXACT = r"(\\(?:[dt]?frac ?\{[^{}]*\} ?|sqrt ?)\{[^{}]*\}|\\pi)"
_UNIT_AFTER_COMMA = r"(?= ?(?:[€%]|(?:[ck]?m|k?g)\b|[A-Z][a-z]|euro|lit))"
_ONE_FORM = r"(\d(?:[\d.,/]{0,20}\d)?\\?%?)"
_TWO_FORMS = (
    rf"(?<![\d.,/]){_ONE_FORM}((?: [a-z]+){{0,3}}?),? (?:or|which is)"
    rf"(?: about| approximately| roughly)? {_ONE_FORM}((?: [a-z]+ and \d+)?(?: [a-z]+)?)"
    r"(?! \w+ than)(?!\w)"
)

RULES = (
    Rule(
        "text commands",
        r"7\text{ cm}",
        "7 cm",
        replacing(r"\\(?:text|math)\w* ?\{([^{}]*)\}", r"\1"),
    ),
    Rule("GSM8K's calculations", "6*7=<<6*7=42>>42", "6*7=42", replacing(r"<<[^<>\n]*>>", "")),
    Rule("code", "```python\n1\n```Answer", "Answer", replacing(r"(?s)```[a-z]+\n.*?```", "")),
    Rule("escaped stars", r"\*\*42", "**42", replacing(r"\\(?=\*)", "")),
    Rule(
        "tokens around a box",
        "<|begin_of_box|>42<|end_of_box|>",
        "42",
        replacing(r"<\|(?:begin|end)_of_box\|>", ""),
    ),
    Rule(
        "roots without TeX",
        "2*sqrt(3)",
        r"\(2\sqrt{3}\)",
        replacing(r"(?<!\d)(\d{0,9})(?: ?\*? ?sqrt\(|√\(?)(\d+)\)?", r"\\(\1\\sqrt{\2}\\)"),
    ),
    Rule(
        "multiples of π",
        "3π",
        r"\(3\pi\)",
        replacing(r"(?<![\w\\])(\d+(?:/\d+)?)π", r"\\(\1\\pi\\)"),
    ),
    Rule(
        "points and intervals",
        "is (1, 2)",
        r"is \((1, 2)\)",
        replacing(r"(?<=[setd=] )([(\[] ?-?[\d./]+(?:, ?-?[\d./]+)+ ?[)\]])(?=\W|\Z)", r"\\(\1\\)"),
    ),
    Rule(
        "approximation of an exact value",
        r"\sqrt{2} \approx 1.41",
        r"\sqrt{2}",
        replacing(_EXACT + r"\s*(?:\\approx|≈)\s*\d*\.\d+", r"\1"),
    ),
    Rule(
        "formulas",
        "is $x+1$.",
        f"is {'x+1'.translate(_HIDDEN)}.",
        replacing(f"(?s){_IN_PARENTHESES}|{_IN_BRACKETS}|{_IN_DOLLARS}", _hidden),
    ),
    Rule("sum that is asked for", "a + b = 12", "sum = 12", replacing(_ASKED, "sum")),
    Rule("delimiters of formulas", "$$42$$", "42", replacing(r"\$\$|\\[()\[\]]", "")),
    Rule("quotation marks", "“42”", "42", replacing('["“”]', "")),
    Rule(
        "emoji",
        "42 ✅",
        "42 ",
        replacing("[\u2600-\u27bf\U0001f000-\U0001faff\ufe0f]", ""),
    ),
    Rule("tags", "<b>42</b>", "42", replacing(r"</?(?!answer)[a-z]\w{0,9}>", "")),
    Rule("per cent", "5 percent", "5%", replacing(r"(?<=\d) per ?cent\b", "%")),
    Rule("angle brackets", "<42>", "42", replacing(r"<([$£€]?-?\d[\d.,]*%?)>", r"\1")),
    Rule(
        "decimal comma",
        "2,5 km",
        "2.5 km",
        replacing(rf"(?<![\d,.])(\d+),(\d\d?){_UNIT_AFTER_COMMA}", r"\1.\2"),
    ),
    Rule(
        "thousands and millions",
        "2.5 million",
        "2500000",
        replacing(rf"(?<![\d/.,])(\d+(?:\.\d+)?) ?({'|'.join(_ZEROS)})\b", _with_zeros),
    ),
    Rule(
        "corrected number",
        "not 41, but 42",
        "42",
        replacing(r"\bnot \$?\d[\d.,/]*,? (?:but|it is|it['’]s) ", ""),
    ),
    Rule(
        "modulus",
        "3 (mod 8)",
        "3",
        replacing(r" ?(?:\\pmod ?\{?\d+\}?|\(mod \d+\))", ""),
    ),
    Rule("number in two forms", "0.25 or 1/4", "0.25", replacing(_TWO_FORMS, _in_one_form)),
    Rule(
        "number of a list's item",
        "3. It is 42",
        "It is 42",
        replacing(r"(?m)^[ \t>*#-]*\d{1,2}[.)][ \t]+(?=[^\s])", ""),
    ),
    Rule(
        "dollars and cents",
        "3 dollars and 50 cents",
        "$3.50",
        replacing(r"\$?\b(\d+) dollars? and (\d\d) cents?\b", r"$\1.\2"),
    ),
    Rule(
        "emphasis and ordinal numbers",
        "the 3rd is **42**",
        "the  is 42",
        replacing(
            r"(?<![\w)])[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}(?![\w(])|\b\d+(?:st|nd|rd|th)\b", ""
        ),
    ),
    Rule("answer tags", "<answer>42", "\nAnswer: 42", replacing(r"</?answer>", "\nAnswer: ")),
)


def plain(text: str) -> str:
    """Return `text` with each box as a line such as "#### 42", and after all RULES."""
    for start, end in reversed(box_spans(text)[0][-MAX_BOXES:]):
        content = re.sub(r"\s+", " ", text[start:end])
        command = text.rindex("\\", 0, start)
        after = text[end:].removeprefix("}")
        text = f"{text[:command]}\n#### {content}\n{after}"
    return rewritten(text, RULES)
