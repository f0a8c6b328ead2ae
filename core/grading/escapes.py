r"""Restore backslashes of TeX that were lost or doubled between the model and the reply.

A program that takes a reply for the text of a JSON or Python string reads \f of \frac as a form
feed. A program that escapes a reply twice writes \\frac. Each rule has an example, which is its
test."""

import re

from core.grading.rules import Rule, rewritten

# Commands whose first letter makes an escape with the backslash, by this letter.
_COMMANDS = {
    "a": "alpha angle approx arccos arcsin arctan ast",
    "b": "bar beta bf big bigl bigr Big binom boldsymbol bot boxed bullet",
    "f": "fbox forall frac",
    "n": "nabla ne neg neq notin nu",
    "r": "rangle rbrace rceil rfloor rho right rightarrow rm",
    "t": (
        "tan tanh tau text textbf textit textrm textstyle tfrac therefore theta tilde times to top "
        "triangle"
    ),
    "v": "varnothing varphi vec vee vert",
}
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# Rests of commands that begin no word, so that the white space before them is a lost escape
# anywhere.
_CLEAR = {
    "n": "eq abla otin",
    "r": "ight ightarrow ceil",
    "t": "anh ext extbf extit extrm extstyle frac herefore heta ilde imes riangle",
}
_OTHERS = (
    "boxed cdot cos circ cup cap cfrac dbinom degree dfrac div dots fbox fbox frac ge geq gt in"
    " infty int lambda ldots le left leq ln log lt mathbb mathbf mathrm max mbox min mu mathcal"
    " omega operatorname overline pi pm pmod prod qquad quad sigma sin sqrt sum text textbf textit"
    " textrm tfrac begin end hline"
)
_KNOWN = sorted({*" ".join([*_COMMANDS.values(), _OTHERS]).split()}, key=len, reverse=True)
_DOUBLED = re.compile(rf"(?<!\\)\\\\(?=(?:{'|'.join(_KNOWN)})(?![A-Za-z]))")
_ODD = re.compile(r"(?<!\\)(?:\\\\)*\\(?!\\)")


def _lost(letters: str, rests: dict[str, str], before: str = "") -> re.Pattern[str]:
    """Return the pattern of control characters before the rests of commands."""
    patterns = []
    for letter in letters:
        control = re.escape(_ESCAPES[letter])
        rest = "|".join(rests[letter].split())
        patterns.append(f"{control}(?=(?:{rest})(?![A-Za-z]))")
    return re.compile(f"{before}(?:{'|'.join(patterns)})")


_RESTS = {letter: re.sub(rf"\b{letter}", "", names) for letter, names in _COMMANDS.items()}
_LETTERS = {escape: "\\" + letter for letter, escape in _ESCAPES.items()}


def _in_letters(control: re.Match[str]) -> str:
    return _LETTERS[control[0]]


def _halved(text: str) -> str:
    r"""Return `text` with half of its backslashes if all of them are doubled, else with \\frac as
    \frac."""
    if _ODD.search(text):
        return _DOUBLED.sub(lambda _: "\\", text)
    return text.replace("\\\\", "\\") if _DOUBLED.search(text) else text


_MARKS = _lost("abfv", _RESTS)
_BLANKS = _lost("nrt", _CLEAR)
_SPACES = _lost("rt", _RESTS)
_BREAKS = _lost("n", _RESTS, before=r"(?<=[^\s{,;])")
RULES = (
    Rule(
        "control characters",
        "\boxed{\frac12}",
        r"\boxed{\frac12}",
        lambda text: _MARKS.sub(_in_letters, text),
    ),
    Rule(
        "white space",
        "3\times 4",
        r"3\times 4",
        lambda text: _BLANKS.sub(_in_letters, text),
    ),
    Rule("doubled backslashes", r"\\boxed{\\frac12}", r"\boxed{\frac12}", _halved),
)


def restored(text: str) -> str:
    """Return `text` with its lost and doubled backslashes restored, in linear time."""
    return rewritten(text, RULES)


def restored_within(box: str) -> str:
    r"""Return the content of a box with more white space restored: 2<newline>u is 2\nu, and <tab>an
    x is \tan x."""
    return _BREAKS.sub(_in_letters, _SPACES.sub(_in_letters, box))
