"""The math agent: its tool calls are read, executed or refused, and bounded; one solution is
submitted."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from core.types import Completion, Population
from harness.scaffolds.math_agent import INVALID_CALLS, MATH_AGENT, math_agent
from tests.fakes.model import FAILED, Model, Names, constants_with, run

SIZES: dict[str, Any] = {
    "CALLS": 15,
    "K": 4,
    "PLAN_TOKENS": 70,
    "VERIFY_TOKENS": 60,
    "SELECT_TOKENS": 50,
}
Tools = Callable[[Names, str], str | Completion]

# The plan that QED-Nano's prompt gives as an example, near enough: 15 calls.
PLANS = [
    'CALL approaches {"count": 3}',
    "\n".join([*(f'CALL solve {{"approach": {i}}}' for i in (1, 2, 3)), "CALL solve {}"]),
    "\n".join(f'CALL verify {{"solution": {i}}}' for i in (1, 2, 3, 4)),
    "\n".join(f'CALL improve {{"report": {i}}}' for i in (1, 2, 3, 4)),
    'CALL merge {"solutions": [5, 6, 7]}',
    'CALL select {"solutions": [8, 9]}',
    'CALL submit {"solution": 9}',
]


def worked(names: Names, prompt: str) -> str:
    """Reply as a tool: with a solution that names its call, a report, approaches or a selection."""
    if names[0] == "approaches":
        return (
            "Approach 1: induction.\n**Approach 2:** parity\nor so.\n### Approach "
            "3\ngeometry\nApproach 4: more"
        )
    if names[0] == "verify":
        return f"report: {prompt.split('solution <')[1].split('>')[0]} has a gap.\nVerdict: False"
    if names[0] == "select":
        return "Best: 1" if prompt.index("<merge") < prompt.index("<improve") else "Best: 2"
    return f"solution <{names[0]} {names[1]}> \\boxed{{42}}"


def planned(
    plans: Sequence[str], tools: Tools = worked, seed: int = 0
) -> tuple[list[Population], Model]:
    """Run a planner that replies with `plans`, then repeats the last one."""

    def reply(names: Names, prompt: str) -> str | Completion:
        return (
            plans[min(int(names[1]), len(plans) - 1)]
            if names[0] == "plan"
            else tools(names, prompt)
        )

    model = Model(reply)
    return run(math_agent, model, SEED=seed, **SIZES), model


def notes(populations: list[Population]) -> list[str]:
    return [note for population in populations for member in population for note in member.notes]


def test_fifteen_calls_besides_the_plans_as_in_its_source() -> None:
    populations, model = planned(PLANS)
    plans = model.prompts("plan")
    tools = [names for names, *_ in model.asked if names[0] != "plan"]
    assert len(plans) == 7 and [number for _, number in tools] == list(range(1, 16)), (
        "one completion a call"
    )
    assert (
        not notes(populations)
        and MATH_AGENT.max_completions(constants_with(SIZES)) == 2 * 15 + INVALID_CALLS
    )
    assert (
        model.prompts("solve", 3)[0].count("parity\nor so.") == 1
        and "induction" not in model.prompts("solve", 3)[0]
    )
    assert "approach" not in model.prompts("solve", 5)[0].lower()
    assert "solution <solve 2>" in model.prompts("verify", 6)[0]
    improved = model.prompts("improve", 11)[0]
    assert "solution <solve 3>" in improved and "report: solve 3 has a gap" in improved
    merged = model.prompts("merge", 14)[0]
    assert [f"<improve {i}>" in merged for i in (10, 11, 12, 13)] == [True, True, True, False]
    assert (
        "<improve 13>" in model.prompts("select", 15)[0]
        and "<merge 14>" in model.prompts("select", 15)[0]
    )
    for tool in ("solve", "improve", "merge"):
        assert all("final answer in \\boxed{}" in prompt for prompt in model.prompts(tool))
    caps = {
        names[0]: (changes.get("max_tokens"), changes.get("answer_opening"))
        for names, _, changes in model.asked
    }
    assert caps["plan"] == (70, "CALL") and caps["approaches"] == (70, "Approach 1:")
    assert (
        caps["verify"] == (60, "Verdict:")
        and caps["select"] == (50, "Best:")
        and caps["solve"] == (None, None)
    )


def test_the_planner_sees_what_was_done_and_the_prompt_only_grows() -> None:
    _, model = planned(PLANS)
    plans = model.prompts("plan")
    assert "nothing\n\nCalls left: 15." in plans[0]
    last = plans[-1]
    assert (
        "Calls left: 0." in last
        and "Approach 2: parity\nor so." in last
        and "Approach 4" not in last
    )
    assert "Solution 9:\nsolution <merge 14>" in last and "Solution 9 was selected." in last
    assert (
        'CALL verify {"solution": 3}\nReport 3, on solution 3:\nreport: solve 4 has a gap.' in last
    )
    kept = [prompt.split("\n\nCalls left")[0] for prompt in plans]
    assert all(later.startswith(sooner) for sooner, later in pairwise(kept[1:]))


def test_what_stands_after_every_call() -> None:
    populations, _ = planned(PLANS)
    reason = [
        " ".join(member.completion.text.split(">")[0].split("<")[1] for member in p)
        for p in populations
    ]
    solved = "solve 2 solve 3 solve 4 solve 5"
    assert reason == [
        *(solved[: 8 * i - 1] for i in (1, 2, 3, 4)),
        *[solved] * 4,  # a report supersedes nothing
        "solve 3 solve 4 solve 5 improve 10",
        "solve 4 solve 5 improve 10 improve 11",
        "solve 5 improve 10 improve 11 improve 12",
        "improve 10 improve 11 improve 12 improve 13",
        "improve 13 merge 14",
        "merge 14",
        "merge 14",
    ]
    assert [[member.carried_over for member in p] for p in populations[-3:]] == [
        [True, False],
        [True],
        [True],
    ]
    assert [[member.parents for member in p] for p in populations[-3:]] == [
        [[3], [0, 1, 2]],
        [[1]],
        [[0]],
    ]
    assert [member.parents for member in populations[8]] == [[1], [2], [3], [0]]
    assert len(populations[0][0].side_calls) == 3, "two plans and the approaches"


@pytest.mark.parametrize(
    ("reply", "note", "reason"),
    [
        ("I would solve it first.", "no tool call", "Nothing: no line starts with CALL"),
        (
            'CALL guess {"answer": 42}',
            "unknown tool",
            "there is no tool guess; there are approaches, solve",
        ),
        ("CALL solve(1)", "bad tool arguments", "no JSON object follows solve"),
        ("CALL verify", "bad tool arguments", 'verify takes one argument, "solution"'),
        (
            'CALL verify {"solution": 1, "deep": true}',
            "bad tool arguments",
            'one argument, "solution"',
        ),
        ('CALL verify {"solution": true}', "bad tool arguments", "must be a whole number"),
        ('CALL verify {"solution": 3}', "bad tool arguments", '"solution" must be from 1 to 2'),
        ('CALL solve {"approach": 1}', "bad tool arguments", "there is no approach yet"),
        ('CALL approaches {"count": 5}', "bad tool arguments", '"count" must be from 1 to 4'),
        ('CALL merge {"solutions": 1}', "bad tool arguments", "must be a list of whole numbers"),
        ('CALL merge {"solutions": [1, 1]}', "bad tool arguments", "2 to 4 different solutions"),
        (
            'CALL select {"solutions": [1, 2, 3, 4, 5]}',
            "bad tool arguments",
            "2 to 4 different solutions",
        ),
        ('CALL submit {"solution": 7}', "empty submission", '"solution" must be from 1 to 2'),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_noted_and_told(
    reply: str, note: str, reason: str
) -> None:
    ignored = "\nCALL solve"
    populations, model = planned(
        ["CALL solve\nCALL solve", reply + ignored * bool(reply[:4] == "CALL"), PLANS[0]]
    )
    assert notes(populations)[0] == note
    assert reason in model.prompts("plan")[2]
    assert len(model.prompts("solve")) == 2, "what follows an invalid call in a reply is left out"


def test_after_so_many_invalid_calls_a_current_solution_is_submitted_at_random() -> None:
    drawn = set()
    for seed in range(20):
        plans = [
            'CALL solve\nCALL solve\nCALL solve\nCALL merge {"solutions": [1, 2]}',
            "I am done.",
        ]
        populations, model = planned(plans, seed=seed)
        assert len(model.prompts("plan")) == 1 + INVALID_CALLS
        assert notes(populations) == ["no tool call"] * INVALID_CALLS + ["submitted by rule"]
        (best,) = populations[-1]
        assert best.carried_over
        drawn.add(best.completion.key)
    assert drawn == {"('solve', 3)", "('merge', 4)"}, "none is favoured"


def test_a_call_beyond_the_last_is_noted_and_a_submission_still_taken() -> None:
    populations, model = planned(["\n".join(["CALL solve"] * 17), 'CALL submit {"solution": 4}'])
    assert notes(populations) == ["tool call beyond the last"]
    assert len(model.prompts("solve")) == 15 and populations[-1][0].completion.key == "('solve', 4)"


def test_the_last_call_is_kept_for_a_solution() -> None:
    populations, model = planned(['CALL approaches {"count": 1}'])
    assert len(model.prompts("approaches")) == 14 and len(model.prompts("solve")) == 1
    assert "the last call is kept for a solution" in model.prompts("plan")[-1]
    assert notes(populations) == ["bad tool arguments"] * INVALID_CALLS + ["submitted by rule"]


def silent(*empty: str) -> Tools:
    """Return the tools; calls named like "solve 1" fail if they are `empty`."""
    return lambda names, prompt: (
        FAILED if f"{names[0]} {names[1]}" in empty else worked(names, prompt)
    )


def test_an_empty_improvement_supersedes_nothing() -> None:
    plans = [
        'CALL solve\nCALL verify {"solution": 1}\nCALL improve {"report": 1}',
        'CALL submit {"solution": 1}',
    ]
    populations, _ = planned(plans, silent("improve 3"))
    (best,) = populations[-1]
    assert best.completion.key == "('solve', 1)" and notes(populations) == ["empty candidate"]
    assert [check.key for p in populations for check in p[0].side_calls][-2:] == [
        "('improve', 3)",
        "('plan', 1)",
    ]


def test_reports_approaches_and_selections_that_say_nothing_are_noted() -> None:
    plans = [
        'CALL approaches {"count": 2}\nCALL solve\nCALL solve\nCALL select {"solutions": [1, 2]}\n'
        'CALL verify {"solution": 1}\nCALL improve {"report": 1}',
        'CALL submit {"solution": 2}',
    ]
    populations, model = planned(plans, silent("approaches 1", "select 4", "verify 5"))
    assert notes(populations) == [
        "unreadable approaches",
        "invalid selection",
        "empty report",
        "bad tool arguments",
    ]
    last = model.prompts("plan")[-1]
    assert (
        "No approach came back." in last
        and "none was selected" in last
        and "report 1 is empty" in last
    )
    assert len(populations[-2]) == 2, "a selection that can't be read supersedes nothing"
