"""Score the steps of a solution by a chat model that answers each step with one of two words.

RLHFlow's process reward models do so. Each step is a turn of the user, and the problem precedes the
first step. The assistant answers with the word for a right step ("+") or for a wrong one ("-"),
which the server's card names (step_verdicts). A step's score is P(right) / (P(right) + P(wrong)) of
this answer. Earlier steps have the answer for a right step, as in RLHFlow's own evaluation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from core.client import rewards
from core.client.failures import NoScore
from core.client.logprobs import ONE_TOKEN, word_share
from core.client.reply import Reply
from core.client.request import Request, chat_body
from core.types import Completion, Message, Messages

if TYPE_CHECKING:
    from core.client.retry import RetryingClient

REMEDY = (
    "Give the scorer's card the step_verdicts of its model, and choose a server that lists log "
    "probabilities (docs/engines.md)"
)


def conversations(messages: Messages, between: str, right: str) -> list[list[Message]]:
    """Return the conversation about each step of the last message, the solution. The problem is
    the message before it. The text `between` separates steps. A solution without steps counts as an
    empty one."""
    *before, problem, solution = messages
    steps = rewards.steps_of(solution["content"], between) or [""]
    steps[0] = f"{problem['content']} {steps[0]}"
    turns = list(before)
    asked = []
    for step in steps:
        turns.append({"role": "user", "content": step})
        asked.append(list(turns))
        turns.append({"role": "assistant", "content": right})
    return asked


async def score(client: "RetryingClient", request: Request) -> Completion:
    """Return the completion with the scores of the steps in the last message. Each step is a
    request. They are sent one after the other, because each prompt begins with the one before,
    which the server then has in its cache. Raises Failure, or UserError to end the run."""
    right, _ = client.server.card.step_verdicts
    replies = []
    for turns in conversations(request.messages, request.sampling.reward, right):
        of_step = replace(request, messages=turns).with_sampling(reward="", **ONE_TOKEN)
        replies.append(await _reply(client, of_step))
    return rewards.scored(_joined(replies), request.seed)


async def _reply(client: "RetryingClient", request: Request) -> Reply:
    """Return the reply about the last step, with its score. Raises Failure."""
    right, wrong = client.server.card.step_verdicts

    async def post(body: dict[str, Any], patience: float, seconds: float) -> Reply:
        reply = await client.http.send(body, patience, seconds)
        share = word_share(reply.logprobs, right, wrong)
        if share is None:
            raise NoScore(f"no probability of {right!r} or {wrong!r}. {REMEDY}")
        return replace(reply, scores=[share])

    body = chat_body(client.server, request)
    max_cost = request.reservation.max_cost(request.messages, request.sampling.max_tokens)
    return await client.send(body, request.reservation, max_cost, post=post)


def _joined(replies: Sequence[Reply]) -> Reply:
    """Return the replies about all steps as one, with their tokens together."""
    return replace(
        replies[-1],
        finish_reason="stop",
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        cached_tokens=sum(reply.cached_tokens for reply in replies),
        completion_tokens=sum(reply.completion_tokens for reply in replies),
        scores=[score for reply in replies for score in reply.scores],
    )
