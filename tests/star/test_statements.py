"""Statements that are one: planted repetitions are found, and other statements are others."""

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.star.statements import hash_of, normalised

ODD = "\\$~ .,:;?ab()[]{}!^_12fracleftdisplystqu\n\t\u200b\u00ad\u0345ιΣςß−“'`´¨ﬁ①ａ½…\u0300\u0301İı𝐀\x00\x7f\ud800"
PLAIN = "Find the remainder when 7*43 + 6*58 is divided by 1000."
WORDS = "Wie groß ist die Fläche des Dreiecks ABC?"
LATEX = r"Let $x_1 + \frac{1}{2} = \left(3 - y\right)^2$. What is \(x\)?"

Dress = Callable[[str, random.Random], str]


def spread(text: str, chance: random.Random) -> str:
    return re.sub(" ", lambda _: chance.choice(["  ", "\n", "\t", "\u00a0", "\u3000", " \u200b", "\r\n"]), text)


def at_the_ends(text: str, chance: random.Random) -> str:
    before, behind = chance.choice(["", " ", '"', "**", "“"]), chance.choice(["", "?", " .", "..", ":", "”", "…", "\n"])
    return before + text.rstrip(".?") + behind


ANY: list[Dress] = [
    spread,
    at_the_ends,
    lambda text, _: re.sub(r" (?=[-+=*])|(?<=[-+=*]) ", "", text),
    lambda text, _: re.sub("[0-9]", lambda digit: chr(ord(digit[0]) + 0xFEE0), text),  # full width
    lambda text, _: text.replace(" ", "\ufeff \u202e"),
    lambda text, _: text.replace("-", "−"),
]
WITHOUT_COMMANDS: list[Dress] = [
    lambda text, _: text.upper(),
    lambda text, chance: "".join(each.swapcase() if each != "ß" and chance.random() < 0.3 else each for each in text),
    lambda text, _: "\u200b".join(text),
    lambda text, _: "\x00\u00ad".join(text),
    lambda text, _: re.sub(r"\S*[0-9*+]\S*", lambda found: f"${found[0]}$", text),
    lambda text, _: text.replace("ä", "a\u0308"),
]
OF_COMMANDS: list[Dress] = [
    lambda text, _: re.sub(r"\$|\\[()]", "", text),
    lambda text, _: text.replace("$", "$$").replace(r"\(", "$").replace(r"\)", "$"),
    lambda text, _: re.sub(r"\\left|\\right", "", text),
    lambda text, _: text.replace(r"\frac", r"\displaystyle \dfrac"),
    lambda text, _: text.replace(" + ", r"\,+\;").replace(" = ", r"~=\quad "),
]


@settings(max_examples=1500, deadline=None)
@given(st.text(st.sampled_from(ODD), max_size=25) | st.text(max_size=15))
def test_what_is_normalised_is_not_changed_by_doing_so_again(text: str) -> None:
    said = normalised(text)
    assert normalised(said) == said and hash_of(said) == hash_of(text)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_repetition_in_another_dress_is_found(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([PLAIN, WORDS, LATEX]))
    dresses = data.draw(st.permutations([*ANY, *(OF_COMMANDS if text == LATEX else WITHOUT_COMMANDS)]))
    chance = random.Random(data.draw(st.integers(0, 99)))
    planted = text
    for dress in dresses[: data.draw(st.integers(1, 5))]:
        planted = dress(planted, chance)
    assert hash_of(planted) == hash_of(text), (planted, normalised(planted), normalised(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PLAIN, PLAIN.replace("43", "34")),
        ("Find 2 3", "Find 23"),
        ("-5 + 3 = ?", "5 + 3 = ?"),
        ("Compute 5!", "Compute 5"),
        (r"What is $\frac12$?", r"What is $\frac13$?"),
        (r"Solve $a \cdot b$", r"Solve $a \times b$"),
        ("Find x.", "Find the x."),  # a rewording, which is not found
        ("Find |x|", "Find x"),
    ],
)
def test_other_statements_are_others(one: str, other: str) -> None:
    assert hash_of(one) != hash_of(other)


@pytest.mark.parametrize("text", ["", "$$", " \\quad . ", "\u200b", "\\", "...", "\ud800"])
def test_what_says_nothing_has_a_hash_too(text: str) -> None:
    assert len(hash_of(text)) == 64
