"""Statements that are one: planted repetitions are found, and other statements are others."""

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.star.statements import hash_of, near, normalised

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
        ("Find 12, 345", "Find 12,345"),  # a list
        ("12.5 + 3 = ?", "5 + 3 = ?"),  # no label
        ("(5)*(3) + 4", "(6)*(3) + 4"),
        ("12: 3 = x: 4", "15: 3 = x: 4"),
        ("2**3 + 4**5", "2*3 + 4*5"),
        ("x <= 2, and x ≤ 3", "x <= 2, and x < 3"),
        ("Find x.", "Find the x."),  # a rewording, which is not found
        ("Find |x|", "Find x"),
        (
            "A game gives (3 points) for a win and (1 point) for a draw.",
            "A game gives (2 points) for a win and (1 point) for a draw.",
        ),
        ("[5 points] on a circle are joined.", "[7 points] on a circle are joined."),
        ("Find 2^{3}4.", "Find 2^{34}."),
        ("Find a_{1}2.", "Find a_12."),
        ("Find x_{1},200.", "Find x_{1200}."),
        ("Find x^{2n}.", "Find x^2n."),
        (r"Find \sqrt{2n}.", r"Find \sqrt{2}n."),
        ("Find 1½.", "Find 11/2."),
        ("Example 3 shows f(3)=2. Find f(1).", "Example 4 shows f(3)=2. Find f(1)."),
        ("Problem 12 is hard. Find x.", "Problem 13 is hard. Find x."),
        ("a <=> b", "a >= b"),
    ],
)
def test_other_statements_are_others(one: str, other: str) -> None:
    assert hash_of(one) != hash_of(other)


BASE = r"Let $x_1$ be a root of $x^2 - 1000x + 3 \cdot 4 = \frac{1}{2}$. Find the value of $2 \times x_1 + \sqrt{2}$."


@pytest.mark.parametrize(
    "before", ["12. ", "12) ", "(a) ", "Problem 12: ", "(Problem 12) ", "**Problem 12.** ", "### Problem 12\n\n"]
)
@pytest.mark.parametrize("points", [" (5 points)", "\n[10 pts]", " 5 points.", ""])
def test_a_labelled_repetition_is_found(before: str, points: str) -> None:
    assert hash_of(f"{before.rstrip(' ')}{points} {BASE}") == hash_of(BASE)
    if points != " 5 points.":
        assert hash_of(f"{before}{BASE}{points}") == hash_of(BASE)
    if "[" not in points:
        assert hash_of(f"{points} {BASE}") == hash_of(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"\times", "×"),
        (r"\cdot", "*"),
        (r"\cdot", "·"),
        ("1000", "1,000"),
        ("1000", "1{,}000"),
        ("1000", r"1\,000"),
        ("x^2", "x^{2}"),
        ("x^2", "x²"),
        ("x_1", "x_{1}"),
        ("x^2 ", "x^{2}"),
        (r"\frac{1}{2}", "1/2"),
        (r"\frac{1}{2}", r"\dfrac12"),
        (r"\frac{1}{2}", "½"),
        (r"\sqrt{2}", "√2"),
        ("Find the value", "**Find the value**"),
        ("Find the value", r"\textbf{Find the value}"),
    ],
)
def test_another_spelling_of_a_formula_is_found(old: str, new: str) -> None:
    assert old in BASE and hash_of(BASE.replace(old, new)) == hash_of(BASE)


def test_statements_with_eight_words_in_common_are_near() -> None:
    other = "Tom has 12 red and 7 blue pens in a box. How many pens has Tom in all?"
    named = {
        "numbers": other.replace("12", "15"),
        "more": f"{other} Explain.",
        "names": other.replace("Tom", "Ann").replace("pens", "nuts"),
        "other": PLAIN,
    }
    assert near(named.items(), [other]) == ("numbers", "more")


@pytest.mark.parametrize("sign", [r"\leq", r"\leqslant ", "<=", "≤"])
def test_signs_of_one_order_are_one(sign: str) -> None:
    assert hash_of(f"Let $x{sign}2$.") == hash_of(r"Let $x \le 2$.")


@pytest.mark.parametrize("text", ["", "$$", " \\quad . ", "\u200b", "\\", "...", "\ud800"])
def test_what_says_nothing_has_a_hash_too(text: str) -> None:
    assert len(hash_of(text)) == 64
