"""Answers at temperature 0, to compare servers of one model."""

from typing import Any

import openai

from core.engines.server import Server
from core.problems import sets
from core.scaffolds import prompts


def greedy(server: Server, count: int) -> list[tuple[str | None, str]]:
    """Return answers at temperature 0 to `count` problems, and to an aggregation of the first three answers."""
    client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)

    def ask(messages: list[Any]) -> tuple[str | None, str]:
        reply = client.chat.completions.create(model=server.model, messages=messages, temperature=0, max_tokens=600)
        message = reply.choices[0].message
        return message.content, getattr(message, "reasoning_content", "")

    chosen = sets.load("sums").problems[:count]
    answers = [ask(prompts.solve(problem)) for problem in chosen]
    return [*answers, ask(prompts.aggregate(chosen[0], [str(answer) for answer, _ in answers[:3]]))]
