"""Requests to a grader: the prompt that fits, a file instead, and its faults in one line."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from core.base.errors import UserError
from core.types import Problem
from labs.proofs import rubric
from labs.proofs.rubric import asked, read_prompt
from tests.labs.proofs.conftest import ANY_TEXT, HOSTILE

PROOF = Problem("p1", "Show that n is even.", None, "proof", solution="By parity.", guidelines="1 for n = 2")
SCHEME = replace(PROOF, guidelines="", grading_scheme="3: n = 2\n4: the rest")
ANSWER = Problem("p2", "How much is 6*7?", "42")


def request(problem: Problem, proof: str = "It is clear.", **more: rubric.Prompt) -> str:
    [message], _ = asked(problem, proof, 0, **more)
    assert message["role"] == "user"
    return message["content"]


def test_the_prompt_fits_what_is_known_of_the_problem() -> None:
    with_guidelines, with_scheme = request(PROOF), request(SCHEME)
    assert "By parity." in with_guidelines and "1 for n = 2" in with_guidelines
    assert "marking scheme" in with_scheme and "3: n = 2" in with_scheme and "By parity." not in with_scheme
    assert "1 for n = 2" in request(replace(PROOF, solution="")), "guidelines alone are a scheme"
    assert "The right answer:\n42" in request(ANSWER)
    for words in (with_guidelines, with_scheme, request(ANSWER)):
        assert '"Points: N"' in words.split("\n")[-1]
    schemes = [asked(problem, "x", 0)[1] for problem in (PROOF, SCHEME, ANSWER)]
    assert schemes == ["1 for n = 2", "3: n = 2\n4: the rest", ""]


@given(ANY_TEXT | HOSTILE)
def test_a_proof_fills_in_no_place_and_ends_no_fence(proof: str) -> None:
    for problem in (PROOF, SCHEME, ANSWER):
        words = request(problem, proof)
        drawn = re.findall("lines that hold ([0-9a-f]{16}) stands", words)[-1]
        before, rest = words.split(f"----- {drawn} begins -----\n", 1)
        inside, behind = rest.split(f"\n----- {drawn} ends -----", 1)
        assert inside == proof and drawn not in before and drawn in behind


def test_a_file_replaces_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Is {proof} right for {problem}? Think of \\frac{{1}}{{2}}.")
    found = read_prompt(str(path))
    assert found and found.name == "mine.txt"
    words = request(replace(PROOF, guidelines="", solution=""), chosen=found)
    assert "\\frac{1}{2}" in words and "By parity." not in words and words.startswith("Is ----- ")
    assert asked(PROOF, "x", 0, found)[1] == ""
    assert read_prompt("") is None and read_prompt("scheme") == rubric.Prompt("scheme", rubric.SCHEME)


@pytest.mark.parametrize(
    "text",
    [
        *(f"{{problem}} {{proof}} {bad}" for bad in ("{points}", "{}", "{0}", "\\frac{1}{2}", "}")),
        *(f"{{problem}} {bad}" for bad in ("{proof.__class__}", "{proof!r}", "{proof:{answer}}", "{guidelines}")),
        *("{proof}", ""),
    ],
)
def test_a_file_with_other_places_is_refused_in_a_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        read_prompt(str(path))
    assert "{problem}, {solution}" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("problem", "chosen"),
    [
        (replace(PROOF, guidelines=""), ""),
        (replace(PROOF, solution=""), "guidelines"),
        (replace(PROOF, guidelines=""), "scheme"),
        (replace(ANSWER, guidelines="x"), "scheme"),
    ],
)
def test_a_problem_that_lacks_a_place_of_the_prompt_is_refused(problem: Problem, chosen: str) -> None:
    with pytest.raises(UserError, match=problem.id):
        asked(problem, "x", 0, read_prompt(chosen))
