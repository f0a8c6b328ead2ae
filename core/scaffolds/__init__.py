"""Ways to spend test-time compute: one file each, RSA first. A scaffold knows no server, no journal and no file.

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
        made = await asyncio.gather(*(ask(prompts.solve(problem), 0, i) for i in range(config.N)))
        yield [Member(completion) for completion in made]
        best = max(range(config.N), key=lambda i: len(carried(made[i], config)))
        yield [Member(made[best], parents=[best], carried_over=True)]

    LONGEST = Scaffold(
        longest,
        constants=Constants,
        prompts=(prompts.SOLVE,),
        max_completions=lambda config: config.N,
        texts_shown=lambda config: 0,
    )

The experiment imports it, sets constants and calls run(LONGEST, globals()). Its docstring has a line each for
"Question: ", "Expected: " and "Command: ". Then the scaffold resumes through the journal, is planned, drawn and
compared, and 18_proofs and 19_answers take it as SCAFFOLD=longest.

- After every stage it yields its answer if it had to stop there, as a budget may demand: a list of Members that is not
  empty, or Stage("reviews", members) with a name. Every completion belongs to a member that it yields, as its
  `completion` or among its `side_calls`.
- `ask(messages, *names, **changes)` takes messages (core/scaffolds/prompts.py makes the common ones) and returns a
  Completion: `text` is the answer, beside `thinking`, `error`, `truncated` and tokens. A failed request returns too.
  Names are unique in the problem, such as (step, member) or ("verify", step, member): the seed follows from them, and
  the first number is the priority. `changes` are fields of Sampling, such as max_tokens and answer_opening (the first
  words of a forced answer). Draw at random from seeds.rng with names, never by the order in which replies arrive.
- `Member.parents` are positions in the population before; `carried_over` marks a member that was in it already.
- Handle empty, truncated and unreadable replies on purpose, and say so in `Member.notes`, in the words of common.py.
- `prompts` are all that it asks with; results record their hash. A prompt is a Wording if proofs need other words than
  answers. A scaffold that compares answers names another for proofs in `for_proofs`, and in `roles` a request that the
  embedded model has not learnt (scripts/embedded/roles.py teaches it).
- `max_completions` and `texts_shown` are the most completions of a problem, and the most texts (candidates, reports,
  summaries) in one prompt. Plans, budgets and the server's context rest on them.
- core/session/contract.py checks most of this while it runs. tests/scaffolds kill and jumble every scaffold that has an
  experiment, pin its prompts and check its bounds; they answer with the lines that a prompt suggests, such as
  "Rank: 2". `python -m tests.scaffolds.test_wording` pins the prompts of a new one.
- An `entry` in experiments/15_compute_matched.py compares it with the others, if it is meant to stay.
"""
