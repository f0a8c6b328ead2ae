r"""Traces that were sampled with the right answer in the prompt: does one give that away, or say something else?

What a model learns from must read as if the answer had been found. `told` looks for words that speak of having been
given it. They are patterns, made for few misses and no alarms over ordinary mathematics ("the given triangle", "given
that x = 3", "the answer is given by \binom{10}{3}"): tests/cases/hints.json has both kinds.
"""

import re

from core.grading.answers import judge
from core.grading.boxed import NUMBER, canonical, stated
from core.grading.final import final_lines
from core.types import Problem

MAX_STATED = 20  # answers in one trace that are compared: one that states more states another

# In a pattern, a blank is any blank or the end of a line.
_VALUE = r"(?:\$|\\|[-−(]?[0-9])"  # how a value begins
_GAP = r"[^.!?\n]{0,60}?"  # a few words of one sentence
# Behind "the answer": nothing is said of what kind it is ("is an integer", "has three digits").
_NO_KIND = rf"(?! (?:is|must|should|will|can|has|have|choice|option|form|type)\b(?! (?:be )?{_VALUE}))"
_GIVEN = "given|provided|supplied|hinted|reference|official"
_MADE = f"{_GIVEN}|stated|expected|intended|target|known|correct|right|true|desired|required|claimed"
_GAVE = "gave|given|gives|told|tells|provided|provides|said|says|stated|states|mentioned|supplied|indicates?|reveals?"
_WHO = "problem|question|prompt|statement|hint|user|teacher|system|task|instructions?|they|you"
_HAVE = r"(?:'re|'m|'ve| have| were| are| was| am| had)?(?: been)?(?: also| already)?"
_NOT_SO = "".join(rf"(?<!\b{word} )" for word in ("so", "thus", "hence", "then", "therefore"))
_NOT_YET = rf"(?<!\bnow ){_NOT_SO}"
_SINCE = f"since|because|as|given|given that|knowing|knowing that|{_NOT_YET}(?:we|i) know(?: that)?"
_MATCH = (
    "match(?:es|ing|ed)?|agree(?:s|ing|d)? with|(?:is |are )?consistent with|in (?:line|agreement|accord) with"
    "|coincid(?:es?|ing|ed) with|confirm(?:s|ing|ed)?|verif(?:y|ies|ied|ying)|reproduc(?:es?|ing|ed)|same as"
    "|correspond(?:s|ing)? (?:to|with)|equal(?:s| to)?|reach(?:es|ed|ing)?|arrive(?:s|d)? at|justif(?:y|ies|ied)"
)
_TOLD = [
    # the given answer, matches the correct answer, the answer key
    rf"\b(?:{_GIVEN}) (?:final |correct |right )?answer\b(?! (?:choice|option|form))",
    rf"\b(?:stated|known|intended|target|expected) (?:final |correct )?answer\b{_NO_KIND}",
    r"\b(?:given|provided|supplied|hinted) (?:final|correct|right) (?:value|result|solution)\b",
    r"\b(?:provided|hinted) (?:result|total)\b",
    r"\bprovided with the (?:\w+ )?answer\b(?! (?:choice|option))",
    rf"\btold(?: us| me)?(?: that)? {_VALUE}[^\s]* (?:is|was) the (?:\w+ )?answer\b",
    r"\b(?:reference|official|model) solution\b",
    r"\b(?:answer|solution) key\b",
    rf"\b(?:{_MATCH}) (?:the|your|our|this|that|its) (?:{_MADE}) (?:final |numerical )?answer\b",
    r"\b(?:match(?:es|ing|ed)?|agree(?:s|ing|d)? with|consistent with) (?:the|your)"
    r" (?:given|provided|expected|known|correct|reference) (?:final )?(?:result|solution)\b",
    r"\b(?:match(?:es|ing|ed)?|agree(?:s|ing|d)? with|consistent with) (?:your answer\b|the"
    r" answer(?:[.!;)]|$| in the (?:prompt|hint)))",
    # the answer that we were given, the answer was provided
    rf"\banswer(?: that| which)? (?:we|i|you){_HAVE} (?:{_GAVE})\b",
    r"\banswer(?: that| which)? (?:was|were|has been|had been) (?:already )?(?:given|provided|supplied"
    r"|told)\b(?! (?:by|as)\b)",
    r"\banswer,? (?:[^\s,]+, (?:was|is) |\()?(?:provided|supplied)\b(?! (?:by|that)\b)",
    r"\banswer \(?given(?:\)| is\b|[.,;]|$)",
    r"\banswer (?:is )?(?:already )?(?:given|known) (?:to (?:me|us)|in the (?:hint|prompt|question|problem|task)"
    r"|in advance|beforehand|above|here)\b",
    rf"\banswer is (?:already )?(?:given|known|provided)(?: as|:)? {_VALUE}",
    rf"\banswer (?:is|was) (?:supposed|said|meant|claimed|known|stated|given|expected) to be {_VALUE}",
    r"\banswer in the (?:hint|prompt|instructions?)\b",
    # we are told the answer is, since the correct answer is 42, knowing that the answer is 42
    rf"\btold(?: us| me)?(?: that| what)? (?:the )?(?:\w+ ){{0,2}}?(?:answer|final (?:result|value))\b{_NO_KIND}",
    rf"\b(?:we|i){_HAVE} given (?:that )?the (?:\w+ )?answer\b{_NO_KIND}",
    rf"\b(?:{_WHO}) (?:have |has |had )?(?:already )?(?:{_GAVE})(?: us| me)?(?: that)? the (?:\w+ )?answer\b{_NO_KIND}",
    rf"\b(?:{_SINCE}) the (?:correct|right|true|actual|known) (?:final )?answer (?:is|must be|should be|equals)\b"
    r"(?! (?:an?|not|even|odd|positive|negative)\b)",
    rf"\b(?:{_SINCE}) the (?:final )?answer(?: (?:we|that|you|i)\b[^.,;:\n]{{0,30}})?(?: (?:is|must be"
    rf"|should be|equals|of|being|=|:))? {_VALUE}",
    rf"\b(?:given|with) (?:an answer of|the answer being) {_VALUE}",
    r"\b(?:already (?:know|knows|knew)|knowing) (?:that )?the (?:\w+ )?answer\b(?! (?:to|for|when|if|of)\b)",
    rf"\b(?:hint|prompt|instructions?) [^.!?,;:\n]{{0,40}}?\banswer (?:is|as|to be|should be|:|=) ?{_VALUE}",
    # which is what we were told, as we were told
    rf"\b(?:is|was|exactly|precisely|match(?:es|ing)?|with|just|indeed) what (?:we|i){_HAVE}"
    r" (?:told|given|supposed to get|expected to get)\b",
    r"\bas you (?:said|say|told|gave|mentioned|stated|provided)\b",
    rf"\bas (?:we|i){_HAVE} (?:told|given)\b(?! (?:that|in the)\b)",
    rf"\b(?:we|i){_HAVE} (?:informed|shown) (?:that )?the (?:\w+ )?(?:answer|solution|result)\b",
    r"\b(?:number|value|result|total) (?:that |which )?(?:i|we) (?:was|were|had been|have been) shown\b",
    r"\b(?:number|value|result|total|solution) (?:in|from|of) the (?:prompt|hint|instructions?)\b",
    rf"\b(?:{_MATCH}|against) the (?:supplied|hinted) (?:number|value|result|total)\b",
    rf"\b(?:we|i)(?: already)? know (?:that )?the (?:final )?(?:result|answer) (?:has to|must|needs to) be {_VALUE}",
    # words of the hint itself (core/star/prompts.py)
    r"\b(?:my|our|your) own check\b",
    r"\bas (?:if|though) (?:i|we|you)\b[^.!?,;:\n]{0,20}? told\b",
    r"\bif (?:i|we|you) had(?: not|n't) been told\b",
    rf"{_NOT_SO}\bthe right answer(?: here)? (?:is|was|:|=) ?{_VALUE}",
    # how it was found, and what is hidden
    r"\b(?:work|reason|go)(?:ing|ed)? back(?:ward|wards)? (?:from|to reach) the"
    r" (?:(?:\w+ )?answer\b(?! (?:choice|option))|(?:given|known|final|correct|provided) (?:result|value|total)\b)",
    rf"\breverse\W?engineer\w* {_GAP}\b(?:answer|steps|solution|result)\b",
    rf"\bpretend\w*{_GAP}\b(?:answer|know|told|given)\b",
    rf"(?:\b(?:without|not|never|avoid)|n't) (?:to )?(?:mention|reveal|disclos|admit)\w* {_GAP}\b(?:answer"
    r"|hints?|given|told|provided)\b",
    # as given: said of an answer, and of the problem's data; of an answer where its sentence comes to something
    r"\b(?:so|thus|hence|therefore|finally|final|answer|result|remainder|boxed|we get|we obtain|gives|yields|conclude"
    r"|indeed)\b"
    r"[^!?\n]{0,120}?(?<!is )(?<!are )(?<!\b\w )\b(?:as|just as|exactly as) (?:was |were |already )?"
    r"(?:given|provided|told|hinted|supplied)"
    r"(?: above)?(?=[.,;:!)$\s]*(?:$|\n|[.!;)]))",
    rf"\banswer\b{_GAP}(?<!is )\b(?:as|just as|exactly as) (?:was |were |already )?"
    r"(?:given|provided|told|stated|hinted|supplied)\b(?! (?:by|as|above)\b)",
]
# These speak of a hint that gives the answer away, but where the problem has a hint of its own.
_HINTED = [
    r"\b(?:the|this|that|your|our|given|provided|supplied) hint\b"
    r"(?! (?:in|of|to|for|at) the (?:problem|exercise|question|statement)\b)",
    r"\b(?:as|was|were|been) hinted\b",
    r"\bhinted (?:at|that)\b",
]
_ON_A_FINAL_LINE = re.compile(
    r"\((?:as )?(?:given|provided|told|known|stated|from the hint|hint)\)|\b(?:as )?(?:given|provided|told)\W*\Z"
)


def _compiled(patterns: list[str]) -> "re.Pattern[str]":
    return re.compile("|".join(pattern.replace(" ", r"[ \n]") for pattern in patterns), re.MULTILINE)


_ALWAYS, _OF_A_HINT = _compiled(_TOLD), _compiled(_HINTED)
_PLAIN = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "*": None, "_": None, "`": None, "“": None, "”": None, '"': None})


def told(text: str, statement: str = "") -> bool:
    """Whether `text` speaks of an answer that its writer was given. `statement`: of the problem, whose own words are no
    sign: where it speaks of a hint, `text` may too. Never raises, and takes time linear in `text`."""
    plain = _plain(text)
    if _ALWAYS.search(plain) or ("hint" not in statement.lower() and _OF_A_HINT.search(plain)):
        return True
    return any(_ON_A_FINAL_LINE.search(_plain(line.value)) for line in final_lines(text))


def _plain(text: str) -> str:
    """In small letters, with single blanks and without marks of Markdown."""
    return "\n".join(" ".join(line.split()) for line in text.translate(_PLAIN).lower().splitlines())


# --- another final value ---

_CLAIMED = re.compile(
    r"\b(?:answer|final (?:value|result))(?: to (?:the|this) (?:problem|question))?+"
    r" ?(?::|=|is(?: equal to)?+|equals|(?:must|should|would) be|comes (?:out )?to(?: be)?+|was)"
    r" *+(?P<value>[^\s:][^\n]{0,100})",
    re.IGNORECASE,
)
# Words before it, in its sentence, with which it claims nothing.
_TENTATIVE = re.compile(
    r"\b(?:if|whether|suppos\w+|assum\w+|unless|wrong|incorrect|tempting|na[iï]ve|not|could|might|may|maybe|perhaps|guess\w*"
    r"|partial|first|previous|earlier|initial)\b[^.!?\n]*\Z",
    re.IGNORECASE,
)
_IN_DOLLARS = re.compile(r"(?:\$(?P<one>[^$]+)\$|\\\((?P<other>(?:(?!\\[()]).)+)\\\))(?=[.,;:!)]|\s*\Z)")
_CLAUSE = re.compile(r"(?:(?![.,;:!](?:\s|\Z)| (?:because|since|so|and|but|as|which|where)\b).)+")


def states_another(text: str, problem: Problem) -> bool:
    """Whether `text`, thinking and answer, states another final value than the problem's answer: in a box, in a
    `Final:` line, or as "the answer is 12". Spellings of one answer are one; what can't be compared in time is another.
    False for a problem without an answer. For "math" this may block, as core.grading.answers.judge does."""
    if problem.answer is None:
        return False
    found = dict.fromkeys([*stated(text, problem.answer_type), *_claimed(text)])
    if None in found or len(found) > MAX_STATED:
        return True
    return not all(_is_same(value, problem.answer, problem.answer_type) for value in found if value is not None)


def _is_same(value: str, answer: str, answer_type: str) -> bool:
    same = canonical(value, answer_type) == canonical(answer, answer_type)
    return same or judge(value, answer, answer_type) is True


def _claimed(text: str) -> list[str]:
    """What is said to be the answer in a sentence, where that can be read without a guess: a number, or all that stands
    between dollars."""
    found = []
    for claim in _CLAIMED.finditer(text.replace("*", " ")):
        if _TENTATIVE.search(claim.string, max(0, claim.start() - 60), claim.start()):
            continue
        whole = claim["value"]
        in_dollars, clause = _IN_DOLLARS.match(whole), _CLAUSE.match(whole)
        if in_dollars:
            found.append((in_dollars["one"] or in_dollars["other"]).strip())
        elif clause and "?" not in clause[0] and NUMBER.fullmatch(number := canonical(clause[0].strip(), "math")):
            found.append(number)
    return found
