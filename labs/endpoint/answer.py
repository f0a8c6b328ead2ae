"""Answer a chat request by a scaffold. The response is from the last population: the first member
with the most frequent answer, or else the first with a text. Members are exchangeable, so the
choice is fair (arXiv 2509.26626). Scaffolds that select an answer end with a population of one
member."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast
from weakref import WeakSet

from core.base import seeds
from core.constants import Constants
from core.engines import environment
from core.eval import Groups, groups, read_reply
from core.generate import Generator
from core.grading.kinds import kind_of
from core.prompts import sampling_for
from core.types import Completion, Message, Population, Problem, Scaffold
from harness.experiment_file import experiments_by_scaffold, scaffold_named
from labs.endpoint import chat
from labs.endpoint.chat import ChatRequest, Refusal


@dataclass(frozen=True)
class Step:
    """The outcome of one step, which progress calls `stage`. `answers` has the votes for each
    answer, most votes first. `failed`, `truncated` and `unread` count the failed members, the
    truncated members, and the members that lack an answer but did not fail."""

    step: int
    stage: str
    answers: dict[str, int]
    unread: int
    failed: int
    truncated: int

    def line(self) -> str:
        """Describe the step in one line of progress."""
        size = sum(self.answers.values()) + self.unread + self.failed
        parts = []
        if self.answers:
            votes = [f"{answer:.40} ×{count}" for answer, count in self.answers.items()]
            parts.append(f"answers {', '.join(votes)}")
        if self.unread:
            parts.append(f"{self.unread} without an answer")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.truncated:
            parts.append(f"{self.truncated} cut off")
        candidates = "1 candidate" if size == 1 else f"{size} candidates"
        return f"{self.stage}: {candidates}, {'; '.join(parts)}\n"


@dataclass(frozen=True)
class Solved:
    """The outcome of all steps. `voted` groups the answers of the last population. `order` lists
    the members' positions, the best member first. `spent` lists all completions without their
    thinking and final texts."""

    steps: list[Step]
    population: Population
    voted: Groups
    order: list[int]
    spent: list[Completion]

    def content(self, stops: Sequence[str]) -> tuple[str, str]:
        """Return the best member's text up to the first of `stops`, and the finish reason ("stop"
        at such a text)."""
        best = self.population[self.order[0]].completion
        ends = [best.text.find(stop) for stop in stops if stop in best.text]
        if ends:
            return best.text[: min(ends)], "stop"
        return best.text, best.finish_reason or "error"

    def usage(self) -> dict[str, Any] | None:
        """Return OpenAI's usage object, summed over all completions, or None if a completion lacks
        a token count."""
        if any(None in reply.counted for reply in self.spent):
            return None
        prompt = sum(reply.prompt_tokens for reply in self.spent)
        completion = sum(reply.completion_tokens for reply in self.spent)
        cached = sum(reply.cached_tokens for reply in self.spent)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def details(self, config: Constants) -> dict[str, Any]:
        """Return the content of the additional field in a response, which has the scaffold's
        name."""
        best = self.voted.names[self.order[0]]
        return {
            "config": {name: getattr(config, name) for name in chat.of_a_request(type(config))},
            "generations": len(self.spent),
            "reused": sum(reply.reused for reply in self.spent),
            "origins": dict(Counter(reply.origin for reply in self.spent)),
            "steps": [vars(step) for step in self.steps],
            "vote": {
                "answer": best,
                "votes": self.voted.counts.get(best or "", 0),
                "tied": len(self.voted.tied) > 1,
            },
            "population": [
                {
                    "answer": answer,
                    "parents": member.parents,
                    "finish_reason": member.completion.finish_reason,
                    "error": member.completion.error,
                    "key": member.completion.key,
                }
                for member, answer in zip(self.population, self.voted.names, strict=True)
            ],
            "members": self.order,
        }


async def solve(
    asked: ChatRequest, generator: Generator, limit: int, tell: Callable[[str], None]
) -> Solved:
    """Run the scaffold of a request. `tell` receives a line of progress after every step.

    At most `limit` completions of this request are in flight, so that a large population does not
    block other requests. Cancelling this task ends its completions. Raises UserError if the server
    is lost, and Refusal if every solution of a step failed."""
    config, problem = asked.config, asked.problem
    sampling = sampling_for(problem, config)
    steps: list[Step] = []
    spent: list[Completion] = []
    waiting = asyncio.Semaphore(limit)
    tasks: WeakSet[asyncio.Task[Any]] = WeakSet()  # weak, because finished tasks hold texts

    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        tasks.add(cast(asyncio.Task[Any], asyncio.current_task()))
        seed = seeds.derive(config.SEED, problem.id, *names)
        async with waiting:
            reply = await generator(
                [*asked.before, *messages], seed, sampling.with_changes(**changes)
            )
        without_texts = replace(reply, thinking="", answer="", forced=None)
        spent.append(replace(without_texts, logprobs={}, confidences=[]))
        return reply

    run = asked.offer.scaffold.run(problem, ask, config)
    try:
        async with aclosing(run) as populations:  # type: ignore[type-var]
            async for population in populations:
                members = [member.completion for member in population]
                if all(reply.error for reply in members):
                    raise _all_failed(members[0].error or "")
                # comparing answers may take seconds
                voted = await asyncio.to_thread(_voted, problem, members)
                steps.append(_step(len(steps), population, voted, config))
                tell(steps[-1].line())
    finally:  # if one request of asyncio.gather raises, its other requests continue
        await _cancel(task for task in tasks if task is not asyncio.current_task())
    return Solved(steps, population, voted, _best_first(members, voted), spent)


def _step(number: int, population: Population, voted: Groups, config: Constants) -> Step:
    """Return the outcome of a step."""
    replies = [member.completion for member in population]
    failed = len([reply for reply in replies if reply.error is not None])
    truncated = len([reply for reply in replies if reply.truncated])
    unread = voted.names.count(None) - failed
    stage = f"step {number} of {config.T}" if hasattr(config, "T") else f"step {number}"
    stage = getattr(population, "name", stage)
    return Step(number, stage, voted.counts, unread, failed, truncated)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks, and wait until all have ended."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


def _best_first(replies: Sequence[Completion], voted: Groups) -> list[int]:
    """Return the members' positions: by votes, with members that failed or have no text last."""

    def rank(i: int) -> tuple[bool, bool, int]:
        votes = voted.counts.get(voted.names[i] or "", 0)
        return replies[i].error is not None, not replies[i].text, -votes

    # stable: equal members keep their order
    return sorted(range(len(replies)), key=rank)


def _voted(problem: Problem, members: Sequence[Completion]) -> Groups:
    answers = [read_reply(problem, reply).answer for reply in members]
    return groups(answers, kind_of(problem))


def _all_failed(error: str) -> Refusal:
    if error.startswith("context overflow"):
        return Refusal(
            f"the messages or the candidates are too long ({error})",
            "messages",
            "context_length_exceeded",
        )
    return Refusal(
        f"every solution of a step failed. The first error: {error}",
        code="upstream_failed",
        status=502,
    )


def named(words: Sequence[str]) -> str:
    """Return the scaffold that the last SCAFFOLD=… in `words` names, by itself or by its
    experiment, or ""."""
    given = ""
    for word in words:
        if word.startswith("SCAFFOLD="):
            given = word.removeprefix("SCAFFOLD=")
    by_experiment = {experiment: name for name, experiment in experiments_by_scaffold().items()}
    return by_experiment.get(given, given)


def planned(words: Sequence[str]) -> tuple[str, Scaffold[Any], list[str]]:
    """Return the name, the scaffold and the constants of a request, so that plan.sh can plan it.
    `words` are the arguments of plan.sh after serve_rsa. The scaffold is RSA unless SCAFFOLD=…
    names another."""
    scaffold = scaffold_named(named(words) or "rsa")
    of_card = environment.card().constants_of(scaffold.constants)
    given = [f"{name}={value}" for name, value in of_card.items() if name != "SCAFFOLD"]
    return "a request to serve_rsa", scaffold, [*given, *words]
