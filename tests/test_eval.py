"""Reading and judging answers: a table of cases (cases/boxed.json), properties, and the judge in its process."""

import asyncio
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import judge as judge_module
from core.errors import UserError
from core.eval import DOUBTS, Extraction, canonical, equivalent, extract, is_correct, judge, pass_at_k, vote

FOLDER = Path(__file__).parent / "cases"
CASES: list[dict[str, Any]] = json.loads((FOLDER / "boxed.json").read_text(encoding="utf-8"))
PAIRS: list[dict[str, Any]] = json.loads((FOLDER / "equal.json").read_text(encoding="utf-8"))
# Texts made of what matters to the reader, far likelier to hit an edge than arbitrary characters.
TOKENS = r"""\boxed \boxed{ \fbox{ { } \{ \} \\ \ \text{ \textbf \left \right \, \! \; {,} , . % \% $ \$ ^\circ ^ _ ° 0
00 7 42 1,024 -5 − + = x m+n \frac{1}{2} \frac12 / ( ) \circ or cm thousand"""
PIECES = st.sampled_from([*TOKENS.split(), " ", "\n", "\u2009", "\u200b", "\ud800"])
LATEX = st.lists(PIECES, max_size=25).map("".join)
TYPES = st.sampled_from(["integer", "math"])


@pytest.mark.parametrize("case", CASES, ids=[f"{i:03d} {case['note']}" for i, case in enumerate(CASES)])
def test_case(case: dict[str, Any]) -> None:
    found = extract(case["text"], case["type"], case.get("truncated", False))
    assert (found.answer, found.doubt) == (case["answer"], case["doubt"])
    if "truth" in case:
        assert is_correct(found.answer, case["truth"], case["type"]) is case["correct"]


def test_the_table_covers_every_doubt() -> None:
    assert {case["doubt"] for case in CASES} == {None, *DOUBTS}


@given(st.one_of(LATEX, st.text(max_size=200)), TYPES, st.booleans())
def test_extract_never_raises_and_its_answer_can_be_stored(text: str, kind: str, truncated: bool) -> None:
    found = extract(text, kind, truncated)
    assert found.doubt is None or found.doubt in DOUBTS
    (found.answer or "").encode("utf-8")
    canonical(text, kind)
    is_correct(text, text, "integer")


@given(LATEX, TYPES)
def test_boxing_an_answer_reads_the_same_answer(text: str, kind: str) -> None:
    answer = extract(rf"\boxed{{{text}}}", kind).answer
    if answer is not None:
        again = extract(rf"\boxed{{{answer}}}", kind)
        assert again.answer == answer
        assert again.doubt in (None, "not an integer")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-0.50", "-1/2"),
        (r"-\frac{6}{8}", "-3/4"),
        (r"\frac{-6}{8}", "-3/4"),
        ("- 6 / 8", "-3/4"),
        (r"\tfrac12", "1/2"),
        ("4.0", "4"),
        ("1/0", "1/0"),
        ("1/2/3", "1/2/3"),
        ("0.5/2", "0.5/2"),
        ("4 2", "4 2"),
        (r"1\frac{1}{2}", r"1\frac{1}{2}"),  # one and a half, not 11/2
        (r"\frac{1}{2}3", r"\frac{1}{2}3"),
        ("1e9", "1e9"),
        ("2x + 1", "2x+1"),
        ("5, 600", "5, 600"),
        ("( 1,2 )", "(1, 2)"),
        (r"\pi r", r"\pi r"),
        ("No Solution", "no solution"),
    ],
)
def test_math_votes_are_counted_on(text: str, expected: str) -> None:
    assert canonical(text, "math") == expected


@given(LATEX, TYPES)
def test_a_canonical_answer_is_its_own_canonical_answer(text: str, kind: str) -> None:
    once = canonical(text, kind)
    assert canonical(once, kind) == once


@given(LATEX, LATEX, st.integers(0, 999))
def test_the_only_box_is_found_anywhere(before: str, after: str, answer: int) -> None:
    before, after = (text.replace(r"\boxed", "").replace(r"\fbox", "") for text in (before, after))
    found = extract(rf"{before}\boxed{{{answer}}} {after}")
    assert found == extract(rf"\boxed{{{answer}}}")
    assert (found.answer, found.doubt) == (str(answer), None)


@given(
    st.integers(0, 999), st.integers(0, 999), st.sampled_from([r"\frac{%d}{%d}", "%d/%d", "%d, %d", "%d %d", "%d^{%d}"])
)
def test_digits_are_never_taken_out_of_an_expression(a: int, b: int, form: str) -> None:
    found = extract(rf"\boxed{{{form % (a, b)}}}")
    if ("frac" in form or "/" in form) and b and a % b == 0:  # nothing is guessed: it divides
        assert found == Extraction(str(a // b), None)
    else:
        assert found.doubt == "not an integer"
        assert not any(is_correct(found.answer, str(n)) for n in (a, b))


@pytest.mark.parametrize(
    "text",
    [
        "{" * 10_000_000,
        "}" * 10_000_000,
        "\\" * 10_000_000,
        r"\boxed{" * 1_000_000,
        r"\boxed{" * 1_000_000 + "}" * 1_000_000,
        r"\boxed{7}" * 1_000_000,
        r"\boxed{}" * 1_000_000,
        r"\boxed{" + "{}" * 2_000_000,
        r"\boxed" + " " * 10_000_000,
        r"\boxed " * 1_000_000,
        r"\boxed " + "9" * 10_000_000,
        r"\boxed{" + "9" * 10_000_000 + "}",
        "".join(rf"\boxed{{{'{' * (i % 400)}7{'}' * (i % 400)}}}" for i in range(2_000)),
    ],
    ids=lambda text: text[:12],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    started = time.process_time()
    extract(text)
    assert time.process_time() - started < 15  # about 1 s; a quadratic reader needs hours


# --- votes ---


def test_the_majority_wins_and_what_says_nothing_does_not_vote() -> None:
    result = vote(["42", None, "042", "7", None], "42")
    assert (result.answer, result.tied, result.score) == ("42", ("42",), 1.0)
    assert result.counts == {"42": 2, "7": 1}


def test_tied_answers_score_their_mean_and_stand_in_order() -> None:
    result = vote(["100", "7", "42"], "7")
    assert (result.answer, result.tied) == ("7", ("7", "42", "100"))
    assert result.score == pytest.approx(1 / 3)


@pytest.mark.parametrize("answers", [[], [None, None]])
def test_nobody_voting_scores_nothing(answers: list[str | None]) -> None:
    assert vote(answers, "42") == vote([], "42")
    assert (vote(answers, "42").answer, vote(answers, "42").score) == (None, 0.0)


def test_answers_that_are_no_integers_vote_and_are_wrong() -> None:
    assert vote([r"\frac{1}{2}", r"\frac{1}{2}", "42"], "42").score == 0.0


def test_math_votes_are_counted_on_exact_numbers() -> None:
    assert vote(["0.5", r"\frac12", r"\dfrac{2}{4}", "7"], "1/2", "math").counts == {"1/2": 3, "7": 1}


@given(st.lists(st.sampled_from([None, "1", "01", "2", "3", "x"])), st.sampled_from(["1", "2"]), st.randoms())
def test_a_vote_does_not_depend_on_order(answers: list[str | None], truth: str, random: Any) -> None:
    result = vote(answers, truth)
    assert 0 <= result.score <= 1
    assert sum(result.counts.values()) == sum(answer is not None for answer in answers)
    random.shuffle(answers)
    assert vote(answers, truth) == result


# --- pass@k ---


@pytest.mark.parametrize("n", range(1, 9))
def test_pass_at_k_is_the_share_of_draws_with_a_correct_one(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([i < c for i in range(n)], k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-15)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_k_starts_at_the_mean_and_grows_with_k(nc: tuple[int, int]) -> None:
    n, c = nc
    values = [pass_at_k(n, c, k) for k in range(1, n + 1)]
    assert values[0] == c / n
    assert values == sorted(values)
    assert values[-1] == (1.0 if c else 0.0)


def test_pass_at_k_is_exact_for_large_n() -> None:
    assert pass_at_k(1_000_000, 1, 1_000) == 0.001
    assert pass_at_k(10_000, 1, 9_999) == 0.9999
    assert pass_at_k(10_000, 5_000, 5_000) == pytest.approx(1.0)
    assert pass_at_k(100_000, 3, 7) == pytest.approx(1 - math.prod((99_997 - i) / (100_000 - i) for i in range(7)))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 5), (4, 5, 1), (4, -1, 1), (4, 2, 0), (0, 0, 1)])
def test_pass_at_k_refuses_what_cannot_be_drawn(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=r"pass@k needs"):
        pass_at_k(n, c, k)


# --- the judge of math answers ---


def test_equivalent_answers() -> None:
    assert equivalent("042", "42")
    assert equivalent("1,024", "1024")
    assert not equivalent("42", "43")
    assert equivalent(r"\frac{1}{2}", "0.5", "math")
    assert equivalent(r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}", "math")


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{i:03d} {pair['note']}" for i, pair in enumerate(PAIRS)])
def test_pair(pair: dict[str, Any]) -> None:
    """Two math answers, either way round, as they are written and as a box that is read again."""
    one, other, expected = pair["one"], pair["other"], pair["equal"]
    assert judge(one, other, "math") is expected
    assert judge(other, one, "math") is expected
    if "boxed" not in pair:  # a box loses the name of a number, and degrees
        assert is_correct(extract(rf"\boxed{{{one}}}", "math").answer, other, "math") is expected


def spellings(number: Fraction) -> list[str]:
    sign, p, q = "-" if number < 0 else "", abs(number.numerator), number.denominator
    found = [f"{sign}{p}/{q}", rf"{sign}\frac{{{p}}}{{{q}}}", rf"{sign}\dfrac{{{7 * p}}}{{{7 * q}}}"]
    found += [rf"{sign}{p} \cdot {q}^{{-1}}", rf"{sign}\frac{{\sqrt{{2}} \cdot {p}}}{{{q}\sqrt2}}"]
    if 10**60 % q == 0:
        digits = str(p * 10**60 // q).zfill(61)
        found.append(f"{sign}{digits[:-60]}.{digits[-60:]}")
    return found


NUMBERS = st.fractions(-100, 100, max_denominator=100) | st.builds(
    Fraction, st.integers(1, 10**40), st.sampled_from([1, 2**90, 10**50, 3**80])
)


@settings(max_examples=60)
@given(NUMBERS, st.sampled_from([0, 1, -1]), st.sampled_from([1, 10**6, 10**31, 10**55]), st.data())
def test_numbers_are_the_same_only_where_they_are_equal(number: Fraction, shift: int, by: int, data: Any) -> None:
    near = number + Fraction(shift, by)
    one, other = (data.draw(st.sampled_from(spellings(n))) for n in (number, near))
    assert judge(one, other, "math") is (number == near)
    assert judge(other, one, "math") is (number == near)


@settings(max_examples=60)
@given(st.sampled_from(PAIRS), st.sampled_from(PAIRS))
def test_verdicts_do_not_depend_on_the_order(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert judge(first["one"], second["other"], "math") is judge(second["other"], first["one"], "math")


def test_no_answer_is_wrong() -> None:
    assert judge(None, "42") is False
    assert is_correct("", "") is False


def test_a_comparison_that_hangs_is_ended_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(judge_module, "DEADLINE_S", 0.5)
    started = time.monotonic()
    assert judge("9^{9^{9^{9^9}}}+1", "x", "math") is None
    assert not is_correct("9^{9^{9^{9^9}}}+1", "x", "math")  # known by now
    assert time.monotonic() - started < 30
    assert "no verdict" in caplog.text
    monkeypatch.undo()
    assert is_correct("x+2", "2+x", "math")  # a new child


def test_a_child_that_died_is_replaced() -> None:
    assert is_correct("x+3", "3+x", "math")
    process = judge_module._JUDGE._process
    assert process
    process.kill()
    process.wait()
    assert is_correct("x+4", "4+x", "math")


def test_an_interrupted_comparison_does_not_answer_the_next_one() -> None:
    assert not is_correct("x+5", "y", "math")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        is_correct("9^{9^{9^{9^9}}}+2", "x", "math")
    assert not is_correct("x+7", "z", "math")
    assert is_correct("x+6", "6+x", "math")


def test_a_missing_math_verify_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="not installed"):
        judge_module._Judge().equal("1", "2")


def test_the_judge_works_from_threads_under_asyncio() -> None:
    async def all_at_once() -> list[bool]:
        return await asyncio.gather(
            *(asyncio.to_thread(is_correct, f"(x+{n})^2", f"x^2+{2 * n}x+{n * n + n % 2}", "math") for n in range(1, 9))
        )

    assert asyncio.run(all_at_once()) == [n % 2 == 0 for n in range(1, 9)]


def test_importing_needs_no_heavy_package() -> None:
    program = "import sys, core.eval, core.stats, core.compare; print([m for m in sys.modules if m in HEAVY])"
    heavy = ["torch", "sympy", "math_verify", "openai", "matplotlib"]
    done = subprocess.run(
        [sys.executable, "-c", program.replace("HEAVY", repr(heavy))], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
