"""Write results as logs of inspect_ai, for users of `inspect view`.

Each step of a run has a log. In the log, a problem is a sample, and a member of the population is
an epoch. If all problems reach a step, Inspect's accuracy equals the step's mean accuracy.
requirements-inspect.txt installs inspect_ai.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import log, model, scorer

from core.client.journal import Archive, Record
from harness.report.data import Results
from harness.report.tables import POINTS
from harness.results.find import archive
from harness.results.model import Head, MemberResult, ProblemResult

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
    paths = []
    for run in runs:
        with archive(run.path, run.head.experiment) as journals:
            for t in range(len(run.head.metrics.steps)):
                path = folder / f"{run.name}-t{t}.eval"
                log.write_eval_log(_log(run, t, journals), path)
                paths.append(path)
    return paths


def _log(run: Results, t: int, journals: Archive) -> log.EvalLog:
    head = run.head
    problems = [problem for problem in run.problems if t < len(problem.steps)]
    samples = []
    for problem in problems:
        members = range(len(problem.steps[t].members))
        samples += [_sample(run, problem, t, i, journals) for i in members]
    usage = model.ModelUsage()
    for sample in samples:
        if sample.output.usage:
            usage += sample.output.usage
    completed = [sample for sample in samples if sample.error is None]
    return log.EvalLog(
        status="success" if head.complete else "cancelled",
        eval=_spec(run, t, problems, samples),
        results=log.EvalResults(
            total_samples=len(samples),
            completed_samples=len(completed),
            scores=[_score_of_step(head, t)],
        ),
        stats=log.EvalStats(
            started_at=head.started,
            completed_at=head.ended,
            model_usage={head.model["name"]: usage},
        ),
        samples=samples,
    )


def _spec(
    run: Results, t: int, problems: Sequence[ProblemResult], samples: Sequence[log.EvalSample]
) -> log.EvalSpec:
    """Describe the task of a log: the problems, the model and the constants."""
    head = run.head
    name = f"{run.name}_t{t}"
    sampling = {key.lower(): head.config.get(key) for key in ("TEMPERATURE", "TOP_P", "MAX_TOKENS")}
    epochs = max((sample.epoch for sample in samples), default=1)
    return log.EvalSpec(
        created=head.started,
        task=name,
        task_id=name,
        eval_id=name,
        run_id=run.name,
        dataset=log.EvalDataset(name=head.problem_set["name"], samples=len(problems)),
        model=f"{head.engine['kind']}/{head.model['name']}",
        model_generate_config=model.GenerateConfig(**sampling),
        config=log.EvalConfig(epochs=epochs, epochs_reducer=["mean"]),
        metadata={
            "step": t,
            "config": head.config,
            "model": head.model,
            "provenance": head.provenance,
        },
    )


def _score_of_step(head: Head, t: int) -> log.EvalScore:
    """Return the rates of a step, with their intervals."""
    step = head.metrics.steps[t]
    if head.metrics.proofs:
        kind = "points"
        rates = {POINTS: step.mean_accuracy}
    else:
        kind = "boxed"
        rates = {"mean_accuracy": step.mean_accuracy, "majority_accuracy": step.majority_accuracy}
    metrics = {}
    for name, rate in rates.items():
        if rate.value is not None:
            interval = {"low": rate.low, "high": rate.high, "n": rate.n}
            metrics[name] = log.EvalMetric(name=name, value=rate.value, metadata=interval)
    return log.EvalScore(name=kind, scorer=kind, reducer="mean", metrics=metrics)


def _sample(
    run: Results, problem: ProblemResult, t: int, i: int, journals: Archive
) -> log.EvalSample:
    member = problem.steps[t].members[i]
    name = run.head.model["name"]
    record = journals.record(member.key)
    question = _question(problem, record)
    output = _output(name, member, record)
    error = None
    if member.error:
        error = log.EvalError(message=member.error, traceback="", traceback_ansi="")
    return log.EvalSample(
        id=problem.name,
        epoch=i + 1,
        input=question,
        target=problem.answer or "",
        messages=[*question, output.message],
        output=output,
        scores=_scores(member),
        metadata={
            "step": t,
            "member": i,
            "parents": member.parents,
            "input": "the prompt" if record else "the problem",
        },
        model_usage={name: output.usage} if output.usage else {},
        error=error,
        total_time=member.seconds,
    )


def _question(problem: ProblemResult, record: Record | None) -> list[Any]:
    """Return the prompt, or the problem if no journal has the prompt."""
    messages = record.messages if record else None
    if not messages:
        missing = f"(the statement of {problem.id} is not in these results)"
        messages = [{"role": "user", "content": problem.statement or missing}]
    question = []
    for message in messages:
        kind = MESSAGES.get(message["role"], model.ChatMessageUser)
        question.append(kind(content=message["content"], source="input"))
    return question


def _output(name: str, member: MemberResult, record: Record | None) -> model.ModelOutput:
    """Return the reply of a member, with its tokens if the server counted them."""
    content: list[Any] = []
    if record and record.completion.thinking:
        content.append(model.ContentReasoning(reasoning=record.completion.thinking))
    content.append(model.ContentText(text=record.completion.text.strip() if record else ""))
    reply = model.ChatMessageAssistant(content=content, model=name, source="generate")
    reason = STOPS.get(member.finish_reason, "unknown")
    output = model.ModelOutput.from_message(reply, stop_reason=reason)
    output.model = name
    output.time = member.seconds
    prompt = member.prompt_tokens
    completion = member.completion_tokens
    if prompt is not None and completion is not None:  # inspect needs both
        output.usage = model.ModelUsage(
            input_tokens=prompt,
            output_tokens=completion,
            total_tokens=prompt + completion,
            input_tokens_cache_read=member.cached_tokens,
        )
    return output


def _scores(member: MemberResult) -> dict[str, scorer.Score]:
    """Return the grade of a member, or nothing if the member is not graded."""
    if member.is_proof:
        if member.known_worth is None:
            return {}
        reasons = "\n\n".join(member.reasons) or None
        return {"points": scorer.Score(value=member.known_worth, explanation=reasons)}
    if member.correct is None:
        return {}
    doubt = ", ".join(member.doubts)
    value: str | float = scorer.CORRECT if member.correct else scorer.INCORRECT
    if member.grade is not None:
        value = member.grade
    score = scorer.Score(
        value=value,
        answer=member.answer,
        explanation=f"doubt: {doubt}" if doubt else None,
        metadata={
            "doubt": doubt or None,
            "finish_reason": member.finish_reason,
            "group": member.group,
        },
    )
    return {"boxed": score}
