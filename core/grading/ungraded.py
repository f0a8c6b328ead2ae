"""Leave the proofs of a run ungraded. scripts/grade.sh can grade them later."""

from core.types import Ask, Grade, Graded, Population, Problem


async def ungraded(problem: Problem, population: Population, ask: Ask) -> Graded:
    """Return grades without a value, and no score. A proof that was cut off has the doubt
    "truncated"."""
    grades = []
    for member in population:
        doubt = "truncated" if member.completion.truncated else None
        grades.append(Grade(None, doubt=doubt))
    return Graded(grades, None)
