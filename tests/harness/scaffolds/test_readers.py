"""Scaffolds read stated results from replies in any spelling, in linear time, or not at all."""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.grading.kinds.integer import Integer
from harness.scaffolds import static_math_agent
from harness.scaffolds.deepseek_math import read_proof
from harness.scaffolds.math_agent import read_approaches
from harness.scaffolds.nomos import read_group
from harness.scaffolds.reasoning_cache import read_summary
from harness.scaffolds.selfcheck import summary
from harness.scaffolds.stated import read_answer, read_choice, read_verdict, stated_score
from harness.scaffolds.tool_calls import TOOLS, InvalidCall, call_lines, read_call

score = partial(stated_score, word="Score", allowed=(0.0, 0.5, 1.0))
points = partial(stated_score, word="Score", allowed=range(8))
better = partial(read_choice, word="better", count=2)
best = partial(read_choice, word=static_math_agent.CHOICE, count=4)
group = partial(read_group, count=4)


def calls(text: str) -> list[tuple[str, list[int]]]:
    return [read_call(line) for line in call_lines(text)]


FLAWS = "1. The sum is wrong."
READ: list[tuple[Callable[[str], Any], list[tuple[str, Any]]]] = [
    (score, [
        ("Score: 1", 1.0),
        ("score = 0.5", 0.5),
        ("**Score:** 1/2", 0.5),
        ("Score: \\boxed{.5}", 0.5),
        ("Score: 1\n- 2 remarks", 1.0),
        ("**Score**: 1", 1.0),
        ("Score: 0.5/1", 0.5),
        ("Score: ½", 0.5),
        ("<score>0</score>", 0.0),
        ('{"score": 1}', 1.0),
        ('End with "Score: 0", "Score: 0.5" or "Score: 1".', None),
        ('End with "Score: 0", "Score: 0.5" or "Score: 1".\n**Score**: 0', 0.0),
        *((text, None) for text in ("Score: 0.7", "Score: 10", "Score: 1/0", "Score: 1/2/3", (
            "Score: 0.5 to 1"
        ))),
        *((text, None) for text in ("Score: 0 or 1", "Score: 0-1", "no score", "")),
    ]),
    (points, [
        ("Score: 7", 7),
        ("Score: 6/7", 6),
        ("Score: 7 out of 7", 7),
        *((text, 7) for text in ("**Score**: 7", "## Score\n\n7", "| Score | 7 |", (
            "Score (0-7): **7**"
        ))),
        *((text, 7) for text in ("The score is 7.", "__Score__: 7", "Score：7", (
            "Score → $\\boxed{7}$"
        ))),
        ("Score: 3 at first; in the end, score: 2.", 2),
        *((text, None) for text in ("Score: 8", "Score: 6.5", "Score: -1", "Score: 77",
    "Score: 6/2", (
            "Score: 0/0"
        ))),
        *((text, None) for text in ("Score: 1/9999999999", "Score: 7..5", "7 points", (
            "Score: 0, 1, 6 or 7"
        ))),
        *((text, 7) for text in ("Score: (7)", "Score: 7, 2 remarks")),
    ]),
    (better, [
        ("Better: 1? No.\nBetter: **Candidate 2**", 1),
        ("Better: 1, and 2 is worse", 0),
        ("**Better**: 2", 1),
        *((text, 1) for text in ("Better candidate: 2", "The better answer is 2.", "Better: (2)")),
        ("Candidate 1 slips. So **candidate 2** is better.", 1),
        ("Candidate 1 is clearly the better of the two.", 0),
        ("Candidate 2 is more likely to be correct.", 1),
        *((text, None) for text in ("Candidate 2 would be better if it ended.", (
            "Is candidate 2 better?"
        ))),
        ('End with "Better: 1" or "Better: 2".', None),
        *((text, None) for text in ("Better: 1 or 2", "Better: candidate 2/candidate 1",
    "Better: 3", (
            "1"
        ))),
    ]),
    (best, [
        ("Best: 2", 1),
        ("**Best:** Candidate 4", 3),
        ("Best: \\boxed{2}", 1),
        *((text, 1) for text in ("**Best**: 2", "__Best__: `2`", "### Best: #2", "Best = 2", (
            "| Best: | 2 |"
        ))),
        ("Best: 1? No.\nBest: 2", 1),
        *((text, None) for text in ("Best: 2\nBest: 7", "Best: 12", "Best: 1 and 3",
    "the best 2 are", (
            "Candidate 2"
        ))),
        *((text, None) for text in ("Best:", "", "Best:" + " " * 200_000 + "x")),
    ]),
    (group, [
        ("Keep: 3 and 1.", [0, 2]),
        ("**Keep:** [2]", [1]),
        ("keep:\n1; 2", [0, 1]),
        *((text, [0, 2]) for text in ("**Keep**: 1, 3", "Keep: \\boxed{1, 3}", (
            "Keep: solutions 1 and 3"
        ))),
        ("Keep: 1\nKeep: 2, 3\n4 of them agree.", [1, 2]),
        *((text, []) for text in ("Keep: 1, 5", "Keep: 0", "Keep: 1 to 3", "Keep: all", "Keep:",
    "1, 2", (
            "upkeep: 1"
        ))),
    ]),
    (read_verdict, [
        ("Verdict: False", 0.0),
        ("**Verdict:** False", 0.0),
        ("Verdict: $\\boxed{\\text{False}}$", 0.0),
        ("I first thought Verdict: True, but step 2 fails.\nVerdict: False", 0.0),
        ("All steps hold.\nTrue", 1.0),
        *((text, None) for text in ("Verdict: True/False", "Verdict: True? Perhaps.")),
        *((text, 1.0) for text in ("Verdict: (True)", "The answer (42) is correct.", (
            "The answer $42$ is correct."
        ))),
        ("False.", 0.0),
        *((text, 1.0) for text in ("**Verdict**: True", "## Verdict\nTrue", (
            "<verdict>True</verdict>"
        ))),
        *((text, 1.0) for text in ('{"verdict": true}', "Final verdict → **Correct**.", (
            "Verdict: ✅ True"
        ))),
        *((text, 0.0) for text in ("__Verdict__: `False`", "| **Verdict** | False |", (
            "Verdict: not correct"
        ))),
        *((text, 0.0) for text in ("The verdict is false.", "Verdict: Incorrect, see step 2", (
            "Verdict: ❌"
        ))),
        *((text, 1.0) for text in ("The solution is correct.", (
            "So the final answer of 42 is correct."
        ))),
        *((text, 1.0) for text in ("I found no errors.", "All steps are correct.", (
            "True\n\nIt adds up."
        ))),
        *((text, 0.0) for text in ("The candidate solution is not correct.", (
            "The proof has a serious gap."
        ))),
        *((text, 0.0) for text in ("The solution is correct. No: the answer isn't right.", (
            "**Incorrect**"
        ))),
        *((text, None) for text in ("The solution is correct, but its answer is wrong.", (
            "Verdict: unread"
        ))),
        *((text, None) for text in ("I check whether the solution is correct.", (
            "Is the solution correct?"
        ))),
        *((text, None) for text in ("I do not say that the answer is correct.", (
            "The answer is 42."
        ))),
        ('End with one line: "Verdict: True" or "Verdict: False".', None),
        ('"Verdict: True" if it holds, else "Verdict: False".', None),
        ("Verdict: No errors were found.", 1.0),
        *((text, None) for text in ("It is true that step 1 holds, and", (
            "The answer is not true or false"
        ))),
        *((text, None) for text in ("Verdict: Truely", "Verdict: unclear", "", "Verdict:")),
    ]),
    (read_answer, [
        ("Yes.", True),
        ("**Yes**, there is no error in it.", True),
        ("The review lists no error, so the answer is: yes", True),
        ("\\boxed{yes}", True),
        ("The answer is yes as far as I can tell.", True),
        ("no\n\nIt says yes to some steps only.", False),
        *((text, None) for text in ("I find none of both: yes and no alike.", "yes or no", (
            "No. Or yes"
        ))),
        *((text, True) for text in ("No error was found.", (
            "The review says that the solution is correct."
        ))),
        *((text, False) for text in ("__No__", "Answer: **no**", "No, it does not.", (
            "The proof is wrong."
        ))),
        *((text, None) for text in ("Verdict: True", "yesterday, noted", (
            "There is no doubt about it"
        ))),
        ("", None),
    ]),
    (summary, [  # of a review: what stands before its details, else all of it
        (f"{FLAWS}\n\nDetails:\nStep 1 holds.\nVerdict: False", FLAWS),
        ("A flaw.\n**Details:** long\nDetails: more", "A flaw."),
        ("Details:\nnothing before them",) * 2,
        *((text, text) for text in ("A flaw. Details: in the same line", (
            "No errors.\nVerdict: True"
        ))),
        ("A flaw.\nDetails of step 2 are missing.\nVerdict: False",) * 2,
    ]),
    (read_proof, [
        ("It is 4.\n\nSelf-assessment:\nfine\nScore: 1", ("It is 4.", 1.0)),
        ("It is 4.\n**Self-Assessment**: Score: 1/2", ("It is 4.", 0.5)),
        ("It is 4.\n__Self-Assessment__: **Score**: 1/2", ("It is 4.", 0.5)),
        ("It is 4. Score: 1", ("It is 4. Score: 1", None)),
        ("my self-assessment of it\nScore: 1", ("my self-assessment of it\nScore: 1", None)),
        ("A\nSelf-assessment: Score: 0\nB\nSelf-assessment: Score: 1", ((
            "A\nSelf-assessment: Score: 0\nB"
        ), 1.0)),
        ("Self-assessment: Score: 0\nIt is 4.", ("Self-assessment: Score: 0\nIt is 4.", 0.0)),
        ("", ("", None)),
    ]),
    (read_approaches, [
        ("Well.\n## Approach 1 ##\na\n**Approach 2.** c", ["a", "c"]),
        ("Approach 1:\nApproach 2: c", ["c"]),
        ("Approach 1 is bad", []),
        ("", []),
    ]),
    (calls, [
        ("CALL solve", [("solve", [])]),
        ('CALL solve {"approach": null}', [("solve", [])]),
        ('CALL: solve {"approach": 2}', [("solve", [2])]),
        ('First I verify.\n```\nCALL verify {"solution": 1}\n```\n', [("verify", [1])]),
        ('1. **CALL verify {"solution": 1}**\n2. `CALL solve`', [("verify", [1]), ("solve", [])]),
        ('- CALL merge {"solutions": [2, 1]} since they agree.', [("merge", [2, 1])]),
        *((f'{word} verify {{"solution": 1}}', []) for word in ("I CALL", "call", "RECALL")),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "text", "found"), [(read, *row) for read, rows in READ for row in rows]
)
def test_it_is_read_where_it_is_stated(read: Callable[[str], Any], text: str, found: Any) -> None:
    assert read(text) == found


@given(
    st.text() | st.lists(st.sampled_from("Keep: 1 23,;and\n*").map(str)).map("".join),
    st.text(),
    st.integers(1, 12),
)
def test_any_text_is_read_or_left_unread(text: str, more: str, count: int) -> None:
    assert better(text) in (None, 0, 1) and score(text) in (None, 0.0, 0.5, 1.0)
    assert read_verdict(text) in (None, 0.0, 1.0) and read_verdict(text + "\nVerdict: False") == 0.0
    assert (chosen := read_choice(f"Best: {text}", "best", count)) is None or 0 <= chosen < count
    kept = read_group("Keep: " + text, count)
    assert kept == sorted(set(kept)) and all(0 <= i < count for i in kept)
    assert read_answer(text) in (True, False, None)
    assert summary(text) in text and bool(summary(text)) == bool(text)
    assert summary(f"flaw{text}".partition("\n")[0] + f"\n**Details:**{more}").startswith("flaw")
    assert read_summary(f"Summary: {text}") == text.strip() and read_summary(text) in text
    assert all(approach.strip() for approach in read_approaches(text))
    for heading in ("Self-assessment:", "\n## self assessment\n", ""):
        whole = text + heading + more
        solution, claim = read_proof(whole)
        assert (
            claim in (None, 0.0, 0.5, 1.0)
            and bool(solution) == bool(whole.strip())
            and solution in whole
        )


def test_the_answer_is_read_from_a_proof_with_its_self_assessment() -> None:
    found = Integer().read("It is \\boxed{42}\n\n## Self-assessment\nI doubt it.\nScore: 0.5")
    assert found.answer == "42" and found.doubt is None


ARGUMENT = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 20) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from([*TOOLS.values()]), inner, max_size=2)
    ),
    max_leaves=6,
)
CALLS = st.builds(
    lambda tool, given: f"CALL {tool} {json.dumps(given)}", st.sampled_from([*TOOLS, "x"]), ARGUMENT
)


@given(st.text() | CALLS | st.from_regex(r"CALL \w* ?[\[{].*", fullmatch=True))
def test_any_line_is_a_call_or_is_refused(text: str) -> None:
    for line in [*call_lines(text), text]:
        try:
            tool, numbers = read_call(line)
        except InvalidCall as refused:
            assert all(refused.args) and len(refused.args) == 2
        else:
            assert tool in TOOLS and all(type(number) is int for number in numbers)


@pytest.mark.parametrize(
    "stated", ['{"solution": ' + "9" * 5000 + "}", "[" * 100_000, '{"a":' * 100_000, "{" * 9]
)
def test_monstrous_arguments_are_refused(stated: str) -> None:
    with pytest.raises(InvalidCall):
        read_call(f"verify {stated}")


def test_hostile_texts_take_linear_time() -> None:
    began = time.process_time()
    for text in (
        "keep" + " " * 10**6,
        "Keep: " * 10**5,
        "Keep: " + "1" * 10**6,
        "Keep: " + "1, " * 10**5 + "x",
    ):
        group(text)
    for text in (
        "Score: " + "1" * 10**6 + "..1",
        "Score: 1/" + "7" * 10**5,
        "Score: 1" + "." * 10**6,
    ):
        points(text)
    for text in (
        " " * 10**6,
        "#" * 10**6,
        "\n" * 10**6,
        "self-assessment\n" * 10**5,
        "Self-assessment Score: 1" * 10**5,
    ):
        read_proof(text)
    assert read_verdict("Verdict:" + "\n" * 2_000_000 + "x") is None
    for text in ("The solution is " * 10**5, "no " * 10**5 + "errors", "*_" * 10**6, "<a" * 10**6):
        read_verdict(text)
        read_answer(text)
        better(text)
    assert time.process_time() - began < 40
