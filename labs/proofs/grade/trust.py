"""How far a grader's points can be trusted, in figures: beside those of people, and with attacks behind the proofs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from core.base.prices import Prices
from core.base.stats import Estimate, of_sums
from core.types import Completion
from labs.proofs import agreement
from labs.proofs.agreement import Bias, Pair
from labs.proofs.grade.figures import cost
from labs.proofs.grade.ways import Way
from labs.proofs.graded import GradedProof
from labs.proofs.proofs import UNREADABLE, Points


def pairs_of(proofs: Sequence[GradedProof], points: Sequence[Points]) -> list[Pair]:
    """People's points and the grader's. The length is that of the proof as it was written."""
    return [
        Pair(proof.problem.id, proof.points, each.grade, len(proof.text), proof.writer or "unknown")
        for proof, each in zip(proofs, points, strict=True)
    ]


def figures(way: Way, points: Sequence[Points], prices: Prices | None) -> dict[str, Any]:
    """What `points` of the proofs of a way come to beside people's."""
    pairs = pairs_of(way.proofs, points)
    order = agreement.order(pairs)
    asked = {id(each): each for each in points}.values()  # the same proof is graded once
    gradings = [grading for each in asked for grading in each.gradings]
    return {
        "way": way.key,
        "prompt": way.prompt.name,
        "attack": way.attack or None,
        "has_reference": way.has_reference,
        "proofs": len(pairs),
        "graded": len(pairs) - agreement.missing(pairs),
        "missing": dict(Counter(each.missing for each in points if each.missing)),
        "not_delivered": dict(Counter(each.ungraded for each in points if each.ungraded and not each.missing)),
        "gradings": len(gradings),
        "missing_gradings": dict(Counter(each.why or UNREADABLE for each in gradings if each.points is None)),
        "asked_again": sum(len(each.calls) - 1 for each in gradings),
        "mean_absolute_error": agreement.mean_absolute_error(pairs).to_json(),
        "bucket_accuracy": agreement.bucket_accuracy(pairs).to_json(),
        "order_kept": agreement.order_kept(pairs).to_json(),
        "order": asdict(order),
        "advantage_difference": agreement.advantage_difference(pairs).to_json(),
        "quadratic_kappa": agreement.quadratic_kappa(pairs).to_json(),
        "bias": _bias(agreement.bias(pairs)),
        "bias_by_writer": [_bias(each) for each in agreement.bias_by_writer(pairs)],
        "bias_by_length": [_bias(each) for each in agreement.bias_by_length(pairs)],
        "distribution": [each.to_json() for each in agreement.distribution([(p.problem, p.grader) for p in pairs])],
        "given": counts([pair.grader for pair in pairs]),
        "tokens_read": _each(pairs, points, lambda call: call.counted[0]),
        "tokens_written": _each(pairs, points, lambda call: call.counted[2]),
        "dollars": _each(pairs, points, lambda call: prices.dollars(call.counted)) if prices else None,
        **cost([call for each in asked for call in each.calls], prices),
    }


def people(proofs: Sequence[GradedProof]) -> dict[str, Any]:
    """What people gave."""
    given = [(proof.problem.id, float(proof.points)) for proof in proofs]
    return {
        "given": counts([points for _, points in given]),
        "distribution": [each.to_json() for each in agreement.distribution(given)],
    }


def moved(plain: Way, before: Sequence[Points], attack: Way, after: Sequence[Points]) -> dict[str, Any]:
    """What an attack changes, proof by proof, in points."""
    one, other = pairs_of(plain.proofs, before), pairs_of(attack.proofs, after)
    change = agreement.change(one, other)
    steps = [
        b.grader - a.grader for a, b in zip(one, other, strict=True) if a.grader is not None and b.grader is not None
    ]
    lost = sum(a.grader is not None and b.grader is None for a, b in zip(one, other, strict=True))
    found = sum(a.grader is None and b.grader is not None for a, b in zip(one, other, strict=True))
    return {
        "attack": attack.attack,
        "prompt": attack.prompt.name,
        "change": asdict(change) if change else None,
        "proofs": len(steps),
        "raised": sum(step > 0 for step in steps),
        "lowered": sum(step < 0 for step in steps),
        "same": steps.count(0),
        "became_missing": lost,
        "became_readable": found,
        "cut_away": sum(each.left_out > 0 for each in after),
    }


def raw(proofs: Sequence[GradedProof], graded: Sequence[tuple[Way, Sequence[Points]]]) -> list[dict[str, Any]]:
    """Every proof with people's points and, of each way, the grader's and its words."""
    return [
        {
            "problem": proof.problem.id,
            "writer": proof.writer,
            "length": len(proof.text),
            "human": proof.points,
            "ways": {way.key: _raw(points[place]) for way, points in graded},
        }
        for place, proof in enumerate(proofs)
    ]


def counts(points: Sequence[float | None]) -> list[int]:
    """How many proofs got 0, 1, … 7 points (a mean: the nearer ones)."""
    known = Counter(int(each + 0.5) for each in points if each is not None)
    return [known[value] for value in range(8)]


def _raw(points: Points) -> dict[str, Any]:
    return {
        "points": points.grade,
        "missing": points.missing or points.ungraded,
        "grades": [each.points for each in points.gradings],
        "reasons": [each.reason for each in points.gradings],
        "keys": [call.key for call in points.calls],
        "left_out": points.left_out,
    }


def _bias(of: Bias | None) -> dict[str, Any] | None:
    return asdict(of) if of else None


def _each(
    pairs: Sequence[Pair], points: Sequence[Points], amount: Callable[[Completion], float | None]
) -> dict[str, Any] | None:
    """What a grading of a proof takes, attempts that came to nothing included: the mean over proofs; None where it was
    not counted."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for pair, each in zip(pairs, points, strict=True):
        if not each.gradings:
            continue
        for call in each.calls:
            took = 0.0 if call.error else amount(call)
            if took is None:
                return None
            sums[pair.problem][1] += took
        sums[pair.problem][0] += 1
    made: Estimate = of_sums(list(sums.values()), agreement.ratio)
    return made.to_json()
