"""Read the letters that sentences announce: "The answer is C.", "I choose (C)", "C is correct".

Sentences that name an answer precede those that only call an option correct, which count if they
agree. Without either, the last or the first line counts, if it is a letter."""

import re

from core.base.turns import LINE_ENDS
from core.grading.letters import NAMED, Options
from core.grading.markup import half_width
from core.grading.plain import shown
from core.grading.statements import (
    ADVERB,
    HEDGED,
    IS,
    LINE_START,
    QUALIFIER,
    SENTENCES,
    Statement,
    is_certain,
    is_other_case,
    statements_in,
)
from core.types import MAX_ANSWER_CHARS

_BEST = (
    r"(?:correct|right|best|closest|(?:most )?(?:appropriate|suitable|accurate|likely|plausible))"
)
_RIGHT = rf"(?:{_BEST}|final|chosen|selected|only)"
_THING = r"(?:answer|option|choice|letter|alternative|statement|one)"
_HEADING = (
    rf"{LINE_START}(?:(?<=###)#* ?(?=\S)|(?:final|result|solution|conclusion|verdict)[ \t]*[:=]"
    rf"|(?:the )?(?:{_RIGHT} )?ans(?:wer)?\b\.?(?:[ \t]*[{LINE_ENDS}]|(?= \(?[A-Z]\b)))"
)
_SUBJECT = (
    r"(?<!to )(?<!can )(?:\b(?:answers?|ans|antwort|réponse|respuesta|resposta|risposta|ответ"
    rf"|(?<!nicht )richtig|{_RIGHT} (?:answer )?{_THING}s?"
    r"|the (?:answer )?(?:option|choice)(?: that \w+)?"
    rf"|my (?:choice|pick)|letter of the {_RIGHT} {_THING})\b|答案|答え|正确的?选项)[ _*]*"
)
_CHOOSES = (
    r"(?:\b(?:I|we)(?:['’](?:d|ll|m)| would| will| have| must| am)? |\blet['’]s |(?:\A|\n) *)"
    r"(?:choose|chose|chosen|pick|select|say|go(?:ing)? with|opt for)\b(?: the answer)?(?= )"
)
_CHOOSES_IN_CHINESE = (
    r"(?:[故应该案以此我题\n]|\A)选择?(?:答案)?[ :]*(?=(?:选项 ?)?\(?[A-Z](?![a-z]))"
)
_ANNOUNCED = re.compile(
    rf"(?i){_HEADING}|{_CHOOSES}|{_CHOOSES_IN_CHINESE}"
    rf"|{_SUBJECT}{QUALIFIER}(?:[:：=]>?|->|→| - |{IS}| are\b),?(?: ?{ADVERB}(?!\w),?)*[ :]*"
)
# Option C is correct. (C) 42 is the correct answer.
_WITH_TEXT = r"(?:[:.,]? [^.\n()?]{1,60}?)?"
_CALLED = re.compile(
    rf"(?<![\w('’.-])(?:\(?([A-Z])\){_WITH_TEXT}|{NAMED}([A-Z])\b{_WITH_TEXT}|([A-Z])),?"
    r" (?i:is|would be|must be|should be|seems to be|appears to be)"
    r"(?i: also| clearly| therefore| thus| indeed)?(?i: the| a| my| our)?(?i: only)?"
    rf" (?:(?i:{_BEST})\b(?P<called>(?i: {_THING}\b)?)|(?P<answer>(?i:final )?answer))"
)
_MATCHES = re.compile(
    r"\b(?:correspond(?:s|ing)? to|match(?:es|ing)?|is given (?:by|in)"
    rf"|(?:which|this|solution) is) (?:{NAMED}\(?|\()([A-Z])\b"
)
# only C works
_FITS = re.compile(
    rf"(?<![\w('’.-])(?:{NAMED})?\(?([A-Z])\)? (?i:works|fits|satisfies|holds|matches)\b"
)
_MAKES = re.compile(rf"\bmak(?:es|ing) (?:{NAMED})?\(?([A-Z])\)? (?P<answer>the {_RIGHT} {_THING})")
# C. 42 (correct)
_LABELLED = re.compile(
    rf"(?m)^[ \t>*_-]*(?:{NAMED})?[(\[]?([A-Z])[)\].:] [^\n]{{1,200}}?[-–—→>:(][ *_]*"
    r"(?i:(?:this is )?(?:the )?(?:correct|right)\b(?: (?:answer|option|choice))?)[).!*_ ]*$"
)
_IT_IS = re.compile(
    r"\b(?P<answer>(?i:it|that|this)(?: is|['’]s| must be| should be))(?: therefore| thus)?"
    rf" (?:{NAMED})?\(?([A-Z])\)?(?=[.!]*(?:\s*\n|\s*\Z|(?<=[.!])\s))"
)
_WITHDRAWN = re.compile(
    r"(?i)\b(?:wait|sorry|correction|scratch|mistaken?"
    r"|(?:this|that|it)(?: is|['’]s| was) (?:wrong|incorrect|not (?:right|correct)))\b"
)
_SO = re.compile(r"\A\W*(?i:so|thus|hence|therefore|finally|conclusion)\b[,:]? ?")
_BULLETS = " >-–•=→∴<"
_NO_WORD = re.compile(r"[\s.!?*_`]*")
MAX_BEFORE = 200  # characters of the sentence before a letter that may hedge it


def announced(text: str, options: Options, truncated: bool) -> list[str]:
    """Return the answers that a plain `text` announces, the last answer last. If a later sentence
    withdraws them, only the answers after it remain."""
    text = half_width(text)
    answers: list[str] = []
    rest = ""  # the text after the last answer
    for statement in statements_in(text, _ANNOUNCED):
        is_other = bool(answers) and is_other_case(statement)
        if is_certain(statement, truncated) and not is_other:
            answer = _stated(statement, options)
            if answer:
                answers.append(answer)
                rest = statement.after
            elif answers and options.denies(statement.value, answers[-1]):
                answers.clear()
    called = _called(text, truncated)
    answers = answers or called["answer"]
    withdrawn = list(_WITHDRAWN.finditer(rest))
    if withdrawn:
        return _called(rest[withdrawn[-1].end() :], truncated)["answer"]
    correct = set(called["correct"])
    if not answers and len(correct) == 1:
        answers = [correct.pop()]
    if not answers and not truncated:
        answers = [line for line in [own_line(text, options)] if line]
    return answers


def _stated(statement: Statement, options: Options) -> str:
    """Return the answer of a statement. In "The answer is C. 42", the text follows the sentence."""
    value = shown(statement.value)
    letter = options.lone(value)
    if letter and statement.end == ".":
        behind = statement.after.lstrip(" ").partition("\n")[0]
        return options.marked(f"{letter}. {shown(behind)}") or letter
    return options.phrase(value)


def _called(text: str, truncated: bool) -> dict[str, list[str]]:
    """Return the letters that a text calls the answer, and those that it calls correct."""
    called: dict[str, list[str]] = {"answer": [], "correct": []}
    for pattern in (_CALLED, _MATCHES, _FITS, _MAKES, _LABELLED, _IT_IS):
        for match in pattern.finditer(text):
            letters = [group for group in match.groups() if group and len(group) == 1]
            if not _is_doubtful(text, match, truncated):
                groups = match.groupdict()
                is_answer = bool(groups.get("called") or groups.get("answer"))
                called["answer" if is_answer else "correct"].append(letters[0])
    return called


def _is_doubtful(text: str, match: re.Match[str], truncated: bool) -> bool:
    """Return whether a letter is hedged, in a question, or at the end of a truncated text."""
    behind = text[match.end() :]
    if truncated and _NO_WORD.fullmatch(behind):
        return True
    sentence = SENTENCES.split(text[max(0, match.start() - MAX_BEFORE) : match.start()])[-1]
    clause = re.split("[,;]", sentence)[-1]
    is_question = re.match(r"[^.!\n]*\?", behind) is not None
    is_hedged = HEDGED.search(clause) or re.search(r"(?i)\bnor\b", clause)
    return is_question or is_hedged is not None


def own_line(text: str, options: Options) -> str:
    """Return the answer of a last or first line that is a letter, or a letter with a text, or "".
    Lines that list several options are no answer."""
    lines = [line.strip(_BULLETS) for line in shown(text).splitlines() if line.strip(_BULLETS)]
    lines = [_SO.sub("", line[:MAX_ANSWER_CHARS]) for line in lines]
    if not lines:
        return ""
    for line in (lines[-1], lines[0]):
        letter = options.lone(line)
        if letter:
            return letter
    if sum(map(options.is_marked, lines)) == 1:
        return options.marked(lines[-1]) or options.marked(lines[0])
    if len(lines) > 1:
        return ""
    return options.option_of(lines[0]) or options.marked(lines[0]) or options.several(lines[0])
