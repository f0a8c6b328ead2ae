"""Measure how well the embedded model fills most roles of the scaffolds, on its own samples of
held-out problems.

    python -m labs.demo.measure_roles PROBLEMS=data/sums_card.json LIMIT=100

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
from core.base.errors import command
from core.base.files import ROOT, results_dir
from core.constants import constant
from core.eval import by_answer, is_correct
from core.grading.boxed import extract
from core.types import Ask, Completion, Member, Population, Problem, Scaffold
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
from harness.session.session import open_on_problems

SAMPLES = 4  # solutions per problem
PRODUCT = re.compile(r"^(\d)\*(\d\d)=(\d+)", re.MULTILINE)
NAMED = re.compile(r"^(\d)\*(\d\d)=(\d+) is wrong, it is (\d+)\.", re.MULTILINE)
LISTED = re.compile(r"(\d)\*(\d\d): ([\d, ]+)[;.]")


class Roles:
    """A scaffold that requests all measured roles, and records the results.

    `shares` has the values of each figure, by problem. `marks` has each judge's scores for right
    and for wrong solutions. `unreadable` counts the unreadable replies of each role."""

    def __init__(self) -> None:
        self.shares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.marks: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        self.unreadable: dict[str, int] = defaultdict(int)

    async def __call__(
        self, problem: Problem, ask: Ask, config: "Constants"
    ) -> AsyncIterator[Population]:
        spent: list[Completion] = []

        async def asked(*args: Any, **changes: Any) -> Completion:
            spent.append(await ask(*args, **changes))
            return spent[-1]

        def note(figure: str, value: float) -> None:
            self.shares[figure][problem.id].append(value)

        def correct(completion: Completion) -> bool:
            return is_correct(extract(completion.text).answer, problem.answer or "", "integer")

        messages = prompts.solve(problem)
        samples = await asyncio.gather(*(ask(messages, 0, i) for i in range(SAMPLES)))
        yield [Member(completion) for completion in samples]
        right, texts = (
            [correct(completion) for completion in samples],
            [completion.text.strip() for completion in samples],
        )

        for i, text in enumerate(texts):
            await self._examined(problem, asked, config, i, text, right[i], note, correct)
        for i, j in combinations(range(SAMPLES), 2):
            if right[i] != right[j]:
                choice = await common.choose(
                    problem, asked, config, (samples[i], samples[j]), "select", i, j
                )
                note(
                    "select: right, from a right and a wrong solution",
                    float(right[(i, j)[choice.parents[0]]]),
                )
                self.unreadable["select"] += len(choice.notes)
        if 0 < sum(right) < SAMPLES:
            choice = await static_math_agent.select(problem, asked, config, samples, "best", 0)
            note(
                f"select of {SAMPLES}: right, if there are right and wrong solutions",
                float(right[choice.parents[0]]),
            )
            self.unreadable[f"select of {SAMPLES}"] += len(choice.notes)
        await self._grouped(problem, asked, config, texts, right, note)
        await self._summarised(problem, asked, config, samples, note, correct)
        yield [
            Member(completion, [i], carried_over=True) for i, completion in enumerate(samples[:-1])
        ] + [Member(samples[-1], [SAMPLES - 1], side_calls=spent, carried_over=True)]

    async def _examined(
        self,
        problem: Problem,
        ask: Ask,
        config: "Constants",
        i: int,
        text: str,
        is_right: bool,
        note: Any,
        correct: Any,
    ) -> None:
        """Request judgements of a solution, solutions improved by its reports, and a new
        self-assessed proof."""
        wrong = {(a, b, c) for a, b, c in PRODUCT.findall(text) if int(a) * int(b) != int(c)}
        checked, reviewed, scored, judged = [
            await ask(messages, role, i, max_tokens=config.VERIFY_TOKENS, answer_opening=opening)
            for role, messages, opening in (
                (
                    "report",
                    prompts.request(static_math_agent.REPORT, problem, solution=text),
                    prompts.VERDICT,
                ),
                (
                    "review",
                    prompts.request(selfcheck.REVIEW, problem, solution=text),
                    prompts.VERDICT,
                ),
                ("score", deepseek_math.review(problem, text), deepseek_math.SCORE),
                ("judge", nomos.POINTS.messages(problem, text), nomos.SCORE),
            )
        ]
        points = nomos.read_points(judged.text)
        score = stated_score(scored.text, "Score", deepseek_math.SCORES)
        for role, mark in (
            ("report", read_verdict(checked.text)),
            ("review", read_verdict(reviewed.text)),
            ("score 0, 0.5, 1", score),
            ("judge 0-7", points),
        ):
            if mark is None:
                self.unreadable[role] += 1
            else:
                self.marks[role][not is_right].append(mark)
        for report in (checked, reviewed, scored):
            named = {
                (a, b, c) for a, b, c, d in NAMED.findall(report.text) if int(a) * int(b) == int(d)
            }
            note(
                "reports that name exactly the wrong lines, with the right values",
                float(named == wrong),
            )
        note("solutions before", float(is_right))
        for role, messages in (
            *(
                (role, prompts.request(wording, problem, solution=text, report=report.text.strip()))
                for role, wording, report in (
                    ("improve", static_math_agent.IMPROVE, checked),
                    ("correct", selfcheck.CORRECT, reviewed),
                )
            ),
            ("refine", deepseek_math.refine(problem, text, [scored.text])),
        ):
            note(f"{role}: right solutions after", float(correct(await ask(messages, role, i))))
        proved = await ask(deepseek_math.prove(problem), "prove", i)
        note("prove: right solutions", float(correct(proved)))
        claim = deepseek_math.read_proof(proved.text)[1]
        if claim is None:
            self.unreadable["self-assessment"] += 1
        else:
            self.marks["self-assessment"][not correct(proved)].append(claim)

    async def _grouped(
        self,
        problem: Problem,
        ask: Ask,
        config: "Constants",
        texts: list[str],
        right: list[bool],
        note: Any,
    ) -> None:
        """Request the group of solutions to keep. The prompt shows each solution's true points."""
        points = []
        for text in texts:
            lines = PRODUCT.findall(text)
            points.append(
                round(7 * sum(int(a) * int(b) == int(c) for a, b, c in lines) / max(1, len(lines)))
            )
        reply = await ask(
            nomos.group(problem, texts, [f"{nomos.SCORE} {of}" for of in points]),
            "group",
            max_tokens=config.SELECT_TOKENS,
            answer_opening=nomos.KEPT,
        )
        kept = nomos.read_group(reply.text, len(texts))
        self.unreadable["group"] += not kept
        if any(right) and kept:
            note(
                "group: exactly the right solutions",
                float(kept == [i for i, r in enumerate(right) if r]),
            )

    async def _summarised(
        self,
        problem: Problem,
        ask: Ask,
        config: "Constants",
        samples: list[Completion],
        note: Any,
        correct: Any,
    ) -> None:
        """Summarise the first sample, add the second sample to the summary, and solve the problem
        with the summary."""
        summary, values = "", defaultdict[tuple[str, str], list[str]](list)
        for i, completion in enumerate(samples[:2]):
            text = f"{completion.thinking}\n\n{completion.text}".strip()
            messages = reasoning_cache.summarise(problem, summary, text)
            reply = await ask(
                messages,
                "summary",
                i,
                max_tokens=config.SUMMARY_TOKENS,
                answer_opening=reasoning_cache.OPENING,
            )
            summary = reasoning_cache.read_summary(reply.text)
            for a, b, c in PRODUCT.findall(completion.text):
                values[a, b].append(c)
            listed = {(a, b): found.split(", ") for a, b, found in LISTED.findall(summary)}
            note(f"summary {i + 1}: exactly the values of the samples", float(listed == values))
        note(
            "solve again, with a summary of two: right solutions",
            float(correct(await ask(reasoning_cache.solve_again(problem, summary), "again", 0))),
        )

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
        lines.append(
            "unreadable: "
            f"{', '.join(f'{role} {n}' for role, n in self.unreadable.items() if n) or 'none'}"
        )
        return "\n".join(lines)


class Constants(static_math_agent.Constants):
    SUMMARY_TOKENS: int = constant(
        8192, "token cap of one summary, thinking included", 1, 1_000_000
    )


def main() -> None:
    with command():
        signals.catch()
        namespace = runpy.run_path(str(ROOT / "experiments" / "10_static_math_agent.py"))
        config = constants.read(Constants, namespace, sys.argv[1:])
        folder = results_dir()
        name = "embedded_roles"
        roles = Roles()
        most = SAMPLES * 9 + SAMPLES**2 // 4 + 5
        scaffold = Scaffold(roles, lambda _: most, lambda config: config.K, (), Constants)
        with open_on_problems(name, config, folder, scaffold, by_answer) as opened:
            path = Experiment(opened, scaffold).finish()
        print(f"\n{roles.table()}\n\nresults {path}")


if __name__ == "__main__":
    main()
