r"""Whether two statements are one: by the hash of what they say without their dress.

Case, spacing, dollar signs and other LaTeX that only sets type, punctuation at the ends, characters that are not seen,
full-width letters, kinds of dashes and quotes make no difference. A rewording does, and so do another language, another
spelling of a formula (\times for \cdot, x for y, 1,000 for 1000, \mathrm{cm} for cm) and words around the statement:
such a repetition is not found.
"""

import hashlib
import re
import unicodedata

# A backslash and what it begins are one token, so that no half of \\ or \$ is ever cut off.
_TOKEN = re.compile(r"\\(?:[a-z]+|[\s\S])|[$~]")
_SAID = (
    dict.fromkeys(("$", "~", r"\$", r"\(", r"\)", r"\[", r"\]"), " ")
    | dict.fromkeys((r"\!", r"\,", r"\;", r"\:", r"\>", "\\ ", "\\\n", "\\\t", r"\quad", r"\qquad", r"\thinspace"), " ")
    | dict.fromkeys((r"\left", r"\right", r"\displaystyle", r"\textstyle", r"\limits", r"\nolimits"), " ")
    | dict.fromkeys((r"\big", r"\bigl", r"\bigr", r"\bigg", r"\biggl", r"\biggr", r"\noindent"), " ")
    | dict.fromkeys((r"\dfrac", r"\tfrac", r"\cfrac"), r"\frac")
)
_UNSEEN = re.compile(  # controls that are no white space, and what Unicode calls default ignorable
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_SPACE = re.compile(r" (?!\w)|(?<!\w) ")  # that keeps no two words apart
_KINDS = str.maketrans(dict.fromkeys("−–—―‐‑‒", "-") | dict.fromkeys("“”„«»", '"') | dict.fromkeys("‘’‚`´", "'"))
_ENDS = " .,:;?¿¡\"'*_#•·。、"  # of no formula: no minus, no factorial, no bracket


def hash_of(statement: str) -> str:
    """The sha256 of `statement`, normalised, in hex."""
    return hashlib.sha256(normalised(statement).encode("utf-8", "surrogatepass")).hexdigest()


def normalised(statement: str) -> str:
    """What `statement` says, without its dress (above); normalising once more changes nothing. Plain characters are
    done at once; others may compose anew as something between them goes."""
    text = _undressed(statement)
    while not statement.isascii() and (said := _undressed(text)) != text:
        text = said
    return text


def _undressed(text: str) -> str:
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text.translate(_KINDS)).casefold())
    text = _TOKEN.sub(lambda token: _SAID.get(token[0], token[0]), text)
    text = _SPACE.sub("", " ".join(text.split()))
    return text.rstrip(_ENDS + "\\").lstrip(_ENDS)
