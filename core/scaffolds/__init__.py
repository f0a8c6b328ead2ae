"""Ways to spend test-time compute: one file each, RSA first. A scaffold knows no server, no journal and no file.

To add one takes its file and an experiment. The file, at its shortest:

    import asyncio
    from collections.abc import AsyncIterator
    from dataclasses import dataclass

    from core.scaffolds import prompts
    from core.constants import Carrying, constant
    from core.types import Ask, Member, Population, Problem, Scaffold, carried

    @dataclass(frozen=True, kw_only=True)
    class Constants(Carrying):
        N: int = constant(4, "solutions to choose from", 1, 1024)

    async def longest(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
        made = await asyncio.gather(*(ask(prompts.solve(problem), 0, i) for i in range(config.N)))
        yield [Member(completion) for completion in made]
        best = max(range(config.N), key=lambda i: len(carried(made[i], config)))
        yield [Member(made[best], parents=[best], carried_over=True)]

    LONGEST = Scaffold(longest, lambda config: config.N, lambda _: 0, (prompts.SOLVE,), Constants)

The experiment imports it, sets constants and calls run(LONGEST, globals()). Then it resumes through the journal with no
code of its own, is planned, drawn and compared.

- After every stage it yields what it would answer with if it had to stop there (a budget may stop it): a list of
  Members that is not empty, or Stage("reviews", members) where the step's number does not say what it is. Every
  completion that it asked for belongs to a member that it yields: as its `completion`, or among its `side_calls`.
- `ask(messages, *names, **changes)` takes a list like [{"role": "user", "content": "…"}] (core/scaffolds/prompts.py
  makes those that all share) and returns a Completion: `text` is the answer to go on with, `thinking`, `error`,
  `truncated` and the tokens stand beside it; a request that failed returns too. Names are unique in the problem, such
  as (step, member) or ("verify", step, member): the request's seed follows from them, and the first number says how
  urgent it is. To ask twice under the same names ends the run with an error; so does a scaffold that yields nothing,
  that asks for more than its `max_completions`, or that never shows a completion (core/session/contract.py). `changes`
  are fields of Sampling, such as max_tokens and answer_opening (what a forced answer begins with), where they are not
  those of a solution. Whatever is drawn comes from seeds.rng with names, never from the order in which answers arrive.
- `Member.parents` are positions in the population that was yielded just before; `carried_over` marks a member that
  stood there already.
- What is empty, cut off or unreadable is decided on purpose and stated in `Member.notes`, in the words of common.py.
- Scaffold(run, max_completions, texts_shown, prompts, constants): `prompts` are all its templates, which are hashed
  into the results; `max_completions` is the most that a problem takes, `texts_shown` the most texts that one prompt
  shows. A prompt is a Wording where a proof is asked for in other words than an answer; prompts.request fills in the
  one that fits the problem. What only compares answers names in `for_proofs` what to take for proofs in its place.
- core/scaffolds/registry.py lists it for 18_proofs and 19_answers, and tests/fakes/model.py for
  tests/scaffolds/test_wording.py, which holds its prompts to the letter.
- tests/scaffolds/test_resume.py kills and jumbles all scaffolds: add it to its list, and its last line to the replies
  there and in tests/fakes/server.py, or it is only ever answered with what it can't read.
- The experiment's docstring says what it asks (Question:), what is expected (Expected:) and how it is run (Command:);
  tests/scaffolds/test_resume.py looks for its command and counts its lines, tests/test_constants.py its constants.
- docs/constants.md gets a section with its constants, and the README a row.
- An `entry` in experiments/15_compute_matched.py compares it; with `roles="…"` until scripts/embedded/roles.py has
  taught the embedded model what it asks.
"""
