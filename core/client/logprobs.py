"""Read the log probabilities that a server lists for the tokens of a reply.

Of each token, only its text, its log probability and its confidence are kept: a long reply lists
20 alternatives for each of its tokens."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from core.base.files import storable
from core.types import TOP_LOGPROBS, Sampling

# returns whether a stream ends after the tokens with these confidences
Ends = Callable[[Sequence[float]], bool]

# Servers write -9999 or the smallest number for a probability of 0.
IMPOSSIBLE = -1000.0
DIGITS = 4  # of a confidence
NEAR = 1e-9  # means that differ by less are equal
# The sampling of a request for the model's own probabilities of one token. SGLang applies sampling
# parameters to them, so these are off.
ONE_TOKEN: Mapping[str, Any] = {
    "max_tokens": 1,
    "top_logprobs": TOP_LOGPROBS,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
}
_FAULTS = (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError)


class _Token(NamedTuple):
    """A listed token: its text and its natural log probability."""

    text: str
    logprob: float


class Listed:
    """The listed tokens of a reply, as far as they have arrived.

    `count` is their number. `first` has the natural log probability of each alternative for the
    first token, or is {} if they can't be read. `confidences` has the confidence of each token that
    lists alternatives."""

    def __init__(self) -> None:
        self.first: dict[str, float] = {}
        self.confidences: list[float] = []
        self._tokens: list[_Token | None] = []  # None: unreadable

    def add(self, tokens: Iterable[Mapping[str, Any]]) -> None:
        """Add the next tokens, as a chat completion lists them."""
        for token in tokens:
            if not self._tokens:
                self.first = alternatives(token)
            self._tokens.append(_read(token))
            certainty = confidence(token)
            if certainty is not None:
                self.confidences.append(certainty)

    @property
    def count(self) -> int:
        return len(self._tokens)

    def sum(self, counted: int, finish: str, text: str) -> float | None:
        """Return the sum of all log probabilities, or None if tokens are unreadable or fewer than
        `counted` (0: unknown).

        For a character of several tokens, llama.cpp lists only the last token's probability. It
        also omits the token with the stop text. So one token may be missing if `finish` is "stop"
        and the listed tokens end like `text`. But a last token "" is the end of the message. Then
        the missing token is inside the message, and the result is None."""
        tokens = [token for token in self._tokens if token is not None]
        if not tokens or len(tokens) < len(self._tokens):
            return None
        try:
            total = math.fsum(token.logprob for token in tokens)
        except (OverflowError, ValueError):  # infinities of both signs
            return None
        if not math.isfinite(total):
            return None
        missing = counted - len(tokens)
        if missing <= 0:
            return total
        if missing > 1 or finish != "stop" or not tokens[-1].text:
            return None
        listed = "".join(token.text for token in tokens).strip()
        text = text.strip()
        # thinking or an opening may precede the text
        is_whole = listed.endswith(text) or text.endswith(listed)
        return total if is_whole else None


def _read(token: Mapping[str, Any]) -> _Token | None:
    try:
        return _Token(storable(token["token"] or ""), float(token["logprob"]))
    except _FAULTS:
        return None


def alternatives(token: Mapping[str, Any]) -> dict[str, float]:
    """Return the natural log probability of each alternative for a token, or {} if they can't be
    read."""
    logprobs = {}
    try:
        for alternative in token["top_logprobs"]:
            logprobs[storable(alternative["token"])] = float(alternative["logprob"])
    except _FAULTS:
        return {}
    return {token: logprob for token, logprob in logprobs.items() if not math.isnan(logprob)}


def word_share(logprobs: Mapping[str, float], right: str, wrong: str) -> float | None:
    """Return P(right) / (P(right) + P(wrong)), each summed over the spellings of the word, or None
    if `logprobs` has neither word. `logprobs` has natural log probabilities."""
    masses = {_word(right): 0.0, _word(wrong): 0.0}
    for token, logprob in logprobs.items():
        word = _word(token)
        if word in masses:
            masses[word] += math.exp(min(0.0, logprob))
    total = sum(masses.values())
    if total == 0:
        return None
    return masses[_word(right)] / total


def _word(token: str) -> str:
    return token.strip(" \n\t\"'*_▁Ġ").lower()


def confidence(token: Mapping[str, Any]) -> float | None:
    """Return the confidence of a token, in nats: minus the mean natural log probability of its
    TOP_LOGPROBS likeliest alternatives, or of as many as the server lists (DeepConf, arXiv
    2508.15260). It is high if one alternative has nearly all probability.

    Alternatives without any probability are skipped. The result is None without alternatives."""
    try:
        listed = token["top_logprobs"][:TOP_LOGPROBS]
        logprobs = [float(alternative["logprob"]) for alternative in listed]
    except _FAULTS:
        return None
    possible = [logprob for logprob in logprobs if IMPOSSIBLE < logprob < math.inf]
    if not possible:
        return None
    return max(0.0, round(-fmean(possible), DIGITS))


def ending(sampling: Sampling) -> Ends | None:
    """Return the function that ends a stream below `least_confidence`, or None if that is off. It
    compares the mean of the last group."""
    least = sampling.least_confidence
    group = sampling.group
    if not least or not group:
        return None

    def is_unsure(confidences: Sequence[float]) -> bool:
        return len(confidences) >= group and fmean(confidences[-group:]) < least - NEAR

    return is_unsure
