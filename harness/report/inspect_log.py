"""Write results as logs of inspect_ai, for users of `inspect view`.

Each step of a run has a log. In the log, a problem is a sample, and a member of the population is
an epoch. If all problems reach a step, Inspect's accuracy equals the step's mean accuracy.
requirements-inspect.txt installs inspect_ai.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import log, model, scorer

from core.client.journal import Archive
from harness.report.data import Results
from harness.report.tables import POINTS
from harness.results.find import archive
from harness.results.model import MemberResult, ProblemResult

MESSAGES: dict[str, Any] = {
    "system": model.ChatMessageSystem,
    "assistant": model.ChatMessageAssistant,
}
STOPS: dict[str | None, Any] = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
}


def write(runs: Sequence[Results], folder: Path) -> list[Path]:
    """Write the logs of `runs` into `folder`, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for run in runs:
        with archive(run.path, run.head.experiment) as journals:
            for t in range(len(run.head.metrics.steps)):
                written.append(folder / f"{run.name}-t{t}.eval")
                log.write_eval_log(_log(run, t, journals), written[-1])
    return written


def _log(run: Results, t: int, journals: Archive) -> log.EvalLog:
    head, step, name = run.head, run.head.metrics.steps[t], f"{run.name}_t{t}"
    problems = [problem for problem in run.problems if t < len(problem.steps)]
    samples = [
        _sample(run, p, t, i, journals) for p in problems for i in range(len(p.steps[t].members))
    ]
    rates = {"mean_accuracy": step.mean_accuracy, "majority_accuracy": step.majority_accuracy}
    kind, rates = (
        ("points", {POINTS: step.mean_accuracy}) if head.metrics.proofs else ("boxed", rates)
    )
    metrics = {
        name: log.EvalMetric(
            name=name, value=rate.value, metadata={"low": rate.low, "high": rate.high, "n": rate.n}
        )
        for name, rate in rates.items()
        if rate.value is not None
    }
    usages = (sample.output.usage for sample in samples if sample.output.usage)
    sampling = {key.lower(): head.config.get(key) for key in ("TEMPERATURE", "TOP_P", "MAX_TOKENS")}
    return log.EvalLog(
        status="success" if head.complete else "cancelled",
        eval=log.EvalSpec(
            created=head.started,
            task=name,
            task_id=name,
            eval_id=name,
            run_id=run.name,
            dataset=log.EvalDataset(name=head.problem_set["name"], samples=len(problems)),
            model=f"{head.engine['kind']}/{head.model['name']}",
            model_generate_config=model.GenerateConfig(**sampling),
            config=log.EvalConfig(
                epochs=max((sample.epoch for sample in samples), default=1), epochs_reducer=["mean"]
            ),
            metadata={
                "step": t,
                "config": head.config,
                "model": head.model,
                "provenance": head.provenance,
            },
        ),
        results=log.EvalResults(
            total_samples=len(samples),
            completed_samples=sum(sample.error is None for sample in samples),
            scores=[log.EvalScore(name=kind, scorer=kind, reducer="mean", metrics=metrics)],
        ),
        stats=log.EvalStats(
            started_at=head.started,
            completed_at=head.ended,
            model_usage={head.model["name"]: sum(usages, model.ModelUsage())},
        ),
        samples=samples,
    )


def _sample(
    run: Results, problem: ProblemResult, t: int, i: int, journals: Archive
) -> log.EvalSample:
    name, member = run.head.model["name"], problem.steps[t].members[i]
    found = journals.record(member.key)
    statement = problem.statement or f"(the statement of {problem.id} is not in these results)"
    question = [  # the prompt, or the problem if no journal has the prompt
        MESSAGES.get(message["role"], model.ChatMessageUser)(
            content=message["content"], source="input"
        )
        for message in (found and found.messages) or [{"role": "user", "content": statement}]
    ]
    content: list[Any] = [model.ContentText(text=found.completion.text.strip() if found else "")]
    if found and found.completion.thinking:
        content.insert(0, model.ContentReasoning(reasoning=found.completion.thinking))
    reply = model.ChatMessageAssistant(content=content, model=name, source="generate")
    output = model.ModelOutput.from_message(
        reply, stop_reason=STOPS.get(member.finish_reason, "unknown")
    )
    output.model, output.time = name, member.seconds
    read, written = member.prompt_tokens, member.completion_tokens
    if read is not None and written is not None:  # inspect needs both
        cached = member.cached_tokens
        output.usage = model.ModelUsage(
            input_tokens=read,
            output_tokens=written,
            total_tokens=read + written,
            input_tokens_cache_read=cached,
        )
    return log.EvalSample(
        id=problem.name,
        epoch=i + 1,
        input=question,
        target=problem.answer or "",
        messages=[*question, reply],
        output=output,
        scores=_scores(member),
        metadata={
            "step": t,
            "member": i,
            "parents": member.parents,
            "input": "the prompt" if found else "the problem",
        },
        model_usage={name: output.usage} if output.usage else {},
        error=log.EvalError(message=member.error, traceback="", traceback_ansi="")
        if member.error
        else None,
        total_time=member.seconds,
    )


def _scores(member: MemberResult) -> dict[str, scorer.Score]:
    """Return the grade of a member, or nothing if the member is not graded."""
    if member.is_proof:
        words = "\n\n".join(member.reasons) or None
        return (
            {}
            if member.known_worth is None
            else {"points": scorer.Score(value=member.known_worth, explanation=words)}
        )
    if member.correct is None:
        return {}
    doubt, value = ", ".join(member.doubts), scorer.CORRECT if member.correct else scorer.INCORRECT
    more = {"doubt": doubt or None, "finish_reason": member.finish_reason, "group": member.group}
    explanation = f"doubt: {doubt}" if doubt else None
    return {
        "boxed": scorer.Score(
            value=value, answer=member.answer, explanation=explanation, metadata=more
        )
    }
