"""Adding things: a scaffold and a grader of one file each."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.types import Ask, Grade, Graded, Population, Problem
from harness import scaffolds
from harness.run import solve_sync
from harness.session.regrade import regrade
from tests.fakes.server import ScriptedServer

GUIDE = scaffolds.__doc__ or ""
SCAFFOLD = textwrap.dedent(
    GUIDE[GUIDE.index("    import asyncio") : GUIDE.index("\nThe experiment imports")]
)


async def by_halves(problem: Problem, population: Population, ask: Ask) -> Graded:
    """Give half a point, whatever a model says."""
    asking = [
        [{"role": "user", "content": f"Grade: {member.completion.text}"}] for member in population
    ]
    replies = [await ask(messages, i, max_tokens=5) for i, messages in enumerate(asking)]
    return Graded(
        [Grade(0.5, reason=reply.text, side_calls=(reply,)) for reply in replies], score=0.5
    )


def test_a_scaffold_and_a_grader_are_a_function_each(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaffold: dict[str, Any] = {"__name__": "scaffold"}
    exec(compile(SCAFFOLD, "scaffold.py", "exec"), scaffold)
    grader = ScriptedServer()
    monkeypatch.setenv("GRADER_URL", grader.url)
    monkeypatch.setenv("API_KEY", "the-solvers-own-key")
    try:
        for _ in range(2):
            rows = [{"id": f"p{i}", "problem": f"What is {i}?"} for i in range(2)]
            path = solve_sync(scaffold["LONGEST"], rows, N=3, grader=by_halves).path
    finally:
        grader.close()
    found = json.loads(path.read_text())
    assert [step["mean_accuracy"]["value"] for step in found["metrics"]["steps"]] == [0.5, 0.5]
    assert found["config"]["N"] == 3 and found["metrics"]["reused"]
    members = [
        m for problem in found["problems"] for step in problem["steps"] for m in step["members"]
    ]
    assert all(
        m["grade"] == 0.5 and m["reason"] and len(m["grading_calls"]) == 1 and not m["correct"]
        for m in members
    )
    assert len(server.asked) == 2 * 3 and len(grader.asked) == 2 * (3 + 1), (
        "the second run asks nobody anything"
    )
    assert all("Grade: " in body for body in grader.asked) and not any(
        "Grade: " in body for body in server.asked
    )
    with pytest.raises(UserError, match="by_halves.*by_answer"):
        regrade(path)
