r"""Read the result that a reply states: a score, a choice, a verdict, or yes or no.

A result follows its word, as in "Score: 7". Markdown, TeX, tags and quotation marks do not matter
(`plain`). The last result counts. If no result follows the word, a sentence counts. Examples are
"The solution is correct." and "Candidate 2 is better." Sentences that hedge do not count. A choice
that the prompt offers, such as "Verdict: True" or "Verdict: False", is no result. All readers take
linear time."""

import re
import unicodedata
from collections.abc import Sequence

# Signs and commands that change no result, each with an example.
_DRESS = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"<([A-Za-z]{1,20})>", r"\1: "),  # <verdict>True
        (r"</[A-Za-z]{1,20}>", "\n"),  # </verdict>
        (r"\\(?:boxed|fbox|mbox|emph|underline|text[a-z]*|math[a-z]*)[ \t]*+\{", ""),  # \boxed{1}
        (r"\\[()\[\]]", ""),  # \(1\)
        (r"[*`$\"“”„«»{}\[\]]", ""),  # **Verdict**: `True`
        (r"^[ \t]*+(?:#++|>++|[-+•](?=[ \t]))[ \t]*+", ""),  # ## Verdict
        (r"(?<![^\W_])_++|_++(?![^\W_])", ""),  # __Verdict__
        (r"\|", " : "),  # | Verdict | True |
        ("[✅✔☑]\ufe0f?", " true "),
        ("[❌✗✘✖]\ufe0f?", " false "),
        ("⁄", "/"),  # the sign within ½
    )
)

# Rejects a number that begins a range or a choice, such as "5-6" or "1 or 2".
_SINGLE = (
    r"(?![ \t]*+(?:or|and|to|[-–/&])[ \t]*+(?:candidate[ \t]*+)?+\d)"
    r"(?!(?:[ \t]*+,[ \t]*+\d{1,4}+)+[ \t]*+,?+[ \t]*+or\b)"  # Score: 0, 1, 6 or 7
)
_NUMBER = r"(?:\d{1,6}+(?:\.\d{1,6}+)?+|\.\d{1,6}+)(?:\s*+/\s*+\d{1,6}+)?+(?!\.*+\d)"
# What may stand between a word and its result: "(final)", ": ", " is ", " - ", "Candidate ".
_BETWEEN = (
    r"(?:[ \t]++(?:candidate|solution|proof|answer|choice|option)(?![a-z]))?+"
    r"(?:[ \t]*+\([^()\n]{0,40}+\))?+\s*+(?:[:=]++|->|=>|[→—–]|-(?=[ \t]))?+\s*+"
    r"(?:(?:is|of)\b[ \t:]*+)?+(?:(?:candidate|solution|proof|number|no\.)[ \t:]*+)?+[#(]?+"
)

_RIGHT = "true|correct|valid|right|sound|yes|accept(?:ed)?|pass(?:ed)?"
_WRONG = (
    "false|incorrect|invalid|wrong|unsound|flawed|no|reject(?:ed)?|fail(?:ed)?"
    "|not (?:true|correct|valid|right|sound|accepted)"
)
# A synonym of True or False must end its clause: "Verdict: no errors" is not "no".
_SYNONYM = (
    rf"(?:{_RIGHT}|{_WRONG})(?=[ \t]*+(?:[.,;:!()\n—–]|-[ \t]|\Z))"
    r"(?![ \t,;]*+(?:but|except)\b)"
)
_VERDICT = rf"(?:true|false)\b(?![ \t]*+(?:if|unless|when)\b)|{_SYNONYM}"
_VERDICT_ALONE = re.compile(rf"[\s.,;:!]*+((?:{_RIGHT}|{_WRONG}))[\s.,;:!]*+", re.IGNORECASE)

_ADVERBS = (
    r"(?:(?:indeed|therefore|thus|hence|also|clearly|completely|entirely|fully|perfectly|totally"
    r"|logically|mathematically|actually|overall|in fact|both|simply|definitely)[ \t]++)*+"
)
_SUBJECT = (
    r"\b(?:the|this|candidate|my|your|their|his|her)(?:[ \t]++(?:candidate(?:['’]s)?|proposed|given"
    r"|provided|presented|final|correct|overall|whole|entire|above|stated|student(?:['’]s)?"
    r"|author(?:['’]s)?"
    r"|numerical|submitted))*+[ \t]++(?:solution|proof|answer|reasoning|argument|candidate)"
    r"(?:[ \t]++(?:to|of|for)[ \t]++(?:the|this)[ \t]++(?:problem|question|puzzle|task))?+"
    r"(?:[ \t]++(?:provided|given|presented|above|as stated|as written|as a whole|itself))*+"
    r"(?:[ \t]++(?:of[ \t]++)?+\(?+-?\d[\d.,/]*+\)?+)?+"
)
_FAULT = r"(?:(?:\w++[ \t]++){0,2}(?:errors?|mistakes?|flaws?|gaps?)\b)"
# Sentences that state a verdict: its value, and the pattern.
_SENTENCES = tuple(
    (value, re.compile(pattern, re.IGNORECASE))
    for value, pattern in (
        # The final answer is correct.
        (
            True,
            rf"{_SUBJECT}[ \t]++(?:is|was|are)[ \t:]++{_ADVERBS}"
            r"(?:correct|right|valid|accurate|sound|true)\b",
        ),
        # The proposed solution isn't valid.
        (
            False,
            rf"{_SUBJECT}[ \t]++(?:(?:is|was)[ \t:]++{_ADVERBS}(?:not[ \t]++{_ADVERBS}"
            r"(?:correct|right|valid|accurate|sound|true|complete)|incorrect|wrong|false|invalid"
            r"|flawed|inaccurate|unsound|erroneous|incomplete)"
            r"|(?:isn|wasn)['’]t[ \t]++(?:correct|right|valid|accurate|sound|true))\b",
        ),
        # The solution contains a serious error.
        (
            False,
            rf"{_SUBJECT}[ \t]++(?:contains|has|makes|includes)[ \t]++"
            rf"(?:an?|one|two|three|several|some|many|multiple|the following)[ \t]++{_FAULT}",
        ),
        # The solution has no errors.
        (
            True,
            rf"{_SUBJECT}[ \t]++(?:(?:contains|has|makes)[ \t]++no|is[ \t]++free[ \t]++of)"
            rf"[ \t]++{_FAULT}",
        ),
        # There are no errors in the solution.
        (
            True,
            r"\b(?:there[ \t]++(?:is|are|were)|I[ \t]++(?:found|find|see|saw))[ \t]++no"
            rf"[ \t]++{_FAULT}",
        ),
        # No errors were found.
        (True, rf"\bno[ \t]++{_FAULT}[ \t]++(?:was|were|is|are)?+[ \t]*+found\b"),
        # All steps are correct.
        (
            True,
            r"\b(?:all|every|each)(?:[ \t]++of)?(?:[ \t]++the)?[ \t]++steps?"
            r"(?:[ \t]++(?:in|of)[ \t]++the[ \t]++\w++)?[ \t]++(?:is|are)[ \t]++"
            rf"{_ADVERBS}(?:correct|right|valid)\b",
        ),
    )
)
# A sentence with one of these words is no verdict, or only half of one.
_HEDGED = re.compile(
    r"\?|\b(?:if|whether|unless|assum\w*|suppos\w*|would|could|might|may|should|must|seems?"
    r"|appears?"
    r"|likely|probably|perhaps|possibly|partly|partially|mostly|largely|almost|nearly|so far|up to"
    r"|until|except|apart from|but|however|although|though|only|either|or|determine|decide|verify"
    r"|check|ensure|make sure|confirm whether|prove that|need to|claims?|claimed|asserts?|believes?"
    r"|not sure|unclear|cannot|can['’]t)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:\bnot|n['’]t|\bnever|\bhardly)\b[^,;:]*\Z", re.IGNORECASE)
_ENDS = re.compile(r"(?<=[.!?])\s++|\n++")
_LONGEST_SENTENCE = 400  # characters, so that a search in a sentence stays short

_PREFERRED = re.compile(
    r"\b(?:candidate|solution|proof)[ \t#]++(\d{1,4})[ \t]++(?:is|looks)[ \t]++"
    rf"{_ADVERBS}(?:the[ \t]++)?+(?:best|better|most likely|more likely|superior|preferable)\b",
    re.IGNORECASE,
)
_COMPARISON = re.compile(r"\b(?:more|most) likely\b", re.IGNORECASE)

_YES_FIRST = re.compile(
    r"\W*+(?:answer\W++)?+"
    r"(yes|no(?![ \t]++(?!(?:it|the|this|there|because|since|I|or)\b)\w))\b",
    re.IGNORECASE,
)
_YES_LAST = re.compile(r"\b(yes|no)\W*+\Z", re.IGNORECASE)
_YES_LINE = re.compile(r"^\W*+(yes|no)[^\w\n]*+$", re.IGNORECASE | re.MULTILINE)
_YES_ANSWER = re.compile(r"\banswer(?:[ \t]++is)?+[ \t:]*+(yes|no)\b", re.IGNORECASE)


def plain(text: str) -> str:
    """Return `text` without Markdown, TeX, tags and quotation marks, in plain digits."""
    text = unicodedata.normalize("NFKC", text)
    for pattern, replacement in _DRESS:
        text = pattern.sub(replacement, text)
    return text


def last_stated(text: str, word: str, value: str) -> str | None:
    """Return the last value after `word` in a plain `text`, as in "Best: 2", or None.

    A colon is optional. `word` and `value` are regular expressions. A value does not count if "or"
    or "else" precedes `word`, or if "or" or another `word` follows in its line. In these cases the
    reply repeats the choice that the prompt offers."""
    offers = rf"(?![ \t,;.]*+(?:or\b|/|\?|(?:or|and|else)?+[ \t]*+{word}[ \t]*+[:=]))"
    pattern = rf"(?<!\bor )(?<!\belse )(?<![A-Za-z]){word}{_BETWEEN}({value}){offers}"
    values: list[str] = re.findall(pattern, text, re.IGNORECASE)
    return values[-1] if values else None


def stated_score(text: str, word: str, allowed: Sequence[float]) -> float | None:
    """Return the last number after `word` in `text`, or None if it is missing or not `allowed`.
    A fraction is multiplied by the largest allowed number. If this number is 7, "7/7" is 7."""
    number = last_stated(plain(text), word, _NUMBER + _SINGLE) or ""
    above, _, below = number.partition("/")
    if not above:
        return None
    value = float(above)
    if below:
        if int(below) == 0:
            return None
        value = value / float(below) * max(allowed)
    for score in allowed:
        if abs(score - value) < 1e-9:
            return score
    return None


def read_choice(text: str, word: str, count: int) -> int | None:
    """Return the index of the last candidate that `text` states after `word`: 0 for "Best: 1".
    If there is none, a sentence such as "Candidate 1 is better." counts. None: missing or bad."""
    text = plain(text)
    stated = last_stated(text, word, rf"[0-9]{{1,4}}+{_SINGLE}")
    if stated is None:
        for sentence in _sentences(text):
            stated = _preferred(sentence) or stated
    if stated is None:
        return None
    number = int(stated)
    return number - 1 if 1 <= number <= count else None


def read_verdict(text: str) -> float | None:
    """Return 1.0 for True, 0.0 for False, or None.

    The last "Verdict: …" counts, or else a last line of one word, the last sentence that states a
    verdict, or a first line of one word. Synonyms such as "correct" count too."""
    text = plain(text)
    if stated := last_stated(text, "verdict", _VERDICT):
        return float(_is_right(stated))
    lines = text.strip().splitlines() or [""]
    if alone := _VERDICT_ALONE.fullmatch(lines[-1]):
        return float(_is_right(alone[1]))
    verdict = _last_verdict(text)
    if verdict is not None:
        return verdict
    if alone := _VERDICT_ALONE.fullmatch(lines[0]):
        return float(_is_right(alone[1]))
    return None


def read_answer(text: str) -> bool | None:
    """Return True for "yes", False for "no", else None.

    The first and last word count, or else lines of one word and "the answer is yes". If these
    differ, the result is None. If there are none, the last sentence that states a verdict counts.
    "No error was found" is not "no"."""
    text = plain(text).strip()
    ends = (_YES_FIRST.match(text), _YES_LAST.search(text))
    words = [match[1] for match in ends if match]
    if not words:
        words = _YES_LINE.findall(text) + _YES_ANSWER.findall(text)
    answers = {word.lower() for word in words}
    if len(answers) > 1:
        return None
    if answers:
        return answers == {"yes"}
    verdict = _last_verdict(text)
    return None if verdict is None else bool(verdict)


def _is_right(word: str) -> bool:
    return re.fullmatch(_RIGHT, word, re.IGNORECASE) is not None


def _sentences(text: str) -> list[str]:
    """Return the sentences and lines of a plain `text`, without the long ones."""
    return [sentence for sentence in _ENDS.split(text) if len(sentence) <= _LONGEST_SENTENCE]


def _last_verdict(text: str) -> float | None:
    """Return the verdict of the last sentence of a plain `text` that states one, or None."""
    for sentence in reversed(_sentences(text)):
        verdict = _verdict(sentence)
        if verdict is not None:
            return verdict
    return None


def _verdict(sentence: str) -> float | None:
    """Return the verdict of a `sentence`, if it states one verdict and does not hedge."""
    if _HEDGED.search(sentence):
        return None
    values: set[bool] = set()
    for value, pattern in _SENTENCES:
        match = pattern.search(sentence)
        if not match:
            continue
        if _DENIED.search(sentence, 0, match.start()):
            return None
        values.add(value)
    return float(values.pop()) if len(values) == 1 else None


def _preferred(sentence: str) -> str | None:
    """Return the number of the candidate that a `sentence` prefers, or None.
    Without its "more likely", the sentence must not hedge."""
    if _HEDGED.search(_COMPARISON.sub("", sentence)):
        return None
    numbers: list[str] = _PREFERRED.findall(sentence)
    return numbers[-1] if numbers else None
