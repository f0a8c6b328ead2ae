"""What a candidate is worth. The default grader, answers.by_answer, reads the box (or the `Final:` line) and compares
it with the reference.

To add a grader takes one function and an experiment that gives it to the door, run(RSA, globals(), grader=by_length):

    async def by_length(problem: Problem, population: Population, ask: Ask) -> Graded:
        grades = [Grade(min(1.0, len(member.completion.text) / 1000)) for member in population]
        return Graded(grades, score=sum(grade.value for grade in grades) / len(grades))

A grade is a number in [0, 1]; `mean_accuracy` is then the mean grade; the score of a population without a vote is what
Graded says. A grader that needs a model uses `ask(messages, *names, **changes)`, whose completions are journaled: they
come from the run's own server, or from the one at GRADER_URL (GRADER_MODEL, GRADER_KEY), and stand in Grade.side_calls.

A grade of None is that of what nobody has graded. Proofs are written so (ungraded.py), and graded apart from that.
"""
