"""Leave a run of proofs ungraded: proofs are graded later, as often as wanted."""

from core.types import Ask, Grade, Graded, Population, Problem


async def ungraded(problem: Problem, population: Population, ask: Ask) -> Graded:
    """Return no grades and no score, with the doubt "truncated" for proofs that were cut off."""
    return Graded([Grade(None, doubt="truncated" if each.completion.truncated else None) for each in population], None)
