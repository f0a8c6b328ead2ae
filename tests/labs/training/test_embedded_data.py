"""The training data of the embedded model: they hold nothing that is measured, and scaffolds can read the answers."""

import re
from collections import Counter
from itertools import islice

from core.problems import sets
from core.scaffolds import common, deepseek_math, nomos, reasoning_cache, selfcheck, static_math_agent
from core.scaffolds.common import stated_score
from core.scaffolds.math_agent import call_lines, read_call
from core.scaffolds.verification import read_verdict
from labs.proofs import points as grader
from scripts.embedded import make_sums, sums
from scripts.embedded.data import examples
from scripts.embedded.texts import Mix

MIX = Mix(0.4, 0.4, 0.2, 0.15, 0.6, 0.85, 0.25, (0.05, 0.4))


ASKED = Mix(0, 0, 0, 0.15, 0.6, 0.85, 0.25, (0.05, 0.4), roles=1)


def factors(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(a), int(b)) for a, b in re.findall(r"\b(\d)\s*[*×·x]\s*(\d\d)\b", text)))


def test_training_examples_are_the_same_for_a_seed_and_hold_no_held_out_problem() -> None:
    drawn = list(islice(examples(1, MIX), 1500))
    assert drawn[:200] == list(islice(examples(1, MIX), 200)) != list(islice(examples(2, MIX), 200))
    held_out = [name for name in sets.BUNDLED if name not in make_sums.TO_TRAIN_ON]
    measured = {factors(p.statement) for name in held_out for p in sets.load(name).problems}
    seen = 0
    for example in drawn:
        solution = example.target.split("</think>")[-1]
        terms = [sums.Term(int(a), int(b)) for a, b in re.findall(r"^(\d)\*(\d\d)=", solution, re.MULTILINE)]
        if "\\boxed" in solution and len(terms) >= 3:
            seen += 1
            assert not sums.is_held_out(terms)
            assert tuple(sorted(terms)) not in measured
    assert seen > 500


def test_a_control_of_star_trains_on_none_of_the_products_that_it_evaluates_on() -> None:
    kept, withheld = (
        {term for row in make_sums.control_rows(products, "x", 7, 300, 4, 4) for term in factors(str(row["problem"]))}
        for products in ("kept", "withheld")
    )
    assert len(sums.PRODUCTS) == 614 and withheld == sums.WITHHELD and len(withheld) == 122
    assert kept <= sums.PRODUCTS.keys() - withheld


def test_what_scaffolds_ask_is_answered_so_that_they_can_read_it() -> None:
    """Each role's answers are read by the scaffold's own reader, and follow from the text of the prompt."""
    read: Counter[str] = Counter()
    for example in islice(examples(3, ASKED), 2000):
        if example.given or not example.thinking:  # an answer that was opened is not whole; without thinking a guess
            continue
        prompt = example.messages[-1]["content"]
        answer = example.target.split("</think>")[-1].removesuffix("<|im_end|>").strip()
        if prompt.startswith(("You grade", "You compare")):
            proof = re.split(r"----- \w{16} (?:begins|ends) -----", prompt)[1]
            given = grader.read(answer)
            if prompt.startswith("You grade"):
                right = len(re.findall(r"^\d\*\d\d=", proof, re.MULTILINE)) - wrong_products(proof)
                assert given == sums.points(len(factors(statement_of(prompt))), right)
            else:
                stated, box = re.search(r"right answer:\n(\d+)\n", prompt), re.search(r"\\boxed\{(\d+)\}", proof)
                assert stated and box and given == (7 if stated[1] == box[1] else 0)
            read["grade"] += 1
            continue
        if '"yes" or "no"' in prompt:  # about a review that is shown alone
            assert selfcheck.read_answer(answer) == ("Verdict: True" in prompt)
            read["classify"] += 1
            continue
        assert not sums.is_held_out([sums.Term(a, b) for a, b in factors(statement_of(prompt))])
        wrong = [wrong_products(text) for text in re.split(r"\n\nCandidate \d:\n", prompt)[1:]]
        if '"Better: 1"' in prompt:
            chosen = common.read_selection(answer)
            assert chosen is not None and wrong[chosen] == min(wrong)
            read["select"] += 1
        elif '"Best: 2"' in prompt:
            best = static_math_agent.read_best(answer, len(wrong))
            assert best is not None and wrong[best] == min(wrong)
            read["best"] += 1
        elif "You direct the work" in prompt:
            assert [read_call(line) for line in call_lines(answer)]
            read["plan"] += 1
        elif '"Keep: "' in prompt:
            kept = nomos.read_group(answer, prompt.count("\nJudgement "))
            boxes = re.findall(r"(?:\\boxed\{|So the remainder is )(\d+)", prompt)
            assert kept == [i for i, box in enumerate(boxes) if box == boxes[kept[0]]]
            read["group"] += 1
        elif '"Summary:"' in prompt:
            summary = reasoning_cache.read_summary(answer)
            assert len(re.findall(r"\d\*\d\d:", summary)) == len(factors(statement_of(prompt)))
            read["summary"] += 1
        elif "and the points" in prompt:
            points = stated_score(answer, "Score", nomos.POINTS)
            assert points is not None and (points == 7) == (wrong_products(prompt) == 0)
            read["judge"] += 1
        elif "Self-assessment" in prompt:
            proof, claim = deepseek_math.read_proof(answer)
            assert (claim == 1.0) == (wrong_products(proof) == 0) and "Score" not in proof
            read["prove" if "Review 1:" not in prompt else "refine"] += 1
        elif '"Score: 0.5"' in prompt or '"Verdict: True"' in prompt:
            score = stated_score(answer, "Score", deepseek_math.SCORES)
            verdict = read_verdict(answer) if score is None else float(score == 1.0)
            assert (verdict == 1.0) == (answer.startswith("No errors."))
            read["report"] += 1
        else:
            assert "\\boxed" in answer or "So the remainder is" in answer
            read["correct" if "reports:" in prompt or "Report of" in prompt else "again"] += 1
    assert len(read) == 13 and min(read.values()) > 12, read


def statement_of(prompt: str) -> str:
    found = re.search(r"(?:Find|Prove that) the remainder when .* is divided by 1000", prompt)
    assert found
    return found[0]


def wrong_products(text: str) -> int:
    return sum(int(a) * int(b) != int(c) for a, b, c in re.findall(r"^(\d)\*(\d\d)=(\d+)", text, re.MULTILINE))
