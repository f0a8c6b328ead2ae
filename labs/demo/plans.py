"""Draw training examples of plans, with the prompt of the scaffold math_agent. All plans follow one
fixed plan."""

import random
from dataclasses import dataclass, field

from core import prompts
from harness.scaffolds import math_agent
from harness.scaffolds.tool_calls import CALL
from labs.demo.reviews import QUOTES, candidates, is_right, remarks, short_terms, tried
from labs.demo.sums import Terms, problem, true_products
from labs.demo.texts import Example, Mix, finished, solution

PLANNED = 3  # solutions that a plan begins with
REPORTS = 3  # most reports in a plan


@dataclass
class Plan:
    """A plan that was carried out: its steps, and the log before each step."""

    terms: Terms
    steps: list[tuple[str, str]] = field(default_factory=list)  # thinking and calls of each reply
    logs: list[list[str]] = field(default_factory=list)  # before each step
    log: list[str] = field(default_factory=list)  # so far

    def step(self, thinking: str, calls: str) -> None:
        self.steps.append((thinking, calls))
        self.logs.append(list(self.log))

    def add_solution(self, number: int, call: str, values: list[int]) -> None:
        text = solution(self.terms, values)
        self.log.append(f"{call}\nSolution {number}:\n{text}")

    def add_report(self, number: int, on: int, call: str, values: list[int]) -> bool:
        """Add a true report on a solution, and return its verdict."""
        verdict = is_right(self.terms, values)
        report = remarks(self.terms, values, true_products(self.terms))
        report += f"\n{prompts.VERDICT} {verdict}"
        self.log.append(f"{call}\nReport {number}, on solution {on}:\n{report}")
        return verdict


def plan_example(rng: random.Random, _: Mix) -> Example:
    """Build an example from a random step of a plan."""
    terms = short_terms(rng)
    plan = carried_out(rng, terms)
    i = rng.randrange(len(plan.steps))
    thoughts, calls = plan.steps[i]
    log = plan.logs[i]
    messages = math_agent.plan(problem(terms), log, 15, 15 - len(log), 4)
    forced = (CALL, calls.removeprefix(CALL))
    return finished(rng, messages, thoughts, calls, forced, stress=QUOTES)


def carried_out(rng: random.Random, terms: Terms) -> Plan:
    """Execute a plan. It merges PLANNED solutions. Then reports and improvements alternate until
    a report finds no error or there are REPORTS reports."""
    plan = Plan(terms)
    solve = f"{CALL} solve {{}}"
    plan.step("0", "\n".join([solve] * PLANNED))
    for number, values in enumerate(candidates(rng, terms, PLANNED), 1):
        plan.add_solution(number, solve, values)
    numbers = ", ".join(map(str, range(1, PLANNED + 1)))
    merge = f'{CALL} merge {{"solutions": [{numbers}]}}'
    plan.step(str(PLANNED), merge)
    newest = PLANNED + 1
    values = tried(rng, terms)
    plan.add_solution(newest, merge, values)
    for number in range(1, REPORTS + 1):
        verify = f'{CALL} verify {{"solution": {newest}}}'
        plan.step(str(newest), verify)
        verdict = plan.add_report(number, newest, verify, values)
        if verdict:
            break
        improve = f'{CALL} improve {{"report": {number}}}'
        plan.step(f"{newest}, report {number} {verdict}", improve)
        newest += 1
        values = tried(rng, terms)
        plan.add_solution(newest, improve, values)
    plan.step(str(newest), f'{CALL} submit {{"solution": {newest}}}')
    return plan
