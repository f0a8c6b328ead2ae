"""Measure how well the embedded model fills most roles of the scaffolds, on its own samples of
held-out problems.

    python -m labs.demo roles PROBLEMS=data/sums_card.json LIMIT=100

The model first writes SAMPLES solutions of each problem. It reports on, reviews, scores, judges,
improves and refines each solution. It selects from each pair of a right and a wrong solution, and
from all solutions if there is such a pair. It groups all solutions, and summarises two of them. The
measurement uses the scaffolds' prompts, and reads replies as they do. A journal keeps all
completions, so a stopped measurement can resume."""

import asyncio
import re
import runpy
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from itertools import combinations
from statistics import fmean
from typing import Any

from core import constants, prompts
from core.base import signals, stats, terminal
from core.base.files import ROOT, results_dir
from core.constants import constant
from core.engines import environment
from core.eval import by_answer, is_correct
from core.grading.kinds.integer import Integer
from core.types import Ask, Completion, Member, Message, Population, Problem, Scaffold
from harness.report import tables
from harness.scaffolds import (
    common,
    deepseek_math,
    nomos,
    reasoning_cache,
    selfcheck,
    static_math_agent,
)
from harness.scaffolds.stated import read_verdict, stated_score
from harness.session.experiment import Experiment
from harness.session.session import Command, open_on_problems

NAME = "embedded_roles"  # of the results and the journal
SAMPLES = 4  # solutions per problem
MOST_COMPLETIONS = SAMPLES * 9 + SAMPLES**2 // 4 + 5  # per problem
PRODUCT = re.compile(r"^(\d)\*(\d\d)=(\d+)", re.MULTILINE)
NAMED = re.compile(r"^(\d)\*(\d\d)=(\d+) is wrong, it is (\d+)\.", re.MULTILINE)
LISTED = re.compile(r"(\d)\*(\d\d): ([\d, ]+)[;.]")


class Constants(static_math_agent.Constants):
    SUMMARY_TOKENS: int = constant(
        8192, "token cap of one summary, thinking included", 1, 1_000_000
    )


class Roles:
    """A scaffold that requests all measured roles, and records the results.

    `shares` has the values of each figure, by problem. `marks` has each judge's scores for right
    and for wrong solutions. `unreadable` counts the unreadable replies of each role."""

    def __init__(self) -> None:
        self.shares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.marks: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        self.unreadable: dict[str, int] = defaultdict(int)

    async def __call__(
        self, problem: Problem, ask: Ask, config: Constants
    ) -> AsyncIterator[Population]:
        messages = prompts.solve(problem)
        samples = await asyncio.gather(*(ask(messages, 0, i) for i in range(SAMPLES)))
        yield [Member(completion) for completion in samples]
        measured = OneProblem(self, problem, ask, config, samples)
        await measured.request_all()
        last = [Member(completion, [i], carried_over=True) for i, completion in enumerate(samples)]
        last[-1].side_calls = measured.side_calls
        yield last

    def mark(self, role: str, is_right: bool, mark: float | None) -> None:
        """Record a judge's score of a solution, or count the reply as unreadable."""
        if mark is None:
            self.unreadable[role] += 1
            return
        right, wrong = self.marks[role]
        (right if is_right else wrong).append(mark)

    def table(self) -> str:
        rows = [["role", "%", "problems"]]
        for figure, by_problem in self.shares.items():
            value = stats.mean_by_problem([fmean(shares) for shares in by_problem.values()])
            rows.append([figure, tables.interval(value.to_json()), str(len(by_problem))])
        lines = [terminal.aligned(rows), ""]
        for role, (right, wrong) in self.marks.items():
            area = stats.auc(right, wrong)
            auc = "-" if area is None else f"{area:.3f}"
            lines.append(f"{role}: AUC {auc} ({len(right)} right, {len(wrong)} wrong solutions)")
        unreadable = [f"{role} {count}" for role, count in self.unreadable.items() if count]
        lines.append(f"unreadable: {', '.join(unreadable) or 'none'}")
        return "\n".join(lines)


class OneProblem:
    """The requests for the roles on one problem, after its samples."""

    def __init__(
        self,
        roles: Roles,
        problem: Problem,
        ask: Ask,
        config: Constants,
        samples: list[Completion],
    ) -> None:
        self.roles = roles
        self.problem = problem
        self._ask = ask
        self.config = config
        self.samples = samples
        self.texts = [completion.text.strip() for completion in samples]
        self.right = [self.is_right(completion) for completion in samples]
        self.side_calls: list[Completion] = []

    async def ask(self, *args: Any, **options: Any) -> Completion:
        completion = await self._ask(*args, **options)
        self.side_calls.append(completion)
        return completion

    def note(self, figure: str, value: float) -> None:
        self.roles.shares[figure][self.problem.id].append(value)

    def is_right(self, completion: Completion) -> bool:
        return is_correct(
            Integer().read(completion.text).answer, self.problem.answer or "", "integer"
        )

    async def request_all(self) -> None:
        for i in range(SAMPLES):
            reports = await self._judged(i)
            await self._improved(i, *reports)
            await self._proved(i)
        await self._selected()
        await self._grouped()
        await self._summarised()

    async def _judged(self, i: int) -> tuple[Completion, Completion, Completion]:
        """Request four judgements of solution `i`, and return the three that are reports."""
        problem, text = self.problem, self.texts[i]
        report = prompts.request(static_math_agent.REPORT, problem, solution=text)
        review = prompts.request(selfcheck.REVIEW, problem, solution=text)
        checked = await self._judgement("report", report, i, prompts.VERDICT)
        reviewed = await self._judgement("review", review, i, prompts.VERDICT)
        score = deepseek_math.review(problem, text)
        scored = await self._judgement("score", score, i, deepseek_math.SCORE)
        points = nomos.POINTS.messages(problem, text)
        judged = await self._judgement("judge", points, i, nomos.SCORE)
        is_right, mark = self.right[i], self.roles.mark
        mark("report", is_right, read_verdict(checked.text))
        mark("review", is_right, read_verdict(reviewed.text))
        stated = stated_score(scored.text, "Score", deepseek_math.SCORES)
        mark("score 0, 0.5, 1", is_right, stated)
        mark("judge 0-7", is_right, nomos.read_points(judged.text))
        for completion in (checked, reviewed, scored):
            self.note(
                "reports that name exactly the wrong lines, with the right values",
                float(named_lines(completion.text) == wrong_lines(text)),
            )
        return checked, reviewed, scored

    async def _judgement(
        self, role: str, messages: list[Message], i: int, opening: str
    ) -> Completion:
        cap = self.config.VERIFY_TOKENS
        return await self.ask(messages, role, i, max_tokens=cap, answer_opening=opening)

    async def _improved(
        self, i: int, checked: Completion, reviewed: Completion, scored: Completion
    ) -> None:
        """Request solutions that its reports improve."""
        problem, text = self.problem, self.texts[i]
        self.note("solutions before", float(self.right[i]))
        report = checked.text.strip()
        improve = prompts.request(static_math_agent.IMPROVE, problem, solution=text, report=report)
        review = reviewed.text.strip()
        correct = prompts.request(selfcheck.CORRECT, problem, solution=text, report=review)
        requests = {
            "improve": improve,
            "correct": correct,
            "refine": deepseek_math.refine(problem, text, [scored.text]),
        }
        for role, messages in requests.items():
            improved = await self.ask(messages, role, i)
            self.note(f"{role}: right solutions after", float(self.is_right(improved)))

    async def _proved(self, i: int) -> None:
        """Request a self-assessed proof."""
        proved = await self.ask(deepseek_math.prove(self.problem), "prove", i)
        is_right = self.is_right(proved)
        self.note("prove: right solutions", float(is_right))
        claim = deepseek_math.read_proof(proved.text)[1]
        self.roles.mark("self-assessment", is_right, claim)

    async def _selected(self) -> None:
        """Request selections from each pair of a right and a wrong solution, and from all."""
        problem, config, samples, right = self.problem, self.config, self.samples, self.right
        for i, j in combinations(range(SAMPLES), 2):
            if right[i] == right[j]:
                continue
            pair = (samples[i], samples[j])
            choice = await common.choose(problem, self.ask, config, pair, "select", i, j)
            selected = (i, j)[choice.parents[0]]
            self.note("select: right, from a right and a wrong solution", float(right[selected]))
            self.roles.unreadable["select"] += len(choice.notes)
        if not any(right) or all(right):
            return
        choice = await static_math_agent.select(problem, self.ask, config, samples, "best", 0)
        self.note(
            f"select of {SAMPLES}: right, if there are right and wrong solutions",
            float(right[choice.parents[0]]),
        )
        self.roles.unreadable[f"select of {SAMPLES}"] += len(choice.notes)

    async def _grouped(self) -> None:
        """Request the group of solutions to keep. The prompt shows each solution's true points."""
        scores = [f"{nomos.SCORE} {true_points(text)}" for text in self.texts]
        reply = await self.ask(
            nomos.group(self.problem, self.texts, scores),
            "group",
            max_tokens=self.config.SELECT_TOKENS,
            answer_opening=nomos.KEPT,
        )
        group = nomos.read_group(reply.text, SAMPLES)
        if not group:
            self.roles.unreadable["group"] += 1
        elif any(self.right):
            expected = [i for i, is_right in enumerate(self.right) if is_right]
            self.note("group: exactly the right solutions", float(group == expected))

    async def _summarised(self) -> None:
        """Summarise the first sample, add the second sample to the summary, and solve the problem
        with the summary."""
        summary = ""
        values = defaultdict[tuple[str, str], list[str]](list)
        for i, completion in enumerate(self.samples[:2]):
            text = f"{completion.thinking}\n\n{completion.text}".strip()
            reply = await self.ask(
                reasoning_cache.summarise(self.problem, summary, text),
                "summary",
                i,
                max_tokens=self.config.SUMMARY_TOKENS,
                answer_opening=reasoning_cache.OPENING,
            )
            summary = reasoning_cache.read_summary(reply.text)
            for digit, number, value in PRODUCT.findall(completion.text):
                values[digit, number].append(value)
            listed = {
                (digit, number): text.split(", ") for digit, number, text in LISTED.findall(summary)
            }
            self.note(
                f"summary {i + 1}: exactly the values of the samples", float(listed == values)
            )
        again = await self.ask(reasoning_cache.solve_again(self.problem, summary), "again", 0)
        self.note(
            "solve again, with a summary of two: right solutions", float(self.is_right(again))
        )


def wrong_lines(text: str) -> set[tuple[str, str, str]]:
    """Return the wrong products of a solution: digit, number and stated value."""
    lines = PRODUCT.findall(text)
    return {line for line in lines if int(line[0]) * int(line[1]) != int(line[2])}


def named_lines(report: str) -> set[tuple[str, str, str]]:
    """Return the products that a report calls wrong, if it states their right values."""
    lines = NAMED.findall(report)
    return {line[:3] for line in lines if int(line[0]) * int(line[1]) == int(line[3])}


def true_points(text: str) -> int:
    """Return the points (0 to 7) of a solution, by its share of right products."""
    lines = PRODUCT.findall(text)
    right = [line for line in lines if int(line[0]) * int(line[1]) == int(line[2])]
    return round(7 * len(right) / max(1, len(lines)))


def main() -> None:
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return
    signals.catch()
    namespace = runpy.run_path(str(ROOT / "experiments" / "10_static_math_agent.py"))
    config = constants.read(Constants, namespace, sys.argv[1:])
    roles = Roles()
    scaffold = Scaffold(roles, lambda _: MOST_COMPLETIONS, lambda config: config.K, (), Constants)
    run = Command(NAME, config, environment.card())
    with open_on_problems(run, results_dir(), scaffold, by_answer) as opened:
        path = Experiment(opened, scaffold).finish()
    print(f"\n{roles.table()}\n\nresults {path}")
