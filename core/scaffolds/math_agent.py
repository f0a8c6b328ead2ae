"""Math agent: the model plans by tool calls, and other requests to the same model carry them out.

The scaffold of that name in QED-Nano's evaluation (CMU-AIRe/QED-Nano, eval/src/imobench/agents/math_agent.py), with its
tools and numbers: at most CALLS = 15 calls, K = 4 solutions merged or selected at once, 4 approaches. As there, a call
of a tool is one completion, and neither the planner's own requests nor `submit` count among the CALLS. They do count
as completions: at most CALLS + INVALID_CALLS of them, 35 in all with the defaults, and as side calls.

The planner writes its calls as lines (core/scaffolds/tool_calls.py; there they are those of the API). They are carried
out in order, and the planner is shown every solution and report in full, so its last prompts are long. An invalid call
is counted and reported back, and the rest of its reply is left out; a reply that failed or has no call counts as one.
After INVALID_CALLS of them, a standing solution (one that no improvement, merge or selection has superseded) is drawn
at random and submitted by rule, which is noted; without any, one is asked for first. There, such problems stay open.
"""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from core.base import seeds
from core.base.errors import UserError
from core.constants import constant
from core.scaffolds import prompts
from core.scaffolds.common import (
    BAD_ARGUMENTS,
    BY_RULE,
    EMPTY_SUBMISSION,
    FAILED_PLAN,
    NO_APPROACHES,
    NO_CALLS_LEFT,
    notes_on,
)
from core.scaffolds.static_math_agent import BEST, IMPROVE, REPORT, SELECT, Reporting, improve, report, select_one
from core.scaffolds.tool_calls import CALL, TOOLS, InvalidCall, call_lines, read_call
from core.types import Ask, Completion, Member, Message, Population, Problem, Scaffold, Stage, Wording, carried

INVALID_CALLS = 5  # calls in all that can't be carried out, before a solution is submitted by rule
MOST_APPROACHES = 4  # of one call

# What was done is added at its end, so that a server's prefix cache holds all but the newest of it.
_PLAN = """You direct the work on this problem. Don't solve it yourself: tools do the work when you call them.

Problem:
{problem}

These are the tools, each with an example of its argument, a JSON object:
- approaches {{"count": 3}}: suggests that many ways to attack the problem, at most {approaches}
- solve {{}}: writes a new solution; {{"approach": 1}} makes it follow approach 1
- verify {{"solution": 1}}: checks solution 1 and writes a report on it
- improve {{"report": 1}}: rewrites the solution that report 1 is on, as a new solution
- select {{"solutions": [1, 2]}}: says which of 2 to {k} solutions is the best
- merge {{"solutions": [1, 2]}}: writes one new solution out of 2 to {k}
- submit {{"solution": 1}}: gives solution 1 as the final answer and ends the work

Any tool may be wrong, those that verify and select too, and the same call has another outcome each time. So get \
several solutions, verify and improve them, and merge or select before you submit. You may make {calls} calls, and \
submit besides; use them.

What was done so far:
{log}

Calls left: {left}. State your next call, or several in their order, each on a line of its own like this one:
CALL verify {{"solution": 1}}"""
PLAN = Wording(
    answer=_PLAN,
    proof=_PLAN.replace("solution 1 as the final answer", "solution 1, which must be a complete proof, as the result"),
)

APPROACHES = """Problem:
{problem}

Suggest {count} different approaches to this problem, each clear without the others. Name methods and key ideas; don't \
carry them out. Start each on a new line, with "Approach 1:", "Approach 2:" and so on."""

FOLLOW = Wording(
    answer="""{problem}

Solve it by this approach:
{approach}

Reason step by step and put the final answer in \\boxed{{}}.""",
    proof="""{problem}

Prove it by this approach:
{approach}

Write a complete and rigorous proof. Give a reason for every step that is not well known, treat all cases, and prove \
what you claim rather than say that it is clear. Where something is missing in the end, say so.""",
)

APPROACH = "Approach 1:"

_APPROACH = re.compile(r"^[ \t>*_`#]*+Approach[ \t]++\d++[ \t*_`#]*+(?:[:.][ \t*_`]*+|$)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Constants(Reporting):
    CALLS: int = constant(15, "calls of tools that a planner may make; its own requests are not counted", 1, 1000)
    K: int = constant(4, "the most solutions that one merge or selection sees", 1, 1024)
    PLAN_TOKENS: int = constant(8192, "cap of one request of the planner, thinking included", 1, 1_000_000)

    def check(self) -> None:
        if self.K < 2:
            raise UserError("K=1 leaves the planner nothing to select or merge; raise K")


async def math_agent(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
    """After every call the standing solutions, once there are any; at the end the one that is submitted."""
    desk = _Desk(problem, ask, config)
    plans = 0
    while desk.invalid < INVALID_CALLS:
        plan = await ask(desk.prompt(), "plan", plans, max_tokens=config.PLAN_TOKENS, answer_opening=CALL)
        plans += 1
        desk.spent.append(plan)
        desk.notes += [FAILED_PLAN] if plan.error else []
        for line in call_lines(plan.text) or [""]:
            is_carried_out = await desk.call(line)
            if desk.submitted:
                yield Stage("submitted", desk.population([desk.submitted]))
                return
            if desk.standing:
                yield Stage(f"calls of plan {plans}", desk.population(desk.standing))
            if not is_carried_out:
                break
    if not desk.standing:
        await desk.call("solve")
        yield Stage("solved by rule", desk.population(desk.standing))
    desk.notes.append(BY_RULE)
    drawn = seeds.rng(config.SEED, problem.id, "rule").choice(desk.standing)
    yield Stage("drawn by rule", desk.population([int(drawn)]))


def plan(problem: Problem, log: Sequence[str], calls: int, left: int, most: int) -> list[Message]:
    """Messages that ask for the next calls: `left` of `calls` are, and `log` has an entry for each that was made."""
    done = "\n\n".join(log) or "nothing"
    return prompts.request(PLAN, problem, approaches=MOST_APPROACHES, k=most, calls=calls, log=done, left=left)


def read_approaches(text: str) -> list[str]:
    """The approaches of `text`, each begun by a line "Approach 1: …"; those that say nothing are left out."""
    return [approach for part in _APPROACH.split(text)[1:] if (approach := part.strip())]


class _Desk:
    """What the planner has before it. Approaches, solutions and reports are numbered from 1."""

    def __init__(self, problem: Problem, ask: Ask, config: Constants) -> None:
        self.problem, self.ask, self.config = problem, ask, config
        self.made = self.invalid = 0  # calls
        self.submitted: int | None = None  # the solution
        self.approaches: list[str] = []
        self.solutions: list[Completion] = []
        self.origins: list[list[int]] = []  # of each solution: those it was made from
        self.reports: list[tuple[int, str]] = []  # the solution it is on, and what it says
        self.standing: list[int] = []  # solutions that nothing has superseded
        self.shown: list[int] = []  # solutions of the newest population
        self.seen: set[int] = set()  # solutions of any population
        self.spent: list[Completion] = []  # completions that no member holds yet
        self.notes: list[str] = []
        self.log: list[str] = []

    def prompt(self) -> list[Message]:
        """Messages that ask for the next calls."""
        config = self.config
        return plan(self.problem, self.log, config.CALLS, config.CALLS - self.made, config.K)

    def population(self, solutions: list[int]) -> Population:
        """These solutions; what was spent since the last population goes with the newest of them."""
        members = []
        for number in solutions:
            again = number in self.seen
            origins = [number] if again else self.origins[number - 1]
            parents = [self.shown.index(origin) for origin in origins if origin in self.shown]
            members.append(Member(self.solutions[number - 1], parents, carried_over=again))
        members[-1].side_calls, members[-1].notes = self.spent, self.notes
        self.spent, self.notes = [], []
        self.shown = list(solutions)
        self.seen.update(solutions)
        return members

    async def call(self, line: str) -> bool:
        """Carry out one call. If it can't be, note that, also for the planner, and return False."""
        try:
            tool, numbers = read_call(line)
            self._check(tool, numbers)
        except InvalidCall as why:
            self.invalid += 1
            self.notes.append(why.note)
            self.log.append(f"{CALL} {line:.200}\nNot carried out: {why}." if line else f"Nothing: {why}.")
            return False
        if tool == "submit":
            self.submitted = numbers[0]
            return True
        self.made += 1
        outcome = await self._carry_out(tool, numbers, (tool, self.made))
        self.log.append(f"{CALL} {line:.200}\n{outcome}")
        return True

    def _check(self, tool: str, numbers: list[int]) -> None:
        """Raises InvalidCall if no calls are left, or the numbers name what is missing or empty."""
        if tool != "submit" and self.made == self.config.CALLS:
            raise InvalidCall(NO_CALLS_LEFT, "no calls are left; submit a solution")
        name, note = TOOLS[tool], EMPTY_SUBMISSION if tool == "submit" else BAD_ARGUMENTS
        others = {"count": MOST_APPROACHES, "approach": len(self.approaches), "report": len(self.reports)}
        most = others.get(name, len(self.solutions))
        if name == "solutions" and not (len(set(numbers)) == len(numbers) and 2 <= len(numbers) <= self.config.K):
            raise InvalidCall(note, f"{tool} takes 2 to {self.config.K} different solutions")
        for number in numbers:
            if not 1 <= number <= most:
                raise InvalidCall(note, f'"{name}" must be from 1 to {most}' if most else f"there is no {name} yet")
            if name.startswith("solution") and not self._text(number):
                raise InvalidCall(note, f"solution {number} is empty")
            if name == "report" and not self.reports[number - 1][1]:
                raise InvalidCall(note, f"report {number} is empty")
        if tool == "approaches" and self.made == self.config.CALLS - 1 and not self.solutions:
            raise InvalidCall(note, "the last call is kept for a solution")

    def _text(self, number: int) -> str:
        return carried(self.solutions[number - 1], self.config).strip()

    async def _carry_out(self, tool: str, numbers: list[int], names: tuple[str, int]) -> str:
        """What a valid call gives, in words for the planner."""
        problem, ask, config = self.problem, self.ask, self.config
        texts = [self._text(number) for number in numbers] if TOOLS[tool].startswith("solution") else []
        if tool == "approaches":
            messages = prompts.request(APPROACHES, problem, count=numbers[0])
            made = await ask(messages, *names, max_tokens=config.PLAN_TOKENS, answer_opening=APPROACH)
            self.spent.append(made)
            first, found = len(self.approaches) + 1, read_approaches(made.text)[: numbers[0]]
            self.approaches += found
            self.notes += [] if found else [NO_APPROACHES]
            return "\n".join(f"Approach {i}: {text}" for i, text in enumerate(found, first)) or "No approach came back."
        if tool == "verify":
            made, _, notes = await report(problem, ask, config, texts[0], *names)
            self.spent.append(made)
            self.notes += notes
            self.reports.append((numbers[0], made.text.strip()))
            return f"Report {len(self.reports)}, on solution {numbers[0]}:\n{made.text.strip() or '(empty, of no use)'}"
        if tool == "select":
            choice = await select_one(problem, ask, config, texts, *names)
            self.spent += choice.side_calls
            self.notes += choice.notes
            if choice.notes:
                return "The selection could not be read; none was selected."
            best = numbers[choice.winner]
            self.standing = sorted({*self.standing, best} - ({*numbers} - {best}))
            return f"Solution {best} was selected."
        if tool == "merge":
            return self._add(await ask(prompts.aggregate(problem, texts), *names), numbers)
        if tool == "improve":
            number, said = self.reports[numbers[0] - 1]
            return self._add(await ask(improve(problem, self._text(number), said), *names), [number])
        messages = prompts.solve(problem)
        if numbers:
            messages = prompts.request(FOLLOW, problem, approach=self.approaches[numbers[0] - 1])
        return self._add(await ask(messages, *names), [])

    def _add(self, made: Completion, origins: list[int]) -> str:
        """A new solution supersedes those it was made from. An empty one supersedes nothing, and only stands where
        nothing else does."""
        self.solutions.append(made)
        self.origins.append(origins)
        self.notes += notes_on(made, self.config)
        number = len(self.solutions)
        if text := self._text(number):
            self.standing = [i for i in self.standing if i not in origins and self._text(i)] + [number]
            return f"Solution {number}:\n{text}"
        if self.standing:
            self.spent.append(made)
        else:
            self.standing = [number]
        return f"Solution {number} came back empty and is of no use."


MATH_AGENT = Scaffold(
    math_agent,
    constants=Constants,
    prompts=(
        *(prompts.SOLVE, prompts.AGGREGATE, prompts.VERDICT),
        *(PLAN, CALL, APPROACHES, APPROACH, FOLLOW, REPORT, IMPROVE, SELECT, BEST),
    ),
    max_completions=lambda config: 2 * config.CALLS + INVALID_CALLS,  # if each plan makes one call
    texts_shown=lambda config: config.CALLS,  # to the planner
)
