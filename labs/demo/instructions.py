"""Draw the instructions for the embedded model's training, from a small grammar of sentences and
headers.

A model of this size treats instructions as passwords unless it has seen them in very many words. So
each sentence is drawn from a pattern in grammar.py. Sentences are dropped, shuffled, or mixed with
unrelated and meaningless sentences. The model must learn only one thing from the instructions:
whether to improve or to judge a single candidate. No single word may make the model recompute in
SOLVE, as other roles do. So SOLVE's prompts may ask for care in many ways. Some even contain
sentences of other skills, although they show no candidate."""

import random
import re
from collections.abc import Sequence

from labs.demo.grammar import (
    AGGREGATE_ASKS,
    AGGREGATE_INTROS,
    BARE_STYLES,
    BLOCK_HEADERS,
    CANDIDATE_STYLES,
    CAREFUL,
    CLOSINGS,
    INSTRUCTION_HEADERS,
    OTHER_SKILLS,
    PROBLEM_STYLES,
    REFINE_ASKS,
    REFINE_INTROS,
    SOLVE_ASKS,
    UNRELATED,
    VERIFY_ASKS,
    VERIFY_INTROS,
)
from labs.demo.vocabulary import COMMON, NUMBER_WORDS, SYLLABLES, WORDS

CHOICE = re.compile(r"(?<!\\)\[([^\[\]]*?)(?<!\\)\]")
NAME = re.compile(r"<(\w+)>")


def drawn(rng: random.Random, pattern: str) -> str:
    """Draw one text from `pattern`. A backslash before [ ] or * keeps the character."""

    def word(match: re.Match[str]) -> str:
        choices = WORDS.get(match[1])
        # only patterns of styles use <problem> as a tag
        return rng.choice(choices) if choices else match[0]

    def choice(match: re.Match[str]) -> str:
        choices: list[str] = match[1].split("|")
        return rng.choice(choices)

    # one at a time, because a choice may contain choices
    while CHOICE.search(pattern):
        pattern = CHOICE.sub(choice, pattern, count=1)
    pattern = NAME.sub(word, pattern)
    return pattern.replace("\\[", "[").replace("\\]", "]").replace("\\*", "*")


def sentence(rng: random.Random, pattern: str, count: int = 1) -> str:
    """Draw a sentence from `pattern`. `count` replaces {k}, and the first letter becomes a
    capital."""
    number = NUMBER_WORDS[count] if rng.random() < 0.3 else str(count)
    text = drawn(rng, pattern).replace("{k}", number)
    return text[:1].upper() + text[1:]


def meaningless(rng: random.Random) -> str:
    """Draw a meaningless sentence of common and invented words, which looks like an unknown
    instruction."""
    words = []
    for _ in range(rng.randint(3, 14)):
        if rng.random() < 0.25:
            words.append("".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))))
        elif rng.random() < 0.15:
            words.append(rng.choice(WORDS[rng.choice(tuple(WORDS))]))
        else:
            words.append(rng.choice(COMMON))
        if rng.random() < 0.08:
            words[-1] += ","
    text = " ".join(words)
    return text[:1].upper() + text[1:] + rng.choice((".", ".", ".", "!", "?", ":", ""))


def beside_the_point(rng: random.Random) -> str:
    """Draw a sentence that is meaningless, or irrelevant to the problem."""
    if rng.random() < 0.5:
        return meaningless(rng)
    return sentence(rng, rng.choice(UNRELATED + CAREFUL))


def shaken(rng: random.Random, text: str) -> str:
    """Return the text, sometimes in lower case or with shuffled words, so that exact wordings do
    not matter."""
    roll = rng.random()
    if roll < 0.05:
        return text.lower()
    if roll < 0.1:
        words = text.split()
        rng.shuffle(words)
        return " ".join(words)
    return text


def paragraph(
    rng: random.Random,
    patterns: Sequence[str],
    fewest: int,
    count: int = 1,
    besides: Sequence[Sequence[str]] = (),
) -> str:
    """Draw a paragraph. Up to five sentences, and `fewest` at least, come from `patterns`. Others
    may come from `besides`, and from irrelevant or meaningless texts. The paragraph may be empty if
    `fewest` is 0."""
    drawn_size = rng.choices((0, 1, 2, 3, 4, 5), (0.1, 0.28, 0.28, 0.18, 0.1, 0.06))[0]
    size = min(len(patterns), max(fewest, drawn_size))
    sentences = [sentence(rng, pattern, count) for pattern in rng.sample(patterns, size)]
    sentences.extend(
        sentence(rng, rng.choice(others), rng.randint(1, 4))
        for others in (UNRELATED, CAREFUL, CAREFUL, *besides)
        if rng.random() < 0.25
    )
    nonsense = rng.choices((0, 1, 2), (0.8, 0.14, 0.06))[0]
    sentences.extend(meaningless(rng) for _ in range(nonsense))
    rng.shuffle(sentences)
    sentences = [shaken(rng, text) for text in sentences]
    style = rng.random()
    if style < 0.1:
        return "\n".join(f"- {text}" for text in sentences)
    if style < 0.15:
        return "\n".join(f"{number}. {text}" for number, text in enumerate(sentences, 1))
    return rng.choice((" ", " ", " ", "\n", "\n\n")).join(sentences)


def headed(rng: random.Random, headers: Sequence[str], text: str, share: float) -> str:
    if text and rng.random() < share:
        return sentence(rng, rng.choice(headers)) + rng.choice(("\n", "\n\n", "\n\n")) + text
    return text


def arranged(rng: random.Random, parts: Sequence[str]) -> str:
    return rng.choice(("\n\n", "\n\n", "\n\n", "\n")).join(part for part in parts if part)


def stated(rng: random.Random, problem: str) -> str:
    return styled(rng, PROBLEM_STYLES).replace("{p}", problem)


def styled(rng: random.Random, styles: Sequence[str]) -> str:
    """Draw the style of a problem or a candidate."""
    style = rng.choice(styles)
    # A style in tags is used as it is, because drawing would replace the tag <problem> by a word.
    return style if style.startswith("<") else drawn(rng, style)


def filled(style: str, text: str, number: int) -> str:
    """Insert candidate number `number` into a style."""
    return style.replace("{i}", str(number)).replace("{a}", chr(64 + number)).replace("{t}", text)


def solve_prompt(rng: random.Random, problem: str) -> str:
    """Draw a prompt for SOLVE. Some prompts also contain sentences that ask for another skill. The
    skill is SOLVE all the same, because no candidate is shown."""
    besides = OTHER_SKILLS if rng.random() < 0.5 else ()
    asked = headed(rng, INSTRUCTION_HEADERS, paragraph(rng, SOLVE_ASKS, 0, besides=besides), 0.1)
    closing = sentence(rng, rng.choice(CLOSINGS)) if rng.random() < 0.08 else ""
    before = paragraph(rng, SOLVE_ASKS, 1, besides=besides) if rng.random() < 0.45 else ""
    if rng.random() < 0.3:
        return arranged(rng, (asked, stated(rng, problem), closing))
    return arranged(rng, (before, stated(rng, problem), asked, closing))


def aggregate_prompt(rng: random.Random, problem: str, candidates: list[str]) -> str:
    """Draw a prompt for AGGREGATE. With one candidate, it always asks for a refinement, so that it
    can't mean judging."""
    count = len(candidates)
    styles: Sequence[str] = CANDIDATE_STYLES
    intros: Sequence[str] = AGGREGATE_INTROS
    asks: Sequence[str] = AGGREGATE_ASKS
    fewest_asks = 0
    if count == 1:
        styles = CANDIDATE_STYLES + BARE_STYLES
        intros = REFINE_INTROS
        asks = REFINE_ASKS
        fewest_asks = 1
    style = styled(rng, styles)
    separator = rng.choice(("\n\n", "\n\n", "\n\n", "\n", "\n\n---\n\n"))
    block = separator.join(filled(style, text, i) for i, text in enumerate(candidates, 1))
    block = headed(rng, BLOCK_HEADERS, block, 0.12)
    intro = paragraph(rng, intros, 1, count) if rng.random() < 0.85 else ""
    instructions = paragraph(rng, asks, fewest_asks, count)
    asked = headed(rng, INSTRUCTION_HEADERS, instructions, 0.12)
    closing = sentence(rng, rng.choice(CLOSINGS)) if rng.random() < 0.1 else ""
    posed = stated(rng, problem)
    orders = (
        (posed, intro, block, asked, closing),
        (asked, posed, intro, block, closing),
        (intro, block, posed, asked, closing),
        (intro, posed, block, asked, closing),
        (asked, intro, posed, block, closing),
    )
    return arranged(rng, rng.choices(orders, (0.5, 0.15, 0.08, 0.17, 0.1))[0])


def verify_prompt(rng: random.Random, problem: str, candidate: str) -> str:
    block = filled(styled(rng, BARE_STYLES), candidate, 1)
    intro = paragraph(rng, VERIFY_INTROS, 1) if rng.random() < 0.6 else ""
    asked = headed(rng, INSTRUCTION_HEADERS, paragraph(rng, VERIFY_ASKS, 1), 0.08)
    posed = stated(rng, problem)
    orders = (
        (posed, intro, block, asked),
        (asked, posed, intro, block),
        (intro, posed, block, asked),
    )
    return arranged(rng, rng.choices(orders, (0.65, 0.2, 0.15))[0])
