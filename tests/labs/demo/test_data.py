"""The training data of the embedded model: they hold nothing that is measured."""

import re
from itertools import islice

from harness.problems import sets
from labs.demo import make_sums, sums
from labs.demo.data import examples
from labs.demo.texts import Mix, attempt, merge

MIX = Mix(0.4, 0.4, 0.2, 0.15, 0.6, 0.85, 0.25, (0.05, 0.4))


def factors(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(
        sorted((int(a), int(b)) for a, b in re.findall(r"\b(\d)\s*[*×·x]\s*(\d\d)\b", text))
    )


def test_training_examples_are_the_same_for_a_seed_and_hold_no_held_out_problem() -> None:
    drawn = list(islice(examples(1, MIX), 400))
    assert drawn[:200] == list(islice(examples(1, MIX), 200)) != list(islice(examples(2, MIX), 200))
    held_out = [name for name in sets.BUNDLED if name not in make_sums.TO_TRAIN_ON]
    measured = {factors(p.statement) for name in held_out for p in sets.load(name).problems}
    seen = 0
    for example in drawn:
        solution = example.target.split("</think>")[-1]
        terms = [
            sums.Term(int(a), int(b))
            for a, b in re.findall(r"^(\d)\*(\d\d)=", solution, re.MULTILINE)
        ]
        if "\\boxed" in solution and len(terms) >= 3:
            seen += 1
            assert not sums.is_held_out(terms)
            assert tuple(sorted(terms)) not in measured
    assert seen > 120


def test_a_control_of_star_trains_on_none_of_the_products_that_it_evaluates_on() -> None:
    kept, withheld = (
        {
            term
            for row in make_sums.control_rows(products, "x", 7, 300, 4, 4)
            for term in factors(str(row["problem"]))
        }
        for products in ("kept", "withheld")
    )
    assert len(sums.PRODUCTS) == 614 and withheld == sums.WITHHELD and len(withheld) == 122
    assert kept <= sums.PRODUCTS.keys() - withheld


def test_an_aggregation_that_ignores_its_candidates_is_a_new_attempt() -> None:
    term = sums.Term(7, 46)
    for votes in ([], [322, 322, 322], [282, 322, 999]):
        chances = merge(term, votes, MIX.ignoring_candidates)
        assert chances == attempt(term, MIX.slips, MIX.forgets)
        assert votes == [] or chances != merge(term, votes, MIX)
