"""Grade candidates. The default grader, answers.by_answer, compares the box (or `Final:` line) with the reference.

Another grader is one function that an experiment passes to run(RSA, globals(), grader=by_length):

    async def by_length(problem: Problem, population: Population, ask: Ask) -> Graded:
        grades = [Grade(min(1.0, len(member.completion.text) / 1000)) for member in population]
        return Graded(grades, score=sum(grade.value for grade in grades) / len(grades))

A grade is a number in [0, 1], or None if not graded, as for proofs (ungraded.py), which are graded later. A grader that
needs a model calls `ask(messages, *names, **changes)`, and keeps the completions in Grade.side_calls. They come from
the run's own server, or from the server at GRADER_URL (GRADER_MODEL, GRADER_KEY).
"""
