"""Adding things: a scaffold and a grader of one file each, and an experiment that runs them."""

import json
import textwrap
from pathlib import Path

import pytest

from core import scaffolds
from core.base.errors import UserError
from core.session.regrade import regrade
from tests.conftest import python
from tests.fakes.server import ScriptedServer

GUIDE = scaffolds.__doc__ or ""
SCAFFOLD = textwrap.dedent(GUIDE[GUIDE.index("    import asyncio") : GUIDE.index("\nThe experiment imports")])
GRADER = '''
"""Half a point for a box, and half for what a model says."""
from core.types import Ask, Grade, Graded, Population, Problem


async def by_halves(problem: Problem, population: Population, ask: Ask) -> Graded:
    grades = []
    for i, member in enumerate(population):
        reply = await ask([{"role": "user", "content": f"Grade: {member.completion.text}"}], i, max_tokens=5)
        grades.append(Grade(0.5, doubt=None, reason=reply.text, side_calls=(reply,)))
    return Graded(grades, score=0.5)
'''
EXPERIMENT = '''
"""Which is the longest?"""
from grader import by_halves
from scaffold import LONGEST

from core.session.run import run

N = 3

if __name__ == "__main__":
    run(LONGEST, globals(), grader=by_halves)
'''


def test_a_scaffold_and_a_grader_take_a_file_each_and_an_experiment(tmp_path: Path) -> None:
    for name, text in (("scaffold", SCAFFOLD), ("grader", GRADER), ("99_longest", EXPERIMENT)):
        (tmp_path / f"{name}.py").write_text(text)
    problems = tmp_path / "problems.json"
    problems.write_text(json.dumps([{"id": f"p{i}", "problem": f"What is {i}?"} for i in range(2)]))
    solver, grader = ScriptedServer(), ScriptedServer()
    try:
        for _ in range(2):
            process = python(
                str(tmp_path / "99_longest.py"), f"PROBLEMS={problems}", BASE_URL=solver.url, RESULTS_DIR=str(tmp_path),
                GRADER_URL=grader.url, API_KEY="the-solvers-own-key",
            )  # fmt: skip
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, err
    finally:
        solver.close()
        grader.close()
    found = json.loads((tmp_path / "99_longest.json").read_text())
    assert [step["mean_accuracy"]["value"] for step in found["metrics"]["steps"]] == [0.5, 0.5]
    assert found["config"]["N"] == 3 and found["metrics"]["reused"]
    members = [m for problem in found["problems"] for step in problem["steps"] for m in step["members"]]
    assert all(m["grade"] == 0.5 and m["reason"] and len(m["grading"]) == 1 and not m["correct"] for m in members)
    assert len(solver.asked) == 2 * 3 and len(grader.asked) == 2 * (3 + 1), "the second run asks nobody anything"
    assert all("Grade: " in body for body in grader.asked) and not any("Grade: " in body for body in solver.asked)
    assert "50.0" in out
    with pytest.raises(UserError, match="by_halves.*by_answer"):
        regrade(tmp_path / "99_longest.json")
