"""Define STaR's two scaffolds: one collects traces, the other evaluates. Both write ordinary
results files.

The first scaffold samples a problem up to TRIES times, until a sample is kept. If none is kept,
RATIONALISE=1 samples once more, with the reference answer in the prompt. FILTER=0 samples once.
Evaluation never shows an answer."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from core.eval import by_answer
from core.grading.final import says_nothing
from core.grading.kinds import kind_of
from core.rsa import SampleConstants
from core.types import (
    Ask,
    Completion,
    Grade,
    Member,
    NamedPopulation,
    Population,
    Problem,
    Scaffold,
)
from harness.results.proof_points import undelivered
from labs.star import prompts
from labs.star.check import Checked, check, check_places, required
from labs.star.constants import StarConstants
from labs.star.hints import is_copied, is_stated_first, on_last_line, states_another
from labs.star.record import AGGREGATED, FIRST, RATIONALISED, RETRY, Way
from labs.star.sound import false_equations

# Chat tags of Qwen, Llama, DeepSeek and Gemma, such as the end of a turn. A sample that contains
# one is dropped.
_TAGS = re.compile(
    r"<[|｜][^<>|｜\n]{1,40}[|｜]>|</?(?:s|think|tools?|tool_\w{1,20}|(?:start|end)_of_turn)>"
    r"|\[/?INST\]"
)


@dataclass(frozen=True)
class Sample:
    """A judged completion of a problem."""

    problem: Problem
    way: Way
    completion: Completion  # cut by `ended`
    dropped: str  # the reason to drop it, or "" if it is kept
    steps: int  # non-empty lines before the answer
    false: tuple[str, ...]  # its false equations
    malformed: bool  # True if it is right, but was dropped for its form (only with FILTER=1)


def ended(completion: Completion, config: StarConstants) -> Completion:
    """Cut a completion after its first complete `Final:` line, if the prompt asked for such a line.
    Failed and filtered completions are not cut. A stop sequence can't match the line's end, and
    would change the journal's keys."""
    if config.takes_box or completion.error or completion.filtered:
        return completion
    lines = (line for line in required(completion.text) if not says_nothing(line.value))
    first = next(lines, None)
    if first is None or (completion.truncated and first.end == len(completion.text)):
        return completion
    return replace(
        completion, answer=completion.text[: first.end], forced=None, finish_reason="stop"
    )


def formed(completion: Completion, config: StarConstants, problem: Problem) -> Checked:
    """Check the form of a completion that was cut by `ended`. A chat tag is an error of form, also
    in thinking."""
    text = completion.text
    places = kind_of(problem).places(text)
    if places is None:
        checked = check(text, config.MIN_STEPS, config.MAX_STEPS, config.takes_box, config.ANSWER)
    else:
        checked = check_places(text, config.MIN_STEPS, config.MAX_STEPS, places)
    tags = _TAGS.search(f"{completion.thinking}\n{completion.text}")
    return replace(checked, reason="chat tags") if tags else checked


async def judged(
    problem: Problem, completion: Completion, way: Way, ask: Ask, config: StarConstants
) -> Sample:
    """Judge whether a completion is good enough to train on. The sample gets the first reason to
    drop it, if any."""
    completion = ended(completion, config)
    whole = f"{completion.thinking}\n{completion.text}"
    form, false = await asyncio.to_thread(
        lambda: (formed(completion, config, problem), tuple(false_equations(whole)))
    )
    why, malformed = undelivered(completion) or "", False
    if not why and config.FILTER:
        why = await _not_right(problem, completion, ask, form.reason)
        malformed = bool(not why and form.reason)
    why = why or form.reason
    if not why and way == RATIONALISED:
        why = await asyncio.to_thread(_betrays, problem, completion)
    if not why and way == AGGREGATED and is_copied(on_last_line(whole, problem), problem):
        why = "answer first"
    if not why and config.SOUND and false:
        why = "false equation"
    return Sample(problem, way, completion, why, form.steps, false, malformed)


async def _not_right(problem: Problem, completion: Completion, ask: Ask, form: str) -> str:
    grade: Grade = (await by_answer(problem, [Member(completion)], ask)).grades[0]
    if grade.is_undecided:
        return "undecided"
    if grade.answer is None:
        # a missing answer is an error of form if the guard found such an error
        return form or "wrong"
    return "" if grade.value == 1 else "wrong"


def _betrays(problem: Problem, completion: Completion) -> str:
    whole = on_last_line(f"{completion.thinking}\n{completion.text}", problem)
    if is_stated_first(whole, problem.answer or "", problem.statement):
        return "answer first"
    return "another value" if states_another(whole, problem) else ""


def collecting(number: int, samples: dict[str, list[Sample]]) -> Scaffold[StarConstants]:
    """Return a scaffold that collects samples in round `number`, and adds them to `samples` by the
    problem's id."""

    async def run(problem: Problem, ask: Ask, config: StarConstants) -> AsyncIterator[Population]:
        found = samples[problem.id] = []
        messages = prompts.collecting(problem, config)
        for place in range(config.TRIES if config.FILTER else 1):
            completion = await ask(messages, number, place)
            found.append(await judged(problem, completion, RETRY if place else FIRST, ask, config))
            yield NamedPopulation(f"try {place + 1}", [_member(completion, found[-1])])
            if not found[-1].dropped:
                return
        if config.RATIONALISE and config.FILTER and problem.answer:
            hinted = prompts.collecting(problem, config, problem.answer)
            completion = await ask(hinted, RATIONALISED, number)
            found.append(await judged(problem, completion, RATIONALISED, ask, config))
            yield NamedPopulation(RATIONALISED, [_member(completion, found[-1])])

    def most(config: StarConstants) -> int:
        return config.TRIES + config.RATIONALISE if config.FILTER else 1

    return Scaffold(run, most, lambda _: 0, (prompts.FORMAT, prompts.HINT), StarConstants)


def _member(completion: Completion, sample: Sample) -> Member:
    notes = (
        ["cut off after the Final: line"]
        if len(sample.completion.text) < len(completion.text.rstrip())
        else []
    )
    return Member(
        completion, notes=notes + ([f"dropped: {sample.dropped}"] if sample.dropped else [])
    )


def answering(
    star: StarConstants, completions: dict[str, list[Completion]]
) -> Scaffold[SampleConstants]:
    """Return a scaffold that draws N samples of a problem, for the evaluation of a run with the
    constants `star`. It adds them to `completions` by the problem's id."""

    async def run(problem: Problem, ask: Ask, config: SampleConstants) -> AsyncIterator[Population]:
        messages = prompts.asked(problem, star)
        replies = await asyncio.gather(*(ask(messages, 0, i) for i in range(config.N)))
        completions.setdefault(problem.id, []).extend(replies)
        yield [Member(each) for each in replies]

    return Scaffold(run, lambda config: config.N, lambda _: 0, (prompts.FORMAT,), SampleConstants)


def output(completion: Completion) -> str:
    """Return the text to train on: the thinking, if any, in <think> tags, and then the text after
    thinking."""
    thinking, text = completion.thinking.strip(), completion.text.strip()
    return f"<think>\n{thinking}\n</think>\n\n{text}" if thinking else text
