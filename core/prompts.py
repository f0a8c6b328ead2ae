"""The prompts: solve, aggregate, verify. Ours, written from the idea of RSA (arXiv 2509.26626), not its text.

Each function returns the chat messages of one request: a list with one user message. The wording is part of an
experiment's identity: results record `prompts_sha256()`, and a changed prompt changes every journal key.
"""

import hashlib
import json
from collections.abc import Sequence

from core.types import FORCED_ANSWER, Message

SOLVE = """{problem}

Reason step by step and put the final answer in \\boxed{{}}."""

AGGREGATE = """Problem:
{problem}

Below are {count} candidate solutions. Some may be wrong, in different places; none is known to be right.

{candidates}

Compare the candidates step by step, keep what is correct, repair what is not, and write one improved, complete \
solution. Put the final answer in \\boxed{{}}."""

# With K = 1 there is nothing to compare: aggregation becomes self-refinement, the control of the RSA paper.
REFINE = """Problem:
{problem}

Below is 1 candidate solution. It may be wrong.

{candidates}

Check the candidate step by step, keep what is correct, repair what is not, and write one improved, complete \
solution. Put the final answer in \\boxed{{}}."""

VERIFY = """Problem:
{problem}

Candidate solution:
{candidate}

Check every step of the candidate solution and decide whether its final answer is correct. End with one line: \
"Verdict: True" or "Verdict: False"."""

# The words a verdict starts with, also used to open the answer when P(True) is read from a single token.
VERDICT = "Verdict:"


def solve(problem: str) -> list[Message]:
    """Messages that ask for a first solution of `problem` (its statement)."""
    return [{"role": "user", "content": SOLVE.format(problem=problem)}]


def aggregate(problem: str, candidates: Sequence[str]) -> list[Message]:
    """Messages that ask for one better solution made from `candidates` (K >= 1 texts, in the order given)."""
    if not candidates:
        raise ValueError("aggregate needs at least one candidate")
    shown = "\n\n".join(f"Candidate {i}:\n{text.strip()}" for i, text in enumerate(candidates, 1))
    template = REFINE if len(candidates) == 1 else AGGREGATE
    content = template.format(problem=problem, count=len(candidates), candidates=shown)
    return [{"role": "user", "content": content}]


def verify(problem: str, candidate: str) -> list[Message]:
    """Messages that ask whether the final answer of `candidate` is correct: a last line "Verdict: True" or "…False"."""
    return [{"role": "user", "content": VERIFY.format(problem=problem, candidate=candidate.strip())}]


def prompts_sha256(prompts: Sequence[str]) -> str:
    """Hash of the templates that a scaffold asks with: two results with equal hashes were asked in the same words."""
    return hashlib.sha256(json.dumps([*prompts, FORCED_ANSWER]).encode()).hexdigest()
