"""Grade candidates. The default grader, by_answer in core/eval.py, compares the answer in a box, a
`Final:` line or a sentence with the reference answer.

To use another grader, define one function and pass it to run(RSA, globals(), grader=by_length):

    async def by_length(problem: Problem, population: Population, ask: Ask) -> Graded:
        grades = [Grade(min(1.0, len(member.completion.text) / 1000)) for member in population]
        return Graded(grades, score=sum(grade.value for grade in grades) / len(grades))

A grade is a number in [0, 1]. A run does not grade proofs, so their grade is None (ungraded.py). A
grader that needs a model calls `ask(messages, *names, **changes)` and stores the completions in
Grade.side_calls. The run's server answers these requests, unless GRADER_URL or a model card in
GRADER_MODEL gives the address of another server."""
