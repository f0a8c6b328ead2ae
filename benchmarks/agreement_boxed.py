"""Read boxed answers with the functions of two tasks of lm_eval. lm_eval imports this module for
benchmarks/agreement.py."""

from typing import Any

from lm_eval.tasks.hendrycks_math import utils as hendrycks
from math_verify import parse, verify


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float | str]:
    """Return the verdict and the answer of each reading of the reply."""
    reply = results[0]
    target = doc["target"]
    box = hendrycks.last_boxed_only_string(reply)
    answer = hendrycks.remove_boxed(box) if box else None
    # minerva_math parses the reference's solution, which ends with its boxed answer
    gold = parse(f"\\boxed{{{target}}}")
    parsed = parse(reply)
    return {
        "is_equiv": float(hendrycks.is_equiv(answer, target)),
        "is_equiv_answer": answer or "",
        "math_verify": float(verify(gold=gold, target=parsed)),
        "math_verify_answer": str(parsed[-1]) if parsed else "",
    }
