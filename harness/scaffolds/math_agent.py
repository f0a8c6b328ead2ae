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

import json
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
    Population,
    Populations,
    Problem,
    Scaffold,
    Stage,
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

CALL = "CALL"
TOOLS = {  # each tool's name and its argument's name
    "approaches": "count",
    "solve": "approach",  # optional
    "verify": "solution",
    "improve": "report",
    "select": "solutions",
    "merge": "solutions",
    "submit": "solution",
}
INVALID_CALLS = 5  # number of invalid calls after which a random current solution is submitted
MOST_APPROACHES = 4  # largest number of approaches from one call

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
BAD = "bad tool arguments"  # the note on most invalid calls

_CALL = re.compile(rf"^[ \t>*_`+\-\d.)]*+{CALL}\b[ \t:]*+(.*)$", re.MULTILINE)
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
        messages = plan(problem, desk.log, config.CALLS, config.CALLS - desk.calls, config.K)
        reply = await ask(
            messages, "plan", plans, max_tokens=config.PLAN_TOKENS, answer_opening=CALL
        )
        plans += 1
        desk.spent.append(reply)
        desk.notes += ["failed plan"] if reply.error else []
        for line in call_lines(reply.text) or [""]:
            is_valid = await desk.call(line)
            if desk.submitted:
                yield Stage("submitted", desk.population(desk.submitted))
                return
            if desk.current:
                yield Stage(f"calls of plan {plans}", desk.population(desk.current))
            if not is_valid:
                break
    if not desk.current:
        await desk.call("solve")
        yield Stage("solved by rule", desk.population(desk.current))
    desk.notes.append("submitted by rule")
    drawn = seeds.rng(config.SEED, problem.id, "rule").choice(desk.current)
    yield Stage("drawn by rule", desk.population([int(drawn)]))


def plan(problem: Problem, log: Sequence[str], calls: int, left: int, most: int) -> list[Message]:
    """Build a request for the next calls. `log` has an entry for each call so far. `left` of
    `calls` calls remain."""
    done = "\n\n".join(log) or "nothing"
    return prompts.request(
        PLAN, problem, approaches=MOST_APPROACHES, k=most, calls=calls, log=done, left=left
    )


def read_approaches(text: str) -> list[str]:
    """Return the approaches in `text`, which begin with "Approach 1:" and so on. Skips empty
    approaches."""
    return [approach for part in _APPROACH.split(text)[1:] if (approach := part.strip())]


class InvalidCall(Exception):
    """An invalid call. The exception's two arguments are a note for the results and a reason for
    the planner."""


def call_lines(text: str) -> list[str]:
    """Return the text after CALL of each line that starts with CALL, or with list marks and
    CALL."""
    return [line.strip(" \t\r*_`") for line in _CALL.findall(text)]


def read_call(line: str) -> tuple[str, list[int]]:
    """Return the tool and its numbers from a line of `call_lines`. Raises InvalidCall if the line
    is invalid or ""."""
    words = re.match(r"(\w+)\s*+(.*)", line)
    if not words:
        raise InvalidCall("no tool call", f"no line starts with {CALL} and a tool")
    tool, stated = words.groups()
    if tool not in TOOLS:
        raise InvalidCall(
            "unknown tool", f"there is no tool {tool:.40}; there are {', '.join(TOOLS)}"
        )
    name = TOOLS[tool]
    try:
        given, _ = json.JSONDecoder().raw_decode(stated or "{}")
    except (ValueError, RecursionError):
        raise InvalidCall(BAD, f"no JSON object follows {tool} on its line") from None
    if tool == "solve" and given in ({}, {name: None}):
        return tool, []
    if not isinstance(given, dict) or list(given) != [name]:
        raise InvalidCall(BAD, f'{tool} takes one argument, "{name}"')
    numbers = given[name] if name == "solutions" else [given[name]]
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        wanted = "a list of whole numbers" if name == "solutions" else "a whole number"
        raise InvalidCall(BAD, f'"{name}" must be {wanted}')
    return tool, numbers


class _Desk:
    """The planner's state for one problem. Approaches, solutions and reports have numbers from
    1."""

    def __init__(self, problem: Problem, ask: Ask, config: Constants) -> None:
        self.problem, self.ask, self.config = problem, ask, config
        self.calls = self.invalid = 0
        self.submitted: list[int] = []  # the number of the submitted solution, if any
        self.approaches: list[str] = []
        self.solutions: list[Member] = []  # their parents are numbers of solutions
        self.reports: list[tuple[int, str]] = []  # solution's number, and text of the report
        # solutions that are not improved, merged or passed over in a selection
        self.current: list[int] = []
        self.shown: list[int] = []  # solutions in the newest population
        self.spent: list[Completion] = []  # completions that belong to no member yet
        self.notes: list[str] = []
        self.log: list[str] = []

    def population(self, solutions: list[int]) -> Population:
        """Return these solutions as members. The last one gets the notes and side calls since the
        last population."""
        members = []
        for number in solutions:
            member = self.solutions[number - 1]
            parents = [
                self.shown.index(origin) for origin in member.parents if origin in self.shown
            ]
            members.append(replace(member, parents=parents, notes=[]))
            self.solutions[number - 1] = common.again(member, number)
        members[-1].side_calls, members[-1].notes = self.spent, self.notes
        self.spent, self.notes, self.shown = [], [], solutions
        return members

    async def call(self, line: str) -> bool:
        """Execute one call and return True. If the call is invalid, log the reason for the planner
        and return False."""
        try:
            tool, numbers = read_call(line)
            self._check(tool, numbers)
        except InvalidCall as error:
            note, why = error.args
            self.invalid += 1
            self.notes.append(note)
            self.log.append(
                f"{CALL} {line:.200}\nNot carried out: {why}." if line else f"Nothing: {why}."
            )
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
        left = self.config.CALLS - self.calls
        if tool != "submit" and not left:
            raise InvalidCall("tool call beyond the last", "no calls are left; submit a solution")
        name, note = TOOLS[tool], "empty submission" if tool == "submit" else BAD
        others = {
            "count": MOST_APPROACHES,
            "approach": len(self.approaches),
            "report": len(self.reports),
        }
        most = others.get(name, len(self.solutions))
        if name == "solutions" and not (
            len(set(numbers)) == len(numbers) and 2 <= len(numbers) <= self.config.K
        ):
            raise InvalidCall(note, f"{tool} takes 2 to {self.config.K} different solutions")
        for number in numbers:
            if not 1 <= number <= most:
                raise InvalidCall(
                    note,
                    f'"{name}" must be from 1 to {most}' if most else f"there is no {name} yet",
                )
            if name.startswith("solution") and not self._text(number):
                raise InvalidCall(note, f"solution {number} is empty")
            if name == "report" and not self.reports[number - 1][1]:
                raise InvalidCall(note, f"report {number} is empty")
        if tool == "approaches" and left == 1 and not self.solutions:
            raise InvalidCall(note, "the last call is kept for a solution")

    def _text(self, number: int) -> str:
        return common.text_of(self.solutions[number - 1].completion, self.config)

    async def _outcome(self, tool: str, numbers: list[int], names: tuple[str, int]) -> str:
        """Execute a valid call, and return a description of its outcome for the planner."""
        problem, ask, config = self.problem, self.ask, self.config
        if tool == "approaches":
            messages = prompts.request(APPROACHES, problem, count=numbers[0])
            reply = await ask(
                messages, *names, max_tokens=config.PLAN_TOKENS, answer_opening=APPROACH
            )
            self.spent.append(reply)
            first, found = len(self.approaches) + 1, read_approaches(reply.text)[: numbers[0]]
            self.approaches += found
            self.notes += [] if found else ["unreadable approaches"]
            return (
                "\n".join(f"Approach {i}: {text}" for i, text in enumerate(found, first))
                or "No approach came back."
            )
        if tool == "verify":
            solution = common.again(self.solutions[numbers[0] - 1])
            reported = await report(problem, ask, config, solution, self._text(numbers[0]), *names)
            self.spent += reported.side_calls
            self.notes += reported.notes
            self.reports.append((numbers[0], text := reported.side_calls[0].text.strip()))
            return (
                f"Report {len(self.reports)}, on solution "
                f"{numbers[0]}:\n{text or '(empty, of no use)'}"
            )
        if tool == "select":
            candidates = [self.solutions[number - 1].completion for number in numbers]
            winner = await select(problem, ask, config, candidates, *names)
            self.spent += winner.side_calls
            self.notes += winner.notes
            if winner.notes:
                return "The selection could not be read; none was selected."
            best = numbers[winner.parents[0]]
            self.current = sorted({*self.current, best} - ({*numbers} - {best}))
            return f"Solution {best} was selected."
        origins: list[int] = []
        if tool == "merge":
            messages, origins = (
                prompts.aggregate(problem, [self._text(number) for number in numbers]),
                numbers,
            )
        elif tool == "improve":
            number, text = self.reports[numbers[0] - 1]
            messages = prompts.request(IMPROVE, problem, solution=self._text(number), report=text)
            origins = [number]
        elif numbers:
            messages = prompts.request(FOLLOW, problem, approach=self.approaches[numbers[0] - 1])
        else:
            messages = prompts.solve(problem)
        solution = await common.candidate(ask, config, messages, *names, parents=origins)
        self.solutions.append(solution)
        self.notes += solution.notes
        number = len(self.solutions)
        if text := self._text(number):  # it replaces its origins
            self.current = [i for i in self.current if i not in origins and self._text(i)] + [
                number
            ]
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
        *(prompts.SOLVE, prompts.AGGREGATE, prompts.VERDICT),
        *(PLAN, CALL, APPROACHES, APPROACH, FOLLOW, REPORT, IMPROVE, SELECT, BEST),
    ),
    # if each reply of the planner has one call
    max_completions=lambda config: 2 * config.CALLS + INVALID_CALLS,
    texts_shown=lambda config: config.CALLS,  # the planner sees the outcome of each call
)
