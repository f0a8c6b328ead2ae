"""Other ways to spend test-time compute than core/scaffolds/rsa.py: one file each, all with its signature.

A scaffold is an async generator of populations, `scaffold(problem, ask, config)`. It knows no server and no file. After
every stage it yields what it would answer with if it had to stop there (a budget may stop it), and every completion it
asked for belongs to a member that it yields: as its `completion`, or among its `checks`.

To add one takes its file, with a function of the file's name, and an experiment that calls runner.run:
- `generations(config)` is the most completions that a problem takes, for the bar and scripts/plan.sh; `shown(config)`,
  where it is more than K, the most texts that one prompt shows, for the server's context.
- Prompts are texts in capitals beside it: they are hashed into the results. `ask` takes names, unique in the problem,
  from which the request's seed follows; `max_tokens=` and `answer_opening=` (what a forced answer begins with) where
  they are not those of a solution. Lots come from seeds.rng with names, never from the order in which answers arrive.
  Then it resumes through the journal with no code of its own.
- `Member.parents` are positions in the population yielded just before. `again` marks a member that stood there already.
- What is empty, cut off or unreadable is decided on purpose and told in `Member.notes`, in the words of common.py.
- A new constant needs its rule in core/constants.py; a known one keeps its meaning (K of N candidates, ROUNDS, …).
- tests/scaffolds/test_resume.py kills and jumbles all scaffolds: add it to its list, and its last line to the replies
  there and in tests/fakes/server.py, or it is only ever answered with what it can't read.
- An `entry` in experiments/15_compute_matched.py compares it; with `roles="…"` until scripts/embedded/roles.py has
  taught the embedded model what it asks.
"""
