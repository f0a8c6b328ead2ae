r"""Read the letter of an option in a box, or in the words after "The answer is".

A letter may have a dress, (C), and the text of its option, C) 42. The text alone also counts if it
equals the text of exactly one option. An answer is one of
- a letter, such as C,
- a letter with the text of another option, such as C) 24,
- several letters, such as A and C,
- another text, which is no option."""

import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase

from core.base.files import storable
from core.grading.canonical import canonical, read_value
from core.grading.markup import without_markup
from core.types import MAX_ANSWER_CHARS

LETTERS = ascii_uppercase
MAX_FORMULA = 100  # most characters of an option that is compared as a formula

# Words before a letter: the correct option
_NOUN = (
    r"(?:option|choice|letter|alternative)s?|lettre|antwort|buchstabe|opción|letra|opção|lettera"
)
NAMED = rf"(?i:(?:the |l['’]|la |die |der )?(?:correct |right |best )?(?:(?:{_NOUN})[ :=]+|选项 ?))"
_ANSWER = r"(?i:(?:the )?(?:correct |right |best |final )?answer(?: is)?[ :=]+)"
_LONE = re.compile(rf"(?:{_ANSWER})?(?:{NAMED})?[(\[]?([A-Za-z])[)\]]?[.,;:!)]*")
_JOINT = r"(?: ?[,/&+]| ?[,;]? and| ?[,;]? or) ?"
_ITEM = rf"(?:{NAMED})?\(?[A-Z]\)?"
_SEVERAL = re.compile(
    rf"(?:{_ANSWER})?(?i:both |either )?(?P<list>{_ITEM}(?:{_JOINT}{_ITEM})+)(?![\w'’])"
)
_IN_SEVERAL = re.compile(r"(?<![A-Za-z])[A-Z](?![A-Za-z])")
# (C) 42, C) 42, C. 42, C: 42 and option C, 42
_MARK = r"(?:[(\[]([A-Za-z])[)\]]|([A-Za-z])(?:[)\]]| ?[.:](?=\s)))"
_MARKED = re.compile(
    rf"(?:{_ANSWER})?(?:{NAMED})?{_MARK}[ .:,–—-]*(?P<rest>.+)"
    rf"|{NAMED}([A-Z]) ?[,:;(–—-](?P<behind>.+)"
)
_LOOSE = re.compile(
    rf"(?:{NAMED})?([A-Z])( ?(?:[-–—=,→]|\\(?:to|implies|[Rr]ightarrow)) ?| )(.+)"
)  # C = 42
_REVERSED = re.compile(r"(.+?),? ?[(\[]?(?i:option |choice )?(?<=[(\[ ])([A-Z])[)\]]?")  # 42 (C)
# The words after a letter at the beginning of a phrase: C because 12 is too small
_BEHIND = (
    r"[,;(–—]| -|(?: \w+)? (?:because|since|as|which|with|for|due|based|and not|not|or|rather"
    r"|instead|from|given)\b"
)
_BEGINS = re.compile(
    rf"(?:{NAMED})?(?:[(\[]([A-Za-z])[)\]]|([A-Z])[)\]])|{NAMED}([A-Z])\b|([A-Za-z])(?={_BEHIND})"
)
_OR_ANOTHER = re.compile(r",? or\b.*(?<![A-Za-z])[A-Z](?![A-Za-z])")
_SURE = re.compile(rf"{NAMED}|[(\[]?[A-Za-z][)\]]")
_MENTION = re.compile(
    r"\b(?i:option|choice|answer|letter)s? ?:? ?\(?([A-Z])\b|(?<![A-Za-z])\(([A-Z])\)"
)
_CLAUSE = re.compile(r"[,;(]| (?:because|since|as|which|where|so|is)\b")
_OPENING = re.compile(rf"\A(?:{_ANSWER}|答案[是为:] ?|(?:la|el|die) (?=\(?[A-Z]\b))")
_NOT_BUT = re.compile(r"\A(?i:not (?:option )?\(?[A-Z]\)?,? (?:but|it is|it['’]s|rather) )")
_ADVERB = re.compile(
    r"\A(?i:(?:most )?(?:probably|likely|clearly|definitely|obviously|actually|certainly|still) )"
)
_DENIES = re.compile(
    r"(?i)\b(?:not|neither|nor|none|no (?:answer|option|choice|solution)|nothing|cannot|unclear"
    r"|unknown|undefined|impossible)\b|n['’]t\b"
)


def _exact(text: str) -> str:
    return without_markup(text).rstrip(" .")


def _folded(text: str) -> str:
    return _exact(text).casefold()


def _meaning(text: str) -> str:
    """Return the canonical form of a formula, or "" for a longer text."""
    form = canonical(read_value(text) or "") if len(text) <= MAX_FORMULA else ""
    return re.sub(r"\\sqrt ?(\w)", r"\\sqrt{\1}", form)


def _named_thing(text: str) -> str:
    """Return a text without its article."""
    return re.sub(r"\A(?:the|an?) ", "", _folded(text))


_KEYS: tuple[Callable[[str], str], ...] = (_exact, _folded, _meaning, _named_thing)


def letter_of(answer: str) -> str:
    """Return the letter of an answer, or the answer itself if it lacks one."""
    match = re.fullmatch(r"(?s)([A-Z])\) .*", answer)
    return match[1] if match else answer


class Options:
    """The options of a problem, by which texts are read. Without texts, all letters are options."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.letters = LETTERS[: len(texts) or len(LETTERS)]
        self.keys = [[key(text) for text in texts] for key in _KEYS]

    def option_of(self, text: str) -> str:
        """Return the letter of the only option that equals `text`, or ""."""
        for key, keys in zip(_KEYS, self.keys, strict=True):
            form = key(text)
            letters = [
                letter for letter, option in zip(self.letters, keys, strict=False) if option == form
            ]
            if form and letters:
                return letters[0] if len(letters) == 1 else ""
        return ""

    def value(self, content: str) -> str | None:
        """Return the answer in the content of a box, "" for a denial, or None if it is too
        long."""
        if len(content) > MAX_ANSWER_CHARS:
            return None
        content = storable(content)
        answer = self.phrase(content)
        text = without_markup(content)
        return answer or ("" if _DENIES.search(text) else text)

    def fault(self, answer: str) -> str | None:
        """Return the doubt about an answer (a key of DOUBTS), or None for a letter of an option."""
        if answer in self.letters and len(answer) == 1:
            return None
        if len(letter_of(answer)) == 1 and letter_of(answer) != answer:
            return "other text"
        return "several" if self._is_several(answer) else "not an option"

    def phrase(self, phrase: str) -> str:
        """Return the answer of a phrase, such as the words after "The answer is", or ""."""
        text = _OPENING.sub("", without_markup(phrase[:MAX_ANSWER_CHARS]))
        text = _NOT_BUT.sub("", _ADVERB.sub("", text))
        text = text.rstrip(" .!")
        answer = self._answer(text)
        if answer:
            return answer
        several = _SEVERAL.match(text)
        if several:
            return several["list"]
        begun = _BEGINS.match(text)
        if begun and not _OR_ANOTHER.match(text, begun.end()):
            return self._of_match(begun, _clause(text[begun.end() :]))
        if _DENIES.search(text):
            return ""
        mentions = {mention[1] or mention[2] for mention in _MENTION.finditer(text)}
        if len(mentions) == 1:
            return str(mentions.pop())
        return self.option_of(_clause(text))

    def denies(self, phrase: str, answer: str) -> bool:
        """Return whether a phrase without an answer denies that there is one, or denies
        `answer`."""
        letters = _IN_SEVERAL.findall(phrase)
        return _DENIES.search(phrase) is not None and (not letters or answer[:1] in letters)

    def marked(self, line: str) -> str:
        """Return the letter with which a `line` begins, as in (C) 42, or "". After a point or a
        colon, the text of an option must follow."""
        text = without_markup(line)
        match = _MARKED.fullmatch(text)
        if not match:
            return self._loose(text)
        rest = match["rest"] or match["behind"]
        is_sure = _SURE.match(text) is not None or self.option_of(rest)
        return self._of_match(match, rest) if is_sure else ""

    def several(self, line: str) -> str:
        """Return a `line` that is nothing but several letters, or ""."""
        text = without_markup(line)
        return text if self._is_several(text) else ""

    def is_marked(self, line: str) -> bool:
        """Return whether a `line` looks like an option in a list."""
        return _MARKED.fullmatch(without_markup(line)) is not None

    def lone(self, line: str) -> str:
        """Return the letter that is all of a `line`, or ""."""
        match = _LONE.fullmatch(without_markup(line))
        return match[1].upper() if match else ""

    def _answer(self, text: str) -> str:
        """Return the answer that is all of a `text` without markup, or ""."""
        lone = _LONE.fullmatch(text)
        if lone and (lone[1].isupper() or lone[1].upper() in self.letters):
            letter = lone[1].upper()
            is_other = text in self.keys[0] and self.letters[self.keys[0].index(text)] != letter
            return f"{letter}) {text}" if is_other else letter
        option = self.option_of(text)
        if option:
            return option
        if self._is_several(text):
            several = _SEVERAL.fullmatch(text)
            letters = set(_IN_SEVERAL.findall(text))
            listed = several["list"] if several else text
            return letters.pop() if len(letters) == 1 else listed
        marked = _MARKED.fullmatch(text)
        if marked:
            return self._of_match(marked, marked["rest"] or marked["behind"])
        return self._loose(text)

    def _loose(self, text: str) -> str:
        """Return the answer of C = 42 or 42 (C), in which 42 is the text of an option, or ""."""
        match = _LOOSE.fullmatch(text)
        if match:
            option = self.option_of(match[3].strip("()"))
            is_article = match[1] in "AI" and match[2] == " " and option != match[1]
            if option and not is_article:
                return self._of_match(match, match[3].strip("()"))
        match = _REVERSED.fullmatch(text)
        if match and self.option_of(match[1]):
            return self._with_text(match[2], match[1])
        return ""

    def _of_match(self, match: re.Match[str], rest: str) -> str:
        letters = [group for group in match.groups() if group and len(group) == 1]
        return self._with_text(letters[0].upper(), rest)

    def _with_text(self, letter: str, text: str) -> str:
        """Return the letter, with the `text` if that is the text of another option."""
        if letter not in self.letters:
            return letter
        option = self.option_of(text)
        return f"{letter}) {_exact(text)}" if option and option != letter else letter

    def _is_several(self, text: str) -> bool:
        """Return whether a text is several letters: A and C, or AC."""
        if _SEVERAL.fullmatch(text):
            return True
        is_word = re.fullmatch("[A-Z]{2,}", text) is not None
        return is_word and set(text) <= set(self.letters) and sorted(set(text)) == list(text)


def _clause(text: str) -> str:
    return _CLAUSE.split(text.lstrip(" :,.–—-"))[0]
