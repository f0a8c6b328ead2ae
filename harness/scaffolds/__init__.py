"""Scaffolds: methods that spend test-time compute on a problem. They need no server, journal or
file.

A new scaffold needs two files: one for the scaffold and one for an experiment. This is a complete
scaffold:

    import asyncio

    from core import prompts
    from core.constants import Carrying, constant
    from core.types import Ask, Member, Populations, Problem, Scaffold

    class Constants(Carrying):
        N: int = constant(4, "number of solutions to choose from", 1, 1024)

    async def longest(problem: Problem, ask: Ask, config: Constants) -> Populations:
        messages = prompts.solve(problem)
        samples = await asyncio.gather(*(ask(messages, 0, i) for i in range(config.N)))
        yield [Member(completion) for completion in samples]
        lengths = [len(prompts.carried(completion, config)) for completion in samples]
        best = lengths.index(max(lengths))
        yield [Member(samples[best], parents=[best], carried_over=True)]

    LONGEST = Scaffold(
        longest,
        constants=Constants,
        prompts=(prompts.SOLVE,),
        max_completions=lambda config: config.N,
        texts_shown=lambda config: 0,
    )

The experiment imports LONGEST, sets constants and calls run(LONGEST, globals()). The experiment's
docstring has lines that begin with "Question: ", "Expected: " and "Command: ". 18_proofs and
19_answers then accept SCAFFOLD=longest.

- After each stage, yield the answer so far, because a budget may end the scaffold there. Yield a
  non-empty list of Members, or NamedPopulation("reviews", members) to name it. Put each completion
  into a member's `completion` or `side_calls`.
- `ask(messages, *names, **changes)` returns a Completion even if the request fails. Its `text` is
  the answer, or "". Names like ("verify", step, member) must be unique within a problem. SEED,
  problem and names determine the request's seed. Waiting requests are sent in the order of the
  first number in their names. `changes` are fields of Sampling. `to="scorer"` asks the model at
  SCORER_URL instead. Such a scaffold has the constant VERIFIER (harness/scaffolds/verification.py).
  With `reward`, this model is a reward model, and the Completion has `scores` instead of a text.
  With `confidences=True`, the Completion also has the confidence of each token.
- Use seeds.rng for random draws. A draw must not depend on the order in which replies arrive.
- `Member.parents` are indices in the previous population. `carried_over` means that an earlier
  population of this problem contains the completion.
- Handle empty, truncated and unreadable replies. Record each case in `Member.notes` in two or three
  fixed words.
- core/types.py documents the fields of Scaffold. `prompts.worded` makes a prompt with texts for
  answers and for proofs.
- harness/session/contract.py checks names, members, parents and max_completions in each run.
  tests/harness/scaffolds test every scaffold that has an experiment. `python -m
  tests.harness.scaffolds.test_wording` records a new scaffold's requests.
"""
