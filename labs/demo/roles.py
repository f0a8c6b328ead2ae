"""Draw training examples for the scaffolds' other roles (not solving, merging or verifying), mostly
with their prompts.

The thinking of a judge or a selection contains VERIFY's comparison of each candidate and the number
of its wrong lines. Everything else follows fixed rules, as the model card says. Reports name the
wrong lines and the right values. Refinements use these values. Selections keep the candidate with
the fewest wrong lines. Summaries list the values found so far. All plans follow one fixed plan."""

import random
from collections.abc import Callable, Sequence

from core import prompts
from core.types import PROOF, Message, Problem
from harness.scaffolds import (
    common,
    deepseek_math,
    math_agent,
    nomos,
    reasoning_cache,
    selfcheck,
    static_math_agent,
)
from harness.scaffolds.tool_calls import CALL
from labs.demo import sums, words
from labs.demo.sums import POINTS, Term, Terms, problem, statement
from labs.demo.texts import (
    END_THINK,
    IM_END,
    Chances,
    Example,
    Mix,
    attempt,
    attempted,
    begins,
    comparison,
    finished,
    forced,
    marked,
    merged,
    one_of,
    picked,
    products,
    slips_of,
    solution,
    solved,
    training_terms,
    user,
)
from labs.demo.words import solve_prompt
from labs.proofs import rubric

SLIPS = (0.0, 0.3)  # range of the slip rates of solutions to examine
FORGETS = (0.0, 0.8)  # range of the shares of large carries that these solutions forget
TWIN = 0.3  # share of candidates that differ from the previous candidate in at most one line
CUT = 0.03  # share of solutions to report on that stop early
CUT_PROOF = 0.1  # share of proofs to grade that stop early
ADDED = 0.25  # share of gradings that show a text with additional, irrelevant sentences
MISSED, FALSE_ALARM = 0.08, 0.03  # shares of wrong and of right lines that a reviewer misjudges
SELECTED = (2, 2, 3, 4, 4)  # numbers of candidates to select from
GRADED_PROOFS = 0.8  # share of gradings that grade a proof (other gradings compare an answer)
GROUPED = (2, 3, 4, 5, 6, 8, 12, 12)  # numbers of solutions to group
SAME_ANSWER = 0.4  # share of the solutions to group that repeat an earlier solution
REPORTS = 3  # most reports in a plan
# loss weights of an answer that only decides, and of one that quotes lines
DECIDES, QUOTES = 10.0, 3.0
WAIT_WORDS = (
    "Wait",
    "Wait",
    "Wait",
    "Wait,",
    "Hmm",
    "Hold on",
    "But wait",
    "Let me check",
    "Also",
    "Once more:",
)
PLANNED = 3  # solutions that a plan begins with

Role = Callable[[random.Random, Mix], Example]


# ---- Solutions, and reviews of them
# --------------------------------------------------------------------------------


def short_terms(rng: random.Random) -> Terms:
    """Draw the terms of a problem with at most five terms, so that a prompt has room for several
    solutions."""
    while len(terms := training_terms(rng)) > 5:
        pass
    return terms


def truth(terms: Sequence[Term]) -> list[int]:
    return [term.digit * term.number for term in terms]


def tried(rng: random.Random, terms: list[Term], slips: tuple[float, float] = SLIPS) -> list[int]:
    """Draw the products of a solution to examine."""
    return attempted(rng, terms, rng.uniform(*slips), rng.uniform(*FORGETS))


def wrong_lines(terms: Sequence[Term], values: Sequence[int]) -> int:
    return sum(value != right for value, right in zip(values, truth(terms), strict=False))


def candidates(rng: random.Random, terms: list[Term], count: int) -> list[list[int]]:
    """Draw the products of `count` solutions. Some solutions differ from the previous one in at
    most one line."""
    drawn: list[list[int]] = []
    for _ in range(count):
        values = tried(rng, terms)
        if drawn and rng.random() < TWIN:
            place = rng.randrange(len(terms))
            values = [*drawn[-1][:place], values[place], *drawn[-1][place + 1 :]]
        drawn.append(values)
    return drawn


def examined(terms: list[Term], values: list[int]) -> str:
    """Write the thinking about a solution: the comparison of its lines, and the number of its wrong
    lines."""
    return f"{comparison(terms[: len(values)], values)}\nwrong {wrong_lines(terms, values)}"


def remarks(terms: Sequence[Term], values: Sequence[int], own: Sequence[int]) -> str:
    """Write a report: a line for each product that differs from the reviewer's `own` product, or
    "No errors."."""
    pairs = zip(terms, values, own, strict=False)
    flaws = [
        f"{t.digit}*{t.number}={value} is wrong, it is {right}."
        for t, value, right in pairs
        if value != right
    ]
    flaws += ["It is unfinished."] if len(values) < len(terms) else []
    return "\n".join(flaws) or "No errors."


def is_right(terms: Sequence[Term], values: Sequence[int]) -> bool:
    return list(values) == truth(terms)  # slips that cancel each other are too rare to matter


def score(terms: Sequence[Term], values: Sequence[int]) -> str:
    """Return the score of deepseek_math: 1 for a right solution, 0.5 if it is complete with one
    wrong line, else 0."""
    if is_right(terms, values):
        return "1"
    return "0.5" if len(values) == len(terms) and wrong_lines(terms, values) == 1 else "0"


def points(terms: Sequence[Term], values: Sequence[int]) -> int:
    """Return a grader's points (0 to 7), which depend on the share of right lines."""
    return sums.points(len(terms), len(values) - wrong_lines(terms, values))


# ---- Roles
# ---------------------------------------------------------------------------------------------------------


def select_example(rng: random.Random, _: Mix) -> Example:
    terms = training_terms(rng)
    both = candidates(rng, terms, 2)
    first, second = (solution(terms, values) for values in both)
    messages = prompts.request(common.SELECT, problem(terms), first=first, second=second)
    return chosen(rng, messages, terms, both, common.BETTER)


def best_example(rng: random.Random, _: Mix) -> Example:
    terms = short_terms(rng)
    several = candidates(rng, terms, rng.choice(SELECTED))
    messages = static_math_agent.selection(
        problem(terms), [solution(terms, values) for values in several]
    )
    return chosen(rng, messages, terms, several, static_math_agent.BEST)


def chosen(
    rng: random.Random,
    messages: list[Message],
    terms: list[Term],
    shown: Sequence[list[int]],
    opening: str,
) -> Example:
    """Build an example that selects the solution with the fewest wrong lines. A tie is broken at
    random."""
    thoughts = "\n".join(examined(terms, values) for values in shown)
    counts = [wrong_lines(terms, values) for values in shown]
    best = rng.choice([i for i, count in enumerate(counts, 1) if count == min(counts)])
    return finished(
        rng, messages, thoughts, f"{opening} {best}", (opening, f" {best}"), stress=DECIDES
    )


def report_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    values = tried(rng, terms, mix.corruption)
    if rng.random() < CUT:
        values = values[: rng.randrange(1, len(terms))]
    wording, opening, verdict = rng.choice(
        (
            (selfcheck.REVIEW, prompts.VERDICT, str(is_right(terms, values))),
            (static_math_agent.REPORT, prompts.VERDICT, str(is_right(terms, values))),
            (deepseek_math.REVIEW, deepseek_math.SCORE, score(terms, values)),
        )
    )
    answer = f"{remarks(terms, values, truth(terms))}\n{opening} {verdict}"
    asked, scale = problem(terms), deepseek_math.SCALE.of(problem(terms).is_proof)
    messages = prompts.request(wording, asked, solution=solution(terms, values), scale=scale)
    return finished(
        rng, messages, examined(terms, values), answer, (opening, f" {verdict}"), stress=QUOTES
    )


def classify_example(rng: random.Random, _: Mix) -> Example:
    """Build an example that asks whether a review accepts a solution. The review's last line has
    the verdict."""
    terms = training_terms(rng)
    values = truth(terms) if rng.random() < 0.4 else tried(rng, terms)
    own = heard(rng, terms, values)
    verdict = f"{prompts.VERDICT} {own == values}"
    answer = "yes" if own == values else "no"
    messages = selfcheck.classify(f"{remarks(terms, values, own)}\n{verdict}")
    return finished(
        rng, messages, verdict, answer, (selfcheck.ANSWER, f" {answer}"), stress=DECIDES
    )


def judge_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    values = tried(rng, terms, mix.corruption)
    given = str(points(terms, values))
    messages = nomos.POINTS.messages(problem(terms), solution(terms, values))
    return finished(
        rng,
        messages,
        examined(terms, values),
        f"{nomos.SCORE} {given}",
        (nomos.SCORE, f" {given}"),
        stress=DECIDES,
    )


def grade_example(rng: random.Random, mix: Mix) -> Example:
    """Build an example that grades a proof or a doubtful answer, with the prompts of
    labs/proofs/rubric.py."""
    terms = training_terms(rng)
    terms.is_proof = rng.random() < GRADED_PROOFS
    values = tried(rng, terms, mix.corruption)
    right = str(sums.answer(terms))
    if terms.is_proof:
        solved, guidelines = solution(terms, truth(terms)), sums.guidelines(terms)
        asked = Problem("", sums.claim(terms), None, PROOF, solution=solved, guidelines=guidelines)
        if rng.random() < CUT_PROOF:
            values = values[: rng.randrange(1, len(terms))]
        given, thoughts, reasons = (
            points(terms, values),
            examined(terms, values),
            remarks(terms, values, truth(terms)),
        )
    else:
        stated = str(sum(values) % 1000)
        asked = Problem("", statement(terms), right)
        given, thoughts, reasons = (
            POINTS * (stated == right),
            f"{stated} {right} {marked(stated, right)}",
            f"It states {stated}.",
        )
    text = solution(terms, values)
    if rng.random() < ADDED:
        added = " ".join(words.beside_the_point(rng) for _ in range(rng.randint(1, 3)))
        text = rng.choice((f"{text}\n\n{added}", f"{text}\n{added}", f"{added}\n\n{text}"))
    messages = rubric.asked(asked, text, rng.randrange(10**6))[0]
    answer = f"{reasons}\n{rubric.STATED} {given}"
    return finished(rng, messages, thoughts, answer, (rubric.STATED, f" {given}"), stress=QUOTES)


def refine_example(rng: random.Random, _: Mix) -> Example:
    """Build an example that takes the values named by one or two reports, and keeps all other
    values."""
    terms = training_terms(rng)
    values = tried(rng, terms)
    text, named = solution(terms, values), [[value] for value in values]
    refines = rng.random() < 0.5
    reports = []
    for _number in range(rng.choice((1, 2)) if refines else 1):
        own = heard(rng, terms, values)
        for place, value in enumerate(own):
            if value != values[place]:
                named[place].append(value)
        verdict = (
            f"{deepseek_math.SCORE} {score(terms, values)}"
            if refines
            else f"{prompts.VERDICT} {own == values}"
        )
        reports.append(f"{remarks(terms, values, own)}\n{verdict}")
    mended = [one_of(of[1:] or of) for of in named]
    if refines:
        return proved(rng, deepseek_math.refine(problem(terms), text, reports), terms, mended)
    wording = rng.choice((selfcheck.CORRECT, static_math_agent.IMPROVE))
    messages = prompts.request(wording, problem(terms), solution=text, report=reports[0])
    return solved(rng, messages, terms, mended)


def heard(rng: random.Random, terms: list[Term], values: list[int]) -> list[int]:
    """Return the values that a reviewer believes to be right. The reviewer sometimes errs (MISSED,
    FALSE_ALARM)."""
    own = []
    for value, right in zip(values, truth(terms), strict=True):
        if value == right:
            own.append(picked(rng, slips_of(right)) if rng.random() < FALSE_ALARM else right)
        else:
            own.append(value if rng.random() < MISSED else right)
    return own


def prove_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    return proved(
        rng,
        deepseek_math.prove(problem(terms)),
        terms,
        [attempt(term, mix.slips, mix.forgets) for term in terms],
    )


def proved(
    rng: random.Random, messages: list[Message], terms: Terms, lines: list[Chances]
) -> Example:
    """Build an example of a solution with its true score. The model can learn only how likely each
    score is."""
    values = [picked(rng, chances) for chances in lines]
    answer = (
        f"{solution(terms, values)}\n\nSelf-assessment:\n{deepseek_math.SCORE} "
        f"{score(terms, values)}"
    )
    return finished(
        rng, messages, products(terms, values), answer, forced(terms, values, answer), drawn=lines
    )


def group_example(rng: random.Random, _: Mix) -> Example:
    """Build an example that keeps a group of solutions with equal answers. The group has a solution
    with the most points. If several groups have one, the group with more such solutions is kept,
    then the first group."""
    terms = short_terms(rng)
    shown: list[list[int]] = []
    for values in candidates(rng, terms, rng.choice(GROUPED)):
        shown.append(rng.choice(shown) if shown and rng.random() < SAME_ANSWER else values)
    given = [points(terms, values) for values in shown]
    boxes = [sum(values) % 1000 for values in shown]
    top = [box for box, of in zip(boxes, given, strict=True) if of == max(given)]
    kept = max(top, key=lambda box: (top.count(box), -top.index(box)))
    seen = [f"{i} {box} {of}" for i, (box, of) in enumerate(zip(boxes, given, strict=True), 1)]
    held = [f"{i} {box} {kept} {marked(str(box), str(kept))}" for i, box in enumerate(boxes, 1)]
    thoughts = "\n".join([*seen, f"{max(given)} {kept}", *held])
    numbers = ", ".join(str(i) for i, box in enumerate(boxes, 1) if box == kept)
    texts = [solution(terms, values) for values in shown]
    messages = nomos.group(problem(terms), texts, [f"{nomos.SCORE} {of}" for of in given])
    return finished(
        rng,
        messages,
        thoughts,
        f"{nomos.KEPT} {numbers}",
        (nomos.KEPT, f" {numbers}"),
        stress=DECIDES,
    )


def listed(terms: Sequence[Term], found: Sequence[Sequence[int]]) -> str:
    """Write a summary that lists the values found so far for each term."""
    lines = (
        f"{t.digit}*{t.number}: {', '.join(map(str, of))}"
        for t, of in zip(terms, found, strict=True)
    )
    return "; ".join(lines) + "."


def summary_example(rng: random.Random, _: Mix) -> Example:
    terms = training_terms(rng)
    earlier = rng.choice((0, 0, 1, 1, 2))
    tries = [tried(rng, terms) for _ in range(earlier + 1)]
    found = list(zip(*tries, strict=True))
    before = listed(terms, [of[:-1] for of in found]) if earlier else ""
    newest = f"{products(terms, tries[-1])}\n\n{solution(terms, tries[-1])}"
    messages = reasoning_cache.summarise(problem(terms), before, newest)
    summary = listed(terms, found)
    answer = f"{reasoning_cache.OPENING} {summary}"
    return finished(
        rng,
        messages,
        products(terms, tries[-1]),
        answer,
        (reasoning_cache.OPENING, f" {summary}"),
        stress=QUOTES,
    )


def again_example(rng: random.Random, mix: Mix) -> Example:
    """Build an example that solves a problem from a summary. The target follows the rules of
    AGGREGATE."""
    terms = training_terms(rng)
    tries = [tried(rng, terms) for _ in range(rng.choice((1, 2, 2, 3)))]
    found = list(zip(*tries, strict=True))
    messages = reasoning_cache.solve_again(problem(terms), listed(terms, found))
    return solved(rng, messages, terms, merged(terms, found, mix))


def waited_example(rng: random.Random, mix: Mix) -> Example:
    """Build an example that continues thinking after one of WAIT_WORDS. Its products merge all
    earlier products."""
    terms = training_terms(rng)
    lines = [attempt(term, mix.slips, mix.forgets) for term in terms]
    tries = [[picked(rng, chances) for chances in lines]]
    word, given = rng.choice(WAIT_WORDS), ""
    for last in range(rng.choice((1, 1, 2, 3, 4)), 0, -1):
        given += f"{products(terms, tries[-1])}\n\n{word}"
        lines = merged(terms, list(zip(*tries, strict=True)), mix)
        tries.append([picked(rng, chances) for chances in lines])
        given += "\n" if last > 1 else ""
    again = products(terms, tries[-1])
    target = f"\n{again}\n{END_THINK}\n\n{solution(terms, tries[-1])}{IM_END}"
    drawn = {place + 1: chances for place, chances in begins(again, lines).items()}
    own = terms.is_proof or rng.random() < 0.4
    messages = prompts.solve(problem(terms)) if own else user(solve_prompt(rng, statement(terms)))
    return Example(messages, True, given, target, drawn=drawn)


def plan_example(rng: random.Random, _: Mix) -> Example:
    """Build an example from a random step of a plan. The plan merges PLANNED solutions. Then
    reports and improvements alternate until a report finds no error or there are REPORTS
    reports."""
    terms = short_terms(rng)
    log: list[str] = []
    # the thinking and the calls of each reply
    steps = [("0", "\n".join([f"{CALL} solve {{}}"] * PLANNED))]

    def add(number: int, done: str, values: list[int]) -> None:
        log.append(f"{done}\nSolution {number}:\n{solution(terms, values)}")

    logs = [list(log)]
    for number, values in enumerate(candidates(rng, terms, PLANNED), 1):
        add(number, f"{CALL} solve {{}}", values)
    numbers = ", ".join(map(str, range(1, PLANNED + 1)))
    steps.append((str(PLANNED), f'{CALL} merge {{"solutions": [{numbers}]}}'))
    logs.append(list(log))
    number, values = PLANNED + 1, tried(rng, terms)
    add(number, steps[-1][1], values)
    for count in range(1, REPORTS + 1):
        steps.append((str(number), f'{CALL} verify {{"solution": {number}}}'))
        logs.append(list(log))
        right = is_right(terms, values)
        report = f"{remarks(terms, values, truth(terms))}\n{prompts.VERDICT} {right}"
        log.append(f"{steps[-1][1]}\nReport {count}, on solution {number}:\n{report}")
        if right:
            break
        steps.append((f"{number}, report {count} {right}", f'{CALL} improve {{"report": {count}}}'))
        logs.append(list(log))
        number, values = number + 1, tried(rng, terms)
        add(number, steps[-1][1], values)
    steps.append((str(number), f'{CALL} submit {{"solution": {number}}}'))
    logs.append(list(log))
    place = rng.randrange(len(steps))
    thoughts, calls = steps[place]
    messages = math_agent.plan(problem(terms), logs[place], 15, 15 - len(logs[place]), 4)
    return finished(rng, messages, thoughts, calls, (CALL, calls.removeprefix(CALL)), stress=QUOTES)


ROLES: dict[Role, float] = {  # role -> its weight when a role is drawn
    select_example: 0.17,
    best_example: 0.1,
    report_example: 0.22,
    classify_example: 0.04,
    judge_example: 0.1,
    refine_example: 0.17,
    prove_example: 0.06,
    group_example: 0.1,
    grade_example: 0.1,
    summary_example: 0.13,
    again_example: 0.06,
    waited_example: 0.12,
    plan_example: 0.05,
}


def role_example(rng: random.Random, mix: Mix) -> Example:
    return rng.choices(list(ROLES), list(ROLES.values()))[0](rng, mix)
