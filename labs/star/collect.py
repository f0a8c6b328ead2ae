"""What a round asks a model: to collect traces, and to be evaluated. Both are scaffolds, so that their results, their
journal and their page are those of any run.

Collecting samples a problem until one sample is right and well-formed; where none is, one more is shown the right
answer (rationalised). What is asked in evaluating is never shown anything.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from core.grading.answers import by_answer
from core.grading.final import final_lines, says_nothing
from core.scaffolds.rsa import SampleConstants
from core.types import Ask, Completion, Grade, Member, Population, Problem, Scaffold, Stage
from labs.star import prompts
from labs.star.check import Checked, check
from labs.star.constants import StarConstants
from labs.star.hints import is_stated_first, states_another
from labs.star.record import FIRST, RATIONALISED, RETRY, Way
from labs.star.sound import false_equations

# Why a sample is dropped, beside the reasons of the format guard (labs/star/check.py).
REASONS = {
    "failed": "the request failed",
    "cut off": "the token cap cut it off",
    "filtered": "a filter of the server's ended it",
    "empty": "the server sent no text",
    "chat tags": "it holds tags of a chat template, which would end a turn in training",
    "wrong": "its answer is wrong",
    "undecided": "nobody could say in time whether its answer is right",
    "answer first": "it states the answer before any step has it",
    "another value": "it states another final value besides",
    "false equation": "an equation in it is false (SOUND=1)",
}
# Tags of the chat templates of Qwen, Llama, DeepSeek and Gemma. Training reads others as text: labs/training/encode.py
_TAGS = re.compile(
    r"<[|｜][^<>|｜\n]{1,40}[|｜]>|</?(?:s|think|tools?|tool_\w{1,20}|(?:start|end)_of_turn)>|\[/?INST\]"
)


@dataclass(frozen=True)
class Sample:
    """A completion of a problem, cut by `ended`, and why it was `dropped` ("": it is kept). `steps`: lines before the
    answer; `false`: its false equations; `malformed`: whether it is right, and was dropped for its form alone."""

    problem: Problem
    way: Way
    completion: Completion
    dropped: str
    steps: int
    false: tuple[str, ...]
    malformed: bool


def ended(made: Completion, config: StarConstants) -> Completion:
    """Cut all behind the first complete `Final:` line, if the prompt asked for one. A stop sequence would save the
    tokens, but can't name the end of such a line, and would change the keys of the journal."""
    if config.takes_box or made.error or made.filtered:
        return made
    lines = (line for line in final_lines(made.text) if not says_nothing(line.value))
    first = next(lines, None)
    if first is None or (made.truncated and first.end == len(made.text)):
        return made
    return replace(made, answer=made.text[: first.end], forced=None, finish_reason="stop")


def formed(made: Completion, config: StarConstants) -> Checked:
    """Check the form of a completion that is cut."""
    return check(made.text, config.MIN_STEPS, config.MAX_STEPS, config.takes_box)


def incomplete(made: Completion) -> str:
    """Why a completion is no whole one; "" where it is."""
    silence = {
        "failed": made.error,
        "cut off": made.truncated,
        "filtered": made.filtered,
        "empty": not made.text.strip(),
    }
    return next((why for why, holds in silence.items() if holds), "")


async def judged(problem: Problem, made: Completion, way: Way, ask: Ask, config: StarConstants) -> Sample:
    """Judge whether a completion can be trained on. The first reason against it counts, the plainest first."""
    made = ended(made, config)
    whole = f"{made.thinking}\n{made.text}"
    form, false = await asyncio.to_thread(lambda: (formed(made, config), tuple(false_equations(whole))))
    why, malformed = incomplete(made) or ("chat tags" if _TAGS.search(whole) else ""), False
    if not why and config.FILTER:
        why = await _not_right(problem, made, ask, form.reason)
        malformed = bool(not why and form.reason)
    why = why or form.reason
    if not why and way == RATIONALISED:
        why = await asyncio.to_thread(_betrays, problem, made)
    if not why and config.SOUND and false:
        why = "false equation"
    return Sample(problem, way, made, why, form.steps, false, malformed)


async def _not_right(problem: Problem, made: Completion, ask: Ask, form: str) -> str:
    grade: Grade = (await by_answer(problem, [Member(made)], ask)).grades[0]
    if grade.is_undecided:
        return "undecided"
    if grade.answer is None:
        return form or "wrong"  # what can't be read is a matter of form
    return "" if grade.value == 1 else "wrong"


def _betrays(problem: Problem, made: Completion) -> str:
    whole = f"{made.thinking}\n{made.text}"
    if is_stated_first(whole, problem.answer or "", problem.statement):
        return "answer first"
    return "another value" if states_another(whole, problem) else ""


@dataclass
class Collecting:
    """The scaffold of round `number`; what it saw stays in `samples`, by problem."""

    number: int
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    async def run(self, problem: Problem, ask: Ask, config: StarConstants) -> AsyncIterator[Population]:
        found = self.samples[problem.id] = []
        form = (config.FEWSHOT, config.MIN_STEPS, config.MAX_STEPS)
        messages = prompts.collecting(problem, *form)
        for place in range(config.TRIES if config.FILTER else 1):
            completion = await ask(messages, self.number, place)
            found.append(await judged(problem, completion, RETRY if place else FIRST, ask, config))
            yield Stage(f"try {place + 1}", [_member(completion, found[-1])])
            if not found[-1].dropped:
                return
        if config.RATIONALISE and config.FILTER:
            hinted = prompts.collecting(problem, *form, hint=problem.answer)
            completion = await ask(hinted, RATIONALISED, self.number)
            found.append(await judged(problem, completion, RATIONALISED, ask, config))
            yield Stage(RATIONALISED, [_member(completion, found[-1])])

    @property
    def scaffold(self) -> Scaffold[StarConstants]:
        return Scaffold(
            self.run,
            lambda config: config.TRIES + config.RATIONALISE if config.FILTER else 1,
            lambda _: 0,
            (prompts.FORMAT, prompts.HINT),
            StarConstants,
        )


def _member(made: Completion, sample: Sample) -> Member:
    """The member of a `sample`, with the whole completion that was `made`."""
    notes = ["cut behind its Final: line"] if len(sample.completion.text) < len(made.text.rstrip()) else []
    return Member(made, notes=notes + ([f"dropped: {sample.dropped}"] if sample.dropped else []))


@dataclass
class Answering:
    """The scaffold of evaluating: N samples of a problem, as `config`'s FEWSHOT asks for them; what it saw stays in
    `completions`, by problem."""

    config: StarConstants
    completions: dict[str, list[Completion]] = field(default_factory=dict)

    async def run(self, problem: Problem, ask: Ask, config: SampleConstants) -> AsyncIterator[Population]:
        messages = prompts.asked(problem, self.config.FEWSHOT, self.config.MIN_STEPS, self.config.MAX_STEPS)
        made = await asyncio.gather(*(ask(messages, 0, i) for i in range(config.N)))
        self.completions.setdefault(problem.id, []).extend(made)
        yield [Member(each) for each in made]

    @property
    def scaffold(self) -> Scaffold[SampleConstants]:
        return Scaffold(self.run, lambda config: config.N, lambda _: 0, (prompts.FORMAT,), SampleConstants)


def output(made: Completion) -> str:
    """What a trace teaches to write: the thinking in its tags, where there is any, and the answer behind it."""
    thinking, text = made.thinking.strip(), made.text.strip()
    return f"<think>\n{thinking}\n</think>\n\n{text}" if thinking else text
