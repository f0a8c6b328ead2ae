"""Math agent: the model plans tool calls, and other requests to the same model execute the calls.

The method, its tools and its numbers are from QED-Nano's evaluation (CMU-AIRe/QED-Nano,
eval/src/imobench/agents/math_agent.py). Each of up to CALLS tool calls takes one completion, and
`submit` takes none.

A tool call is a line with CALL, a tool's name, and a JSON object with one argument: `CALL improve
{"report": 1}`. The server needs no support for tools. If a call is invalid, the planner sees the
reason, and the rest of its reply is skipped. A reply without a call counts as an invalid call.
After INVALID_CALLS invalid calls, a random current solution is submitted. A solution is current
until it is improved or merged, or loses a selection. If no solution is current, one is requested
first. In QED-Nano's code, a problem without a submission gets no answer."""

import re
from collections.abc import Sequence
from dataclasses import replace

from core import prompts
from core.base import seeds
from core.constants import constant
from core.prompts import worded
from core.types import (
    Ask,
    Completion,
    Member,
    Message,
    NamedPopulation,
    Population,
    Populations,
    Problem,
    Scaffold,
)
from harness.scaffolds import common
from harness.scaffolds.static_math_agent import (
    BEST,
    IMPROVE,
    REPORT,
    SELECT,
    Reporting,
    report,
    select,
)
from harness.scaffolds.tool_calls import BAD, CALL, TOOLS, InvalidCall, call_lines, read_call

INVALID_CALLS = 5  # number of invalid calls after which a random current solution is submitted
MAX_APPROACHES = 4  # largest number of approaches from one call

# The log comes last, so that a server's prefix cache covers all but its newest entry.
PLAN = worded("""You direct the work on this problem. Don't solve it yourself: tools do the work \
when you call them.

Problem:
{problem}

These are the tools, each with an example of its argument, a JSON object:
- approaches {{"count": 3}}: suggests that many ways to attack the problem, at most {approaches}
- solve {{}}: writes a new solution; {{"approach": 1}} makes it follow approach 1
- verify {{"solution": 1}}: checks solution 1 and writes a report on it
- improve {{"report": 1}}: rewrites the solution that report 1 is on, as a new solution
- select {{"solutions": [1, 2]}}: says which of 2 to {k} solutions is the best
- merge {{"solutions": [1, 2]}}: writes one new solution out of 2 to {k}
- submit {{"solution": 1}}: gives solution 1<|, which must be a complete proof,> as the <final \
answer|result> and ends the work

Any tool may be wrong, those that verify and select too, and the same call has another outcome \
each time. So get several solutions, verify and improve them, and merge or select before you \
submit. You may make {calls} calls, and submit besides; use them.

What was done so far:
{log}

Calls left: {left}. State your next call, or several in their order, each on a line of its own \
like this one:
CALL verify {{"solution": 1}}""")

APPROACHES = """Problem:
{problem}

Suggest {count} different approaches to this problem, each clear without the others. Name methods \
and key ideas; don't carry them out. Start each on a new line, with "Approach 1:", "Approach 2:" \
and so on."""

FOLLOW = worded("""{problem}

<Solve|Prove> it by this approach:
{approach}

<Reason step by step and {form}|Write a complete and rigorous proof. Give a reason for every step \
that is not well known, treat all cases, and prove what you claim rather than say that it is \
clear. Where something is missing in the end, say so.>""")

APPROACH = "Approach 1:"

_APPROACH = re.compile(
    r"^[ \t>*_`#]*+Approach[ \t]++\d++[ \t*_`#]*+(?:[:.][ \t*_`]*+|$)", re.MULTILINE | re.IGNORECASE
)


class Constants(Reporting):
    CALLS: int = constant(
        15, "largest number of tool calls, not counting submit and the planner's requests", 1, 1000
    )
    K: int = constant(4, "largest number of solutions that one merge or selection sees", 2, 1024)
    PLAN_TOKENS: int = constant(
        8192, "token cap of one plan or list of approaches, thinking included", 1, 1_000_000
    )


async def math_agent(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Let the model plan its tool calls and submit a solution. After too many invalid calls, submit
    one at random.

    Yields:
        The current solutions after each call, if there are any, and at the end the submitted
        solution."""
    desk = _Desk(problem, ask, config)
    plans = 0
    while desk.invalid < INVALID_CALLS:
        calls_left = config.CALLS - desk.calls
        messages = plan(problem, desk.log, config.CALLS, calls_left, config.K)
        reply = await ask(
            messages, "plan", plans, max_tokens=config.PLAN_TOKENS, answer_opening=CALL
        )
        plans += 1
        desk.spent.append(reply)
        if reply.error:
            desk.notes.append("failed plan")
        for line in call_lines(reply.text) or [""]:
            is_valid = await desk.call(line)
            if desk.submitted:
                yield NamedPopulation("submitted", desk.population(desk.submitted))
                return
            if desk.current:
                yield NamedPopulation(f"calls of plan {plans}", desk.population(desk.current))
            if not is_valid:
                break
    if not desk.current:
        await desk.call("solve")
        yield NamedPopulation("solved by rule", desk.population(desk.current))
    desk.notes.append("submitted by rule")
    drawn = seeds.rng(config.SEED, problem.id, "rule").choice(desk.current)
    yield NamedPopulation("drawn by rule", desk.population([int(drawn)]))


def plan(
    problem: Problem, log: Sequence[str], calls: int, calls_left: int, max_solutions: int
) -> list[Message]:
    """Build a request for the next calls. `log` has an entry for each call so far. `calls_left` of
    `calls` calls remain. A merge or selection takes at most `max_solutions`."""
    entries = "\n\n".join(log) or "nothing"
    return prompts.request(
        PLAN,
        problem,
        approaches=MAX_APPROACHES,
        k=max_solutions,
        calls=calls,
        log=entries,
        left=calls_left,
    )


def read_approaches(text: str) -> list[str]:
    """Return the approaches in `text`, which begin with "Approach 1:" and so on. Skips empty
    approaches."""
    approaches = [part.strip() for part in _APPROACH.split(text)[1:]]
    return [approach for approach in approaches if approach]


class _Desk:
    """The planner's state for one problem. Approaches, solutions and reports have numbers from
    1."""

    def __init__(self, problem: Problem, ask: Ask, config: Constants) -> None:
        self.problem = problem
        self.ask = ask
        self.config = config
        self.calls = 0
        self.invalid = 0
        self.submitted: list[int] = []  # the number of the submitted solution, if any
        self.approaches: list[str] = []
        self.solutions: list[Member] = []  # their parents are numbers of solutions
        self.reports: list[tuple[int, str]] = []  # solution's number, and text of the report
        # solutions that are not improved, merged or passed over in a selection
        self.current: list[int] = []
        self.newest: list[int] = []  # solutions in the newest population
        self.spent: list[Completion] = []  # completions that belong to no member yet
        self.notes: list[str] = []
        self.log: list[str] = []

    def population(self, solutions: list[int]) -> Population:
        """Return these solutions as members. The last one gets the notes and side calls since the
        last population."""
        members: list[Member] = []
        for number in solutions:
            member = self.solutions[number - 1]
            origins = [origin for origin in member.parents if origin in self.newest]
            parents = [self.newest.index(origin) for origin in origins]
            members.append(replace(member, parents=parents, notes=[]))
            self.solutions[number - 1] = common.again(member, number)
        members[-1].side_calls = self.spent
        members[-1].notes = self.notes
        self.spent = []
        self.notes = []
        self.newest = solutions
        return members

    async def call(self, line: str) -> bool:
        """Execute one call and return True. If the call is invalid, log the reason for the planner
        and return False."""
        try:
            tool, numbers = read_call(line)
            self._check(tool, numbers)
        except InvalidCall as error:
            note, reason = error.args
            self.invalid += 1
            self.notes.append(note)
            if line:
                self.log.append(f"{CALL} {line:.200}\nNot carried out: {reason}.")
            else:
                self.log.append(f"Nothing: {reason}.")
            return False
        if tool == "submit":
            self.submitted = numbers
            return True
        self.calls += 1
        outcome = await self._outcome(tool, numbers, (tool, self.calls))
        self.log.append(f"{CALL} {line:.200}\n{outcome}")
        return True

    def _check(self, tool: str, numbers: list[int]) -> None:
        """Raise InvalidCall for bad or too many numbers, an empty solution or report, or a call
        beyond CALLS."""
        calls_left = self.config.CALLS - self.calls
        if tool != "submit" and not calls_left:
            raise InvalidCall("tool call beyond the last", "no calls are left; submit a solution")
        name = TOOLS[tool]
        note = "empty submission" if tool == "submit" else BAD
        if name == "solutions":
            are_different = len(set(numbers)) == len(numbers)
            if not are_different or not 2 <= len(numbers) <= self.config.K:
                raise InvalidCall(note, f"{tool} takes 2 to {self.config.K} different solutions")
        for number in numbers:
            self._check_number(name, number, note)
        if tool == "approaches" and calls_left == 1 and not self.solutions:
            raise InvalidCall(note, "the last call is kept for a solution")

    def _check_number(self, name: str, number: int, note: str) -> None:
        """Raise InvalidCall if the argument `name` of a tool can't be this `number`."""
        limits = {
            "count": MAX_APPROACHES,
            "approach": len(self.approaches),
            "report": len(self.reports),
        }
        limit = limits.get(name, len(self.solutions))
        if not limit:
            raise InvalidCall(note, f"there is no {name} yet")
        if not 1 <= number <= limit:
            raise InvalidCall(note, f'"{name}" must be from 1 to {limit}')
        if name.startswith("solution") and not self._text(number):
            raise InvalidCall(note, f"solution {number} is empty")
        if name == "report" and not self.reports[number - 1][1]:
            raise InvalidCall(note, f"report {number} is empty")

    def _text(self, number: int) -> str:
        return common.text_of(self.solutions[number - 1].completion, self.config)

    async def _outcome(self, tool: str, numbers: list[int], names: tuple[str, int]) -> str:
        """Execute a valid call, and return a description of its outcome for the planner."""
        if tool == "approaches":
            return await self._suggest(numbers[0], names)
        if tool == "verify":
            return await self._verify(numbers[0], names)
        if tool == "select":
            return await self._select(numbers, names)
        messages, origins = self._request_for(tool, numbers)
        return await self._write(messages, origins, names)

    async def _suggest(self, count: int, names: tuple[str, int]) -> str:
        """Request `count` approaches."""
        messages = prompts.request(APPROACHES, self.problem, count=count)
        reply = await self.ask(
            messages, *names, max_tokens=self.config.PLAN_TOKENS, answer_opening=APPROACH
        )
        self.spent.append(reply)
        approaches = read_approaches(reply.text)[:count]
        if not approaches:
            self.notes.append("unreadable approaches")
            return "No approach came back."
        first = len(self.approaches) + 1
        self.approaches += approaches
        return "\n".join(f"Approach {i}: {text}" for i, text in enumerate(approaches, first))

    async def _verify(self, number: int, names: tuple[str, int]) -> str:
        """Request a report on a solution."""
        solution = common.again(self.solutions[number - 1])
        text = self._text(number)
        reported = await report(self.problem, self.ask, self.config, solution, text, *names)
        self.spent += reported.side_calls
        self.notes += reported.notes
        text = reported.side_calls[0].text.strip()
        self.reports.append((number, text))
        text = text or "(empty, of no use)"
        return f"Report {len(self.reports)}, on solution {number}:\n{text}"

    async def _select(self, numbers: list[int], names: tuple[str, int]) -> str:
        """Request a selection. Only the winner stays current."""
        candidates = [self.solutions[number - 1].completion for number in numbers]
        winner = await select(self.problem, self.ask, self.config, candidates, *names)
        self.spent += winner.side_calls
        self.notes += winner.notes
        if winner.notes:
            return "The selection could not be read; none was selected."
        best = numbers[winner.parents[0]]
        others = set(numbers) - {best}
        self.current = sorted({*self.current, best} - others)
        return f"Solution {best} was selected."

    def _request_for(self, tool: str, numbers: list[int]) -> tuple[list[Message], list[int]]:
        """Return the request of a call that writes a solution, and the solutions that it
        replaces."""
        if tool == "merge":
            texts = [self._text(number) for number in numbers]
            return prompts.aggregate(self.problem, texts), numbers
        if tool == "improve":
            origin, text = self.reports[numbers[0] - 1]
            solution = self._text(origin)
            messages = prompts.request(IMPROVE, self.problem, solution=solution, report=text)
            return messages, [origin]
        if numbers:
            approach = self.approaches[numbers[0] - 1]
            return prompts.request(FOLLOW, self.problem, approach=approach), []
        return prompts.solve(self.problem), []

    async def _write(
        self, messages: list[Message], origins: list[int], names: tuple[str, int]
    ) -> str:
        """Request a new solution, which replaces its origins if it has text."""
        solution = await common.candidate(self.ask, self.config, messages, *names, parents=origins)
        self.solutions.append(solution)
        self.notes += solution.notes
        number = len(self.solutions)
        text = self._text(number)
        if text:
            others = [i for i in self.current if i not in origins and self._text(i)]
            self.current = [*others, number]
            return f"Solution {number}:\n{text}"
        if self.current:
            self.spent.append(solution.completion)
        else:
            self.current = [number]
        return f"Solution {number} came back empty and is of no use."


MATH_AGENT = Scaffold(
    math_agent,
    constants=Constants,
    prompts=(
        prompts.SOLVE,
        prompts.AGGREGATE,
        prompts.VERDICT,
        PLAN,
        CALL,
        APPROACHES,
        APPROACH,
        FOLLOW,
        REPORT,
        IMPROVE,
        SELECT,
        BEST,
    ),
    # if each reply of the planner has one call
    max_completions=lambda config: 2 * config.CALLS + INVALID_CALLS,
    texts_shown=lambda config: config.CALLS,  # the planner sees the outcome of each call
)
