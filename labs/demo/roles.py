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
    nomos,
    reasoning_cache,
    selfcheck,
    static_math_agent,
)
from labs.demo import instructions, sums
from labs.demo.instructions import solve_prompt
from labs.demo.plans import plan_example
from labs.demo.reviews import (
    DECIDES,
    QUOTES,
    believed,
    candidates,
    decided,
    examined,
    is_right,
    points,
    remarks,
    score,
    short_terms,
    tried,
    wrong_lines,
)
from labs.demo.sums import POINTS, Term, Terms, problem, statement, true_products
from labs.demo.texts import (
    END_THINK,
    IM_END,
    Chances,
    Example,
    Mix,
    attempt,
    begins,
    finished,
    forced,
    marked,
    merged,
    one_of,
    picked,
    products,
    solution,
    solved,
    training_terms,
    user,
)
from labs.proofs import rubric

CUT = 0.03  # share of solutions to report on that stop early
CUT_PROOF = 0.1  # share of proofs to grade that stop early
ADDED = 0.25  # share of gradings that show a text with additional, irrelevant sentences
SELECTED = (2, 2, 3, 4, 4)  # numbers of candidates to select from
GRADED_PROOFS = 0.8  # share of gradings that grade a proof (other gradings compare an answer)
GROUPED = (2, 3, 4, 5, 6, 8, 12, 12)  # numbers of solutions to group
SAME_ANSWER = 0.4  # share of the solutions to group that repeat an earlier solution
WAIT_WORDS = (
    *["Wait"] * 3,
    "Wait,",
    "Hmm",
    "Hold on",
    "But wait",
    "Let me check",
    "Also",
    "Once more:",
)

Role = Callable[[random.Random, Mix], Example]


def select_example(rng: random.Random, _: Mix) -> Example:
    terms = training_terms(rng)
    pair = candidates(rng, terms, 2)
    first, second = (solution(terms, values) for values in pair)
    messages = prompts.request(common.SELECT, problem(terms), first=first, second=second)
    return chosen(rng, messages, terms, pair, common.BETTER)


def best_example(rng: random.Random, _: Mix) -> Example:
    terms = short_terms(rng)
    several = candidates(rng, terms, rng.choice(SELECTED))
    texts = [solution(terms, values) for values in several]
    messages = static_math_agent.selection(problem(terms), texts)
    return chosen(rng, messages, terms, several, static_math_agent.BEST)


def chosen(
    rng: random.Random,
    messages: list[Message],
    terms: list[Term],
    solutions: Sequence[list[int]],
    opening: str,
) -> Example:
    """Build an example that selects the solution with the fewest wrong lines. A tie is broken at
    random."""
    thoughts = "\n".join(examined(terms, values) for values in solutions)
    counts = [wrong_lines(terms, values) for values in solutions]
    best = rng.choice([i for i, count in enumerate(counts, 1) if count == min(counts)])
    return decided(rng, messages, thoughts, opening, str(best))


def report_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    values = tried(rng, terms, mix.corruption)
    if rng.random() < CUT:
        values = values[: rng.randrange(1, len(terms))]
    wording = rng.choice((selfcheck.REVIEW, static_math_agent.REPORT, deepseek_math.REVIEW))
    if wording == deepseek_math.REVIEW:
        opening, verdict = deepseek_math.SCORE, score(terms, values)
    else:
        opening, verdict = prompts.VERDICT, str(is_right(terms, values))
    answer = f"{remarks(terms, values, true_products(terms))}\n{opening} {verdict}"
    text = solution(terms, values)
    scale = deepseek_math.SCALE.text_for(terms.is_proof)
    messages = prompts.request(wording, problem(terms), solution=text, scale=scale)
    forced = (opening, f" {verdict}")
    return finished(rng, messages, examined(terms, values), answer, forced, stress=QUOTES)


def classify_example(rng: random.Random, _: Mix) -> Example:
    """Build an example that asks whether a review accepts a solution. The review's last line has
    the verdict."""
    terms = training_terms(rng)
    values = true_products(terms) if rng.random() < 0.4 else tried(rng, terms)
    review = believed(rng, terms, values)
    verdict = f"{prompts.VERDICT} {review == values}"
    answer = "yes" if review == values else "no"
    messages = selfcheck.classify(f"{remarks(terms, values, review)}\n{verdict}")
    forced = (selfcheck.ANSWER, f" {answer}")
    return finished(rng, messages, verdict, answer, forced, stress=DECIDES)


def judge_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    values = tried(rng, terms, mix.corruption)
    messages = nomos.POINTS.messages(problem(terms), solution(terms, values))
    stated = str(points(terms, values))
    return decided(rng, messages, examined(terms, values), nomos.SCORE, stated)


def grade_example(rng: random.Random, mix: Mix) -> Example:
    """Build an example that grades a proof or a doubtful answer, with the prompts of
    labs/proofs/rubric.py."""
    terms = training_terms(rng)
    terms.is_proof = rng.random() < GRADED_PROOFS
    values = tried(rng, terms, mix.corruption)
    if terms.is_proof:
        if rng.random() < CUT_PROOF:
            values = values[: rng.randrange(1, len(terms))]
        graded = proof_to_grade(terms)
        earned = points(terms, values)
        thoughts = examined(terms, values)
        reasons = remarks(terms, values, true_products(terms))
    else:
        stated, right = str(sum(values) % 1000), str(sums.answer(terms))
        graded = Problem("", statement(terms), right)
        earned = POINTS if stated == right else 0
        thoughts = f"{stated} {right} {marked(stated, right)}"
        reasons = f"It states {stated}."
    text = with_irrelevant(rng, solution(terms, values))
    messages = rubric.asked(graded, text, rng.randrange(10**6))[0]
    answer = f"{reasons}\n{rubric.STATED} {earned}"
    return finished(rng, messages, thoughts, answer, (rubric.STATED, f" {earned}"), stress=QUOTES)


def proof_to_grade(terms: Terms) -> Problem:
    """Return a problem that asks for a proof, with its solution and marking scheme."""
    return Problem(
        "",
        sums.claim(terms),
        None,
        PROOF,
        solution=solution(terms, true_products(terms)),
        guidelines=sums.guidelines(terms),
    )


def with_irrelevant(rng: random.Random, text: str) -> str:
    """Return the text, sometimes with irrelevant sentences."""
    if rng.random() >= ADDED:
        return text
    count = rng.randint(1, 3)
    added = " ".join(instructions.beside_the_point(rng) for _ in range(count))
    return rng.choice((f"{text}\n\n{added}", f"{text}\n{added}", f"{added}\n\n{text}"))


def refine_example(rng: random.Random, _: Mix) -> Example:
    """Build an example that takes the values named by one or two reports, and keeps all other
    values."""
    terms = training_terms(rng)
    values = tried(rng, terms)
    text = solution(terms, values)
    corrections: list[list[int]] = [[] for _ in terms]  # of each term
    refines = rng.random() < 0.5
    count = rng.choice((1, 2)) if refines else 1
    reports = []
    for _number in range(count):
        review = believed(rng, terms, values)
        for i, (value, right) in enumerate(zip(values, review, strict=True)):
            if value != right:
                corrections[i].append(right)
        if refines:
            verdict = f"{deepseek_math.SCORE} {score(terms, values)}"
        else:
            verdict = f"{prompts.VERDICT} {review == values}"
        reports.append(f"{remarks(terms, values, review)}\n{verdict}")
    mended = [
        one_of(corrected or [value]) for value, corrected in zip(values, corrections, strict=True)
    ]
    if refines:
        return proved(rng, deepseek_math.refine(problem(terms), text, reports), terms, mended)
    wording = rng.choice((selfcheck.CORRECT, static_math_agent.IMPROVE))
    messages = prompts.request(wording, problem(terms), solution=text, report=reports[0])
    return solved(rng, messages, terms, mended)


def prove_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    lines = [attempt(term, mix.slips, mix.forgets) for term in terms]
    return proved(rng, deepseek_math.prove(problem(terms)), terms, lines)


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
    solutions: list[list[int]] = []
    for values in candidates(rng, terms, rng.choice(GROUPED)):
        if solutions and rng.random() < SAME_ANSWER:
            values = rng.choice(solutions)
        solutions.append(values)
    scores = [points(terms, values) for values in solutions]
    boxes = [sum(values) % 1000 for values in solutions]
    highest = max(scores)
    best = [box for box, mark in zip(boxes, scores, strict=True) if mark == highest]
    group = max(best, key=lambda box: (best.count(box), -best.index(box)))
    thoughts = []
    for i, (box, mark) in enumerate(zip(boxes, scores, strict=True), 1):
        thoughts.append(f"{i} {box} {mark}")
    thoughts.append(f"{highest} {group}")
    for i, box in enumerate(boxes, 1):
        thoughts.append(f"{i} {box} {group} {marked(str(box), str(group))}")
    numbers = ", ".join(str(i) for i, box in enumerate(boxes, 1) if box == group)
    texts = [solution(terms, values) for values in solutions]
    marks = [f"{nomos.SCORE} {mark}" for mark in scores]
    messages = nomos.group(problem(terms), texts, marks)
    return decided(rng, messages, "\n".join(thoughts), nomos.KEPT, numbers)


def listed(terms: Sequence[Term], votes: Sequence[Sequence[int]]) -> str:
    """Write a summary that lists the values found so far for each term."""
    pairs = zip(terms, votes, strict=True)
    lines = [f"{term}: {', '.join(map(str, values))}" for term, values in pairs]
    return "; ".join(lines) + "."


def summary_example(rng: random.Random, _: Mix) -> Example:
    terms = training_terms(rng)
    earlier = rng.choice((0, 0, 1, 1, 2))
    tries = [tried(rng, terms) for _ in range(earlier + 1)]
    before = listed(terms, by_term(tries[:-1])) if earlier else ""
    thoughts = products(terms, tries[-1])
    newest = f"{thoughts}\n\n{solution(terms, tries[-1])}"
    messages = reasoning_cache.summarise(problem(terms), before, newest)
    summary = listed(terms, by_term(tries))
    answer = f"{reasoning_cache.OPENING} {summary}"
    forced = (reasoning_cache.OPENING, f" {summary}")
    return finished(rng, messages, thoughts, answer, forced, stress=QUOTES)


def by_term(tries: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return each term's values from the values of each try."""
    return list(zip(*tries, strict=True))


def again_example(rng: random.Random, mix: Mix) -> Example:
    """Build an example that solves a problem from a summary. The target follows the rules of
    AGGREGATE."""
    terms = training_terms(rng)
    tries = [tried(rng, terms) for _ in range(rng.choice((1, 2, 2, 3)))]
    votes = by_term(tries)
    messages = reasoning_cache.solve_again(problem(terms), listed(terms, votes))
    return solved(rng, messages, terms, merged(terms, votes, mix))


def waited_example(rng: random.Random, mix: Mix) -> Example:
    """Build an example that continues thinking after one of WAIT_WORDS. Its products merge all
    earlier products."""
    terms = training_terms(rng)
    lines = [attempt(term, mix.slips, mix.forgets) for term in terms]
    tries = [[picked(rng, chances) for chances in lines]]
    word = rng.choice(WAIT_WORDS)
    waits = []
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        waits.append(f"{products(terms, tries[-1])}\n\n{word}")
        lines = merged(terms, by_term(tries), mix)
        tries.append([picked(rng, chances) for chances in lines])
    again = products(terms, tries[-1])
    target = f"\n{again}\n{END_THINK}\n\n{solution(terms, tries[-1])}{IM_END}"
    # the target begins with a line break
    drawn = {index + 1: chances for index, chances in begins(again, lines).items()}
    messages: list[Message]
    if terms.is_proof or rng.random() < 0.4:
        messages = prompts.solve(problem(terms))
    else:
        messages = user(solve_prompt(rng, statement(terms)))
    return Example(messages, True, "\n".join(waits), target, drawn=drawn)


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
    role = rng.choices(list(ROLES), list(ROLES.values()))[0]
    return role(rng, mix)
