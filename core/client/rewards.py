"""Ask a reward model for the score of a solution, or of each of its steps.

vLLM's endpoint takes the messages of a chat. SGLang's endpoint takes tokens, and another one
renders the messages. A process reward model scores marks in the text, such as <extra_0>. Its card
has the mark (step_mark), which follows each step. Otherwise, there is one score of the whole
text. A chat model may score steps too (step_verdicts.py).

A score of two numbers has the probability (or the logit) of a wrong step or solution, and then of a
right one. A single number is taken as it is."""

import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from core.base.errors import UserError
from core.client.failures import UNKNOWN_MODEL, NoScore, Refused, parsed_json
from core.client.reply import Reply
from core.client.request import Request
from core.engines import queries
from core.engines.protocol import KWARGS, Rewards, Server
from core.types import Completion, Message, Messages

if TYPE_CHECKING:
    from core.client.retry import RetryingClient

REMEDY = (
    "Give the scorer's card the step_mark of its model, and let the server score only these marks "
    "(docs/engines.md)"
)


@dataclass(frozen=True)
class Marked:
    """The messages of a request, with the number of marked steps in the last one (0: no marks)."""

    messages: list[Message]
    steps: int = 0


def marked(messages: Messages, between: str, mark: str) -> Marked:
    """Put the `mark` after each step of the last message. The text `between` separates the steps.
    Spaces replace marks that the steps contain themselves. Without a mark, nothing changes."""
    if not mark:
        return Marked(list(messages))
    *before, last = messages
    steps = steps_of(last["content"], between, mark)
    content = "".join(f"{step}{mark}" for step in steps)
    return Marked([*before, last | {"content": content}], len(steps))


def steps_of(text: str, between: str, mark: str = "") -> list[str]:
    """Return the steps of a solution, which the text `between` separates, without empty ones.
    Spaces replace a `mark` in them."""
    parts = text.split(between)
    if mark:
        parts = [part.replace(mark, " ") for part in parts]
    stripped = [part.strip() for part in parts]
    return [part for part in stripped if part]


async def score(client: "RetryingClient", request: Request) -> Completion:
    """Return the completion with the scores of the last message. Raises Failure, or UserError to
    end the run."""
    server = client.server
    sent = marked(request.messages, request.sampling.reward, server.card.step_mark)
    max_cost = request.reservation.max_cost(sent.messages, 0)
    post = partial(client.http.score, steps=sent.steps)
    try:
        reply = await client.send(
            body(server, sent.messages), request.reservation, max_cost, post=post
        )
    except Refused as refusal:
        if refusal.status != UNKNOWN_MODEL or "model" in str(refusal).lower():
            raise
        raise UserError(
            f"the server at {server.base_url} scores no texts ({refusal}). Serve a reward model "
            "there (vllm serve MODEL --runner pooling), or set another SCORE"
        ) from None
    return scored(reply, request.seed)


def scored(reply: Reply, seed: int) -> Completion:
    """Return the completion with the scores of a `reply`, without its key."""
    return Completion(
        "",
        seed,
        finish_reason=reply.finish_reason,
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        completion_tokens=reply.completion_tokens,
        scores=reply.scores,
        model=reply.model,
    )


def body(server: Server, messages: Messages) -> dict[str, Any]:
    """Return the body of a request for the scores of the last message."""
    fields: dict[str, Any] = {
        "model": server.model,
        "messages": list(messages),
        "add_generation_prompt": False,
    }
    if server.card.template:
        fields[KWARGS] = dict(server.card.template)
    return fields | dict(server.card.send)


# Read a response


async def page(parts: AsyncIterator[bytes]) -> dict[str, Any]:
    """Read a JSON object, or the only one in a list. Raises NoScore."""
    data = b"".join([part async for part in parts])
    value = parsed_json(data.decode("utf-8", "replace"))
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise NoScore(f"no JSON object: {data[:80]!r}")
    return value


def tokens_in(page: Mapping[str, Any]) -> list[int]:
    """Return the tokens of a rendered prompt. Raises NoScore."""
    tokens = page.get("tokens")
    if not isinstance(tokens, list) or not tokens:
        raise NoScore(f"no tokens of the prompt: {page!r:.80}")
    return tokens


def reply_of(page: Mapping[str, Any], steps: int, endpoint: Rewards) -> Reply:
    """Return the reply with a score for each of `steps`, or (0) for the whole solution. Raises
    NoScore if the response has other scores."""
    values = _values_in(page)
    are_rows = bool(values) and isinstance(values[0], list)
    rows = values if are_rows else [values]
    if steps and (not are_rows or len(rows) != steps):
        count = len(rows) if are_rows else "no"
        raise NoScore(f"{count} scores of steps for {steps} steps. {REMEDY}")
    if not steps:
        rows = rows[-1:]  # a score for each token, of which the last one has seen the whole text
    scores = [_score(row, endpoint.gives_logits) for row in rows]
    prompt_tokens, cached_tokens = _counts_in(page)
    return Reply(
        model=queries.line(page.get("model")) or "",
        content="",
        reasoning="",
        finish_reason="stop",
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        completion_tokens=0,
        logprobs={},
        scores=scores,
    )


def _values_in(page: Mapping[str, Any]) -> list[Any]:
    """Return the numbers of a response, or its rows of numbers. Raises NoScore."""
    values = page.get("embedding")  # SGLang's
    entries = queries.objects(page, "data")
    if values is None and len(entries) == 1:
        values = entries[0].get("data")  # vLLM's
    if not isinstance(values, list):
        raise NoScore(f"no scores: {page!r:.120}")
    if not values:
        raise NoScore(f"no scores. {REMEDY}")
    return values


def _score(row: Any, are_logits: bool) -> float:
    """Return the score in a row of one number, or of two numbers (wrong, right). Raises
    NoScore."""
    if not isinstance(row, list) or not 1 <= len(row) <= 2:
        raise NoScore(f"a score must be one or two numbers, not {row!r:.80}")
    numbers = [_number(value) for value in row]
    if len(numbers) == 1:
        return numbers[0]
    wrong, right = numbers
    if are_logits:
        return 1 / (1 + math.exp(min(700.0, wrong - right)))
    if not 0 <= right <= 1:
        raise NoScore(f"{right:g} is no probability. Let the server apply the softmax")
    return right


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise NoScore(f"a score is no number: {value!r:.80}")
    return float(value)


def _counts_in(page: Mapping[str, Any]) -> tuple[int, int]:
    """Return the prompt tokens, and the cached ones among them. Each is 0 if not reported."""
    usage = page.get("usage")
    if not isinstance(usage, dict):
        usage = page.get("meta_info")  # SGLang's
    if not isinstance(usage, dict):
        return 0, 0
    prompt = queries.count(usage.get("prompt_tokens")) or 0
    return prompt, queries.count(usage.get("cached_tokens")) or 0
