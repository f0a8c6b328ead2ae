"""Ways to spend test-time compute: one file each, RSA first. A scaffold depends on no server, journal or file.

A new scaffold takes two files: its own, and an experiment. Its own file, at its shortest:

    import asyncio
    from collections.abc import AsyncIterator
    from dataclasses import dataclass

    from core.constants import Carrying, constant
    from core.scaffolds import prompts
    from core.types import Ask, Member, Population, Problem, Scaffold, carried

    @dataclass(frozen=True, kw_only=True)
    class Constants(Carrying):
        N: int = constant(4, "solutions to choose from", 1, 1024)

    async def longest(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
        samples = await asyncio.gather(*(ask(prompts.solve(problem), 0, i) for i in range(config.N)))
        yield [Member(completion) for completion in samples]
        best = max(range(config.N), key=lambda i: len(carried(samples[i], config)))
        yield [Member(samples[best], parents=[best], carried_over=True)]

    LONGEST = Scaffold(
        longest,
        constants=Constants,
        prompts=(prompts.SOLVE,),
        max_completions=lambda config: config.N,
        texts_shown=lambda config: 0,
    )

The experiment imports it, sets constants and calls run(LONGEST, globals()). Its docstring has a line each for
"Question: ", "Expected: " and "Command: ". 18_proofs and 19_answers then accept SCAFFOLD=longest.

- After each stage it yields its answer so far, as a budget may end it there: a list of Members that is not empty, or
  Stage("reviews", members) with a name. Each completion belongs to a yielded member, as its `completion` or among its
  `side_calls`.
- `ask(messages, *names, **changes)` returns a Completion, also if the request fails: `text` is the answer. Names are
  unique in the problem, such as (step, member) or ("verify", step, member): the seed follows from them, and the first
  number is the priority. `changes` are fields of Sampling. Draw at random from seeds.rng with names, never by the order
  of replies.
- `Member.parents` are positions in the population before. `carried_over` marks a member of an earlier population.
- Handle empty, truncated and unreadable replies, and note them in `Member.notes` in the words of common.py.
- `prompts` are all its prompts; results record their hash. If proofs need other words than answers, a prompt is a
  Wording. A scaffold that compares answers names one for proofs in `for_proofs`, and in `roles` a request that the
  embedded model has not learnt.
- `max_completions` and `texts_shown` bound the completions of a problem and the texts in one prompt.
- core/session/contract.py checks most of this in each run, and tests/scaffolds test every scaffold with an experiment.
  `python -m tests.scaffolds.test_wording` pins the prompts of a new one.
"""
