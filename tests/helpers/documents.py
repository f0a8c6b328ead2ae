"""Build complete results documents for tests, which give only the fields that matter to them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema

from harness.results import write

SCHEMA: dict[str, Any] = json.loads(
    Path(write.__file__).with_name("schema.json").read_text(encoding="utf-8")
)
# jsonschema.validate would check SCHEMA each time, in 0.15 s
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
KEY = "0" * 32
RATE = {"value": 0.5, "low": 0.25, "high": 0.75, "n": 1}


def cost(tokens: int | None = 60, **changes: Any) -> dict[str, Any]:
    """Return a completion of this many tokens, such as a side call."""
    counts = {"prompt_tokens": 10, "cached_tokens": 5, "completion_tokens": tokens, "seconds": 1.0}
    return {"finish_reason": "stop", **counts, "seed": 0, "key": KEY} | changes


def member(tokens: int | None = 60, parents: Sequence[int] = (), **changes: Any) -> dict[str, Any]:
    return (
        cost(tokens)
        | {"answer": "1", "correct": True, "doubt": None, "parents": list(parents)}
        | changes
    )


def step(
    number: int, members: Sequence[dict[str, Any]], mean: float = 0.5, majority: float = 0.5
) -> dict[str, Any]:
    return {
        "step": number,
        "mean_accuracy": mean,
        "majority_answer": "1",
        "majority_tied": [],
        "majority_correct": majority,
        "identical": 0,
        "members": list(members),
    }


def problem(
    id: str, steps: Sequence[dict[str, Any]], answer: str = "1", finished: bool = True
) -> dict[str, Any]:
    return {
        "id": id,
        "statement": "?",
        "answer": answer,
        "finished": finished,
        "steps": list(steps),
    }


def metrics_of_step(number: int = 0, **changes: Any) -> dict[str, Any]:
    counts = (
        "completions",
        "problems",
        "truncated",
        "forced",
        "unread",
        "doubtful",
        "failed",
        "identical",
    )
    return (
        {
            "step": number,
            "completion_tokens": 10,
            "verification_tokens": 0,
            "generation_seconds": 1.0,
        }
        | dict.fromkeys(counts, 0)
        | {"mean_accuracy": RATE, "majority_accuracy": RATE, "pass_at_k": {"1": RATE}}
        | changes
    )


def document(
    problems: Sequence[dict[str, Any]] = (), steps: Sequence[dict[str, Any]] = (), **parts: Any
) -> Any:
    """Return a results document. `steps` are its metrics by step, and `parts` add to its parts or
    replace them."""
    found: dict[str, Any] = {
        "schema": 1,
        "experiment": "x",
        "complete": True,
        "started": "2026-01-02T03:04:05+00:00",
        "ended": "2026-01-02T03:05:05+00:00",
        "model": {"name": "m", "revision": None, "sha256": None, "embedded": False},
        "engine": {
            "kind": "other",
            "version": None,
            "context": None,
            "concurrency": 8,
            "why": "test",
        },
        "problem_set": {"name": "s", "n": max(1, len(problems)), "sha256": "0" * 64},
        "config": {"MAX_TOKENS": 100, "TEMPERATURE": 0.7, "SEED": 0},
        "grader": "by_answer",
        "provenance": {"prompts_sha256": "0" * 64},
        "metrics": {
            "steps": list(steps),
            "final": {},
            "tokens": {"prompt": 10, "cached": 0, "completion": 60},
            "seconds": 1.0,
        },
        "warnings": [],
        "problems": list(problems),
    }
    for name, value in parts.items():
        is_partial = isinstance(value, dict) and name in found
        found[name] = found[name] | value if is_partial else value
    return found
