"""The search of DeepSeekMath-V2, call by call."""

from typing import Any

from core.types import Member, Population
from harness.scaffolds.deepseek_math import DEEPSEEK_MATH, deepseek_math
from tests.fakes.model import Model, Names, constants_with, run, traced

SIZES: dict[str, Any] = {
    "N": 4,
    "VERIFY_SAMPLES": 4,
    "ROUNDS": 2,
    "KEEP": 4,
    "REVIEWS": 2,
    "REFINEMENTS": 1,
}
SIZES |= {"VERIFY_TOKENS": 50}


def proof(names: Names, claim: str = "0.5") -> str:
    return (
        f"proof {names[0]}-{names[1]} is \\boxed{{42}}\n\n## Self-assessment\nI doubt it.\nScore: "
        f"{claim}"
    )


def scored(scores: dict[Any, str], default: str = "0") -> Any:
    """Reply with proofs, and with reviews whose score is found under (t, i, review) or (t, i), or
    is the default."""

    def reply(names: Names, prompt: str) -> str:
        if names[0] != "verify":
            return proof(names)
        score = scores.get(names[1:], scores.get(names[1:3], default))
        return f"review {'-'.join(map(str, names[1:]))}, all told.\nScore: {score}"

    return reply


def answer(populations: list[Population]) -> Member:
    (winner,) = populations[-1]
    assert winner.carried_over
    return winner


def test_it_refines_and_reviews_for_two_rounds() -> None:
    populations, model = traced(deepseek_math, scored({}, "0.5"), **SIZES)
    assert len(model.asked) == 60 == DEEPSEEK_MATH.max_completions(constants_with(SIZES))
    assert [len(p) for p in populations] == [4, 4, 1, 4, 4, 1, 4, 4, 1]
    assert [p[0].carried_over for p in populations] == [
        False,
        True,
        True,
        True,
        False,
        True,
        True,
        False,
        True,
    ]
    assert [len(model.prompts(t)) for t in range(4)] == [4, 4, 4, 0]
    assert [len(model.prompts("verify", t)) for t in range(3)] == [16, 16, 16]
    assert {
        changes.get("max_tokens") for names, _, changes in model.asked if names[0] == "verify"
    } == {50}
    reviewed = populations[1][2]
    assert (
        reviewed.self_score == 0.5
        and reviewed.verdicts == [0.5] * 4
        and len(reviewed.side_calls) == 4
    )
    assert not any(member.notes for population in populations for member in population)


def test_the_best_are_refined_with_their_harshest_reviews() -> None:
    scores = {
        (0, 0): "0.5",
        (0, 2): "0.5",
        (0, 2, 1): "0",
        (0, 2, 3): "0",
        (0, 3): "0.5",
        (0, 3, 0): "1",
    }
    populations, model = traced(deepseek_math, scored(scores), **SIZES | {"KEEP": 3, "ROUNDS": 1})
    assert [m.completion.text[:9] for m in populations[3]] == [
        "proof 0-3",
        "proof 0-0",
        "proof 0-2",
    ]
    assert "review 0-2-1" in model.prompts(1, 2)[0] and "review 0-2-3" in model.prompts(1, 2)[0]
    assert "review 0-3-0" not in model.prompts(1, 0)[0], "the mildest of the four"


def test_it_stops_when_every_review_of_a_proof_scores_1() -> None:
    populations, model = traced(deepseek_math, scored({(0, 2): "1"}, "0.5"), **SIZES)
    assert len(model.asked) == 20 and answer(populations).parents == [2]
    populations, model = traced(deepseek_math, scored({(1, 1): "1"}, "0.5"), **SIZES)
    assert len(model.asked) == 40 and answer(populations).completion.text.startswith("proof 1-1")


def test_a_review_that_cannot_be_read_is_no_pass_and_no_fail() -> None:
    populations, model = traced(
        deepseek_math, scored({(0, 2): "1", (0, 2, 1): "perfect"}, "0.5"), **SIZES
    )
    assert len(model.asked) == 60, "three of three do not end it"
    member = populations[1][2]
    assert member.self_score == 1.0 and member.verdicts == [1.0, None, 1.0, 1.0]
    assert member.notes == ["unreadable verdict"]
    assert answer(populations).completion.text.startswith("proof 0-2"), "its mean is still the best"
    model = Model(scored({(0, 2): "1", (0, 2, 1): "perfect", (2, 0): "1"}, "0.5"))
    assert answer(run(deepseek_math, model, **SIZES)).completion.text.startswith("proof 2-0"), (
        "no doubt left there"
    )


def test_the_best_mean_wins_then_self_assessment_then_a_lot() -> None:
    def reply(names: Names, prompt: str) -> str:
        if names[0] == "verify":
            return "Score: 0.5"
        return proof(names, "1" if names == (0, 1) else "0")

    assert answer(run(deepseek_math, Model(reply), **SIZES)).completion.text.startswith("proof 0-1")
    model = Model(scored({(0, 1): "0.5", (2, 3): "0.5", (2, 3, 0): "1"}))
    assert answer(run(deepseek_math, model, **SIZES)).completion.text.startswith("proof 2-3")
    drawn = [run(deepseek_math, Model(scored({}, "0.5")), SEED=seed, **SIZES) for seed in range(20)]
    assert len({answer(populations).completion.text[:9] for populations in drawn}) > 5, (
        "no place is favoured"
    )


def test_the_loop_of_the_paper_in_small() -> None:
    """Each of the best is refined once with each of its harshest reviews."""
    sizes = SIZES | {"N": 3, "VERIFY_SAMPLES": 3, "KEEP": 3, "REVIEWS": 1, "REFINEMENTS": 2}
    populations, model = traced(deepseek_math, scored({(0, 1, 2): "0.5"}, "0"), **sizes)
    assert (
        len(model.asked) == (3 + 6 + 6) * 4 == DEEPSEEK_MATH.max_completions(constants_with(sizes))
    )
    assert sorted(member.parents[0] for member in populations[4]) == [0, 0, 1, 1, 2, 2]
    shown = [prompt.split("Review 1:\nreview ")[1][:5] for prompt in model.prompts(1)]
    assert len(set(shown)) == 6 and "0-1-2" not in shown, (
        "six pairs; the mildest review of proof 1 is not needed"
    )
    paper = {
        "N": 64,
        "VERIFY_SAMPLES": 64,
        "ROUNDS": 16,
        "KEEP": 64,
        "REVIEWS": 1,
        "REFINEMENTS": 8,
    }
    assert DEEPSEEK_MATH.max_completions(constants_with(paper)) == 536_640
