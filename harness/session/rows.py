"""Format the rows that a run prints before its first request: model, problems, engine and plan."""

from core.client.request import sampling_unsent
from core.constants import BOXED, Constants
from core.engines import environment, reasoning
from core.engines.protocol import Server
from core.types import Bounded, Sampling, Scaffold
from harness.framing import Framing
from harness.grid import Grid
from harness.problems.sets import ProblemSet

Row = tuple[str, str]  # a label and a text


def special_rows(
    config: Constants, server: Server, framed: Framing, scorer: Server | None = None
) -> list[Row]:
    """Return the rows on special settings and properties of the server. `scorer` is the model that
    scores, if it is not the run's."""
    rows = []
    if scorer:
        rows.append(("scorer", f"{scorer.model} scores ({scorer.choice})"))
    if unused := environment.unused_revision(server.revision):
        text = f"{unused} (REVISION) has no effect. Only runs that fetch a model of the hub use it"
        rows.append(("revision", text))
    if text := reasoning.description(server):
        rows.append(("reasoning", text))
    if framed.description:
        rows.append(("requests", f"with {framed.description}"))
    way = server.card.answer_form(config)
    if config.ELICIT:
        rows.append(("answers", f"{way} (ANSWER), asked for once if missing (ELICIT)"))
    elif way != BOXED:
        rows.append(("answers", f"{way} (ANSWER)"))
    if unsent := sampling_unsent(server, Sampling.from_config(server.card.sampled(config))):
        text = f"this server's defaults apply for {', '.join(unsent)}, which are not sent"
        rows.append(("sampling", text))
    if server.seeds is False:
        text = (
            "ignored by this server. SEED still decides random choices (candidates, ties and so on)"
        )
        rows.append(("seeds", text))
    return rows


def first_rows(server: Server, chosen: ProblemSet, is_default: bool, plan: str) -> list[Row]:
    """Return the rows that every run prints. `is_default` if the model's card chose the
    problems."""
    model = server.model
    if server.card.name:
        model += f" (card {server.card.name})"
    problems = f"{chosen.name}, n={len(chosen.problems)}"
    if is_default:
        problems += ", the default of this model"
    return [("model", model), ("problems", problems), ("engine", server.choice), ("plan", plan)]


def plan_of(planned: Bounded, config: Constants, problems: int, is_graded: bool) -> str:
    """Describe the number of completions. `is_graded` if a grader of its own may add requests."""
    completions = planned.max_completions(config)
    shared = 0
    if isinstance(planned, Grid):
        shared = planned.shared_completions
        completions += shared
    # comparisons limit tokens, so this is an estimate
    bound = "at most" if isinstance(planned, Scaffold) else "about"
    noun = "completion" if completions == 1 else "completions"
    unit = "problem and run" if config.RUNS > 1 else "problem"
    total = problems * completions * config.RUNS
    ending = ", without grading" if is_graded else ""
    if shared:
        count = problems * shared * config.RUNS
        ending += f". Runs read {count:,} of these from other runs of the sweep"
    return f"{bound} {completions:,} {noun} per {unit}, {total:,} in all{ending}"
