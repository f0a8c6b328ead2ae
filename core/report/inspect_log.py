"""Results as logs of inspect_ai, written by inspect_ai's own writer, for people who live in `inspect view`.

A log for each step of a run: a problem is a sample, a member of its population an epoch of it. Inspect's own figures
(accuracy over epochs) are then the mean accuracy of that step. inspect_ai is optional: requirements-inspect.txt.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.report import texts
from core.report.page import Run
from core.report.tables import POINTS
from core.report.texts import Texts
from core.results.data import archive
from core.types import Message

STOPS: dict[str, Any] = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
}


def write(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Write the logs of `runs` into `folder`. Raises UserError where inspect_ai is not installed."""
    try:
        from inspect_ai import log as inspect
    except ImportError:
        raise UserError("--inspect needs inspect_ai, which is not installed. Run: bash setup.sh inspect") from None
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for run in runs:
        with archive(run.path, run.head.experiment) as journals:
            found = [texts.of_problem(problem, journals) for problem in run.problems]
        for t in range(len(run.head.metrics.steps)):
            path = folder / f"{run.name}-t{t}.eval"
            inspect.write_eval_log(_log(run, t, found), path)
            written.append(path)
    return written


def _log(run: Run, t: int, found: Sequence[Texts]) -> Any:
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalMetric,
        EvalResults,
        EvalRevision,
        EvalScore,
        EvalSpec,
        EvalStats,
    )
    from inspect_ai.model import GenerateConfig, ModelUsage

    head, step = run.head, run.head.metrics.steps[t]
    config = head.config
    samples = [
        _sample(run, number, t, i, found[number])
        for number, problem in enumerate(run.problems)
        if t < len(problem.steps)
        for i in range(len(problem.steps[t].members))
    ]
    metrics = {}
    scorer = "points" if head.metrics.proofs else "boxed"
    rates = {"mean_accuracy": step.mean_accuracy, "majority_accuracy": step.majority_accuracy}
    for name, rate in ({POINTS: step.mean_accuracy} if head.metrics.proofs else rates).items():
        if rate.value is not None:
            about = {"low": rate.low, "high": rate.high, "n": rate.n}
            metrics[name] = EvalMetric(name=name, value=rate.value, metadata=about)
    commit = head.provenance.get("git_commit")
    ids: list[int | str] = [problem.name for problem in run.problems if t < len(problem.steps)]
    return EvalLog(
        status="success" if head.complete else "cancelled",
        eval=EvalSpec(
            created=head.started,
            task=f"{run.name}_t{t}",
            task_id=f"{run.name}_t{t}",
            eval_id=f"{run.name}_t{t}",
            run_id=run.name,
            dataset=EvalDataset(name=head.problem_set["name"], samples=len(ids), sample_ids=ids),
            model=f"{head.engine['kind']}/{head.model['name']}",
            model_generate_config=GenerateConfig(
                temperature=config.get("TEMPERATURE"), top_p=config.get("TOP_P"), max_tokens=config.get("MAX_TOKENS")
            ),
            config=EvalConfig(epochs=max((s.epoch for s in samples), default=1), epochs_reducer=["mean"]),
            revision=EvalRevision(type="git", origin="", commit=commit) if isinstance(commit, str) else None,
            metadata={"step": t, "config": config, "model": head.model, "warnings": head.warnings},
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=sum(sample.error is None for sample in samples),
            scores=[EvalScore(name=scorer, scorer=scorer, reducer="mean", metrics=metrics)],
        ),
        stats=EvalStats(
            started_at=head.started,
            completed_at=head.ended,
            model_usage={head.model["name"]: sum((s.output.usage for s in samples if s.output.usage), ModelUsage())},
        ),
        samples=samples,
    )


def _sample(run: Run, number: int, t: int, i: int, found: Texts) -> Any:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import (
        ChatMessageAssistant,
        ContentReasoning,
        ContentText,
        ModelOutput,
        ModelUsage,
    )
    from inspect_ai.model._model_output import ChatCompletionChoice
    from inspect_ai.scorer import CORRECT as RIGHT
    from inspect_ai.scorer import INCORRECT as WRONG
    from inspect_ai.scorer import Score

    problem = run.problems[number]
    member = problem.steps[t].members[i]
    cost, doubt = member.cost, ", ".join(member.doubts)
    answers, more = found.tiers["a"].get(f"{t},{i}", {}), found.tiers["b"].get(f"{t},{i}", {})
    model = run.head.model["name"]
    sent = texts.messages_of(found, t, i)
    # Where the messages are not known, the problem stands for them.
    statement = problem.statement or f"(the statement of {problem.id} is not in these results)"
    question = [_message(message) for message in sent or [{"role": "user", "content": statement}]]
    content: list[Any] = [ContentReasoning(reasoning=more["thinking"])] if "thinking" in more else []
    content.append(ContentText(text=str(answers.get("forced") or answers.get("answer") or "").strip()))
    reply = ChatMessageAssistant(content=content, model=model, source="generate")
    usage = None  # where the server counted no tokens: inspect knows no other word for that
    if cost.prompt_tokens is not None and cost.completion_tokens is not None:
        usage = ModelUsage(
            input_tokens=cost.prompt_tokens,
            output_tokens=cost.completion_tokens,
            total_tokens=cost.prompt_tokens + cost.completion_tokens,
            input_tokens_cache_read=cost.cached_tokens,
        )
    return EvalSample(
        id=problem.name,
        epoch=i + 1,
        input=question,
        target=problem.answer or "",
        messages=[*question, reply],
        output=ModelOutput(
            model=model,
            choices=[ChatCompletionChoice(message=reply, stop_reason=STOPS.get(cost.finish_reason or "", "unknown"))],
            usage=usage,
            time=cost.seconds,
        ),
        scores={"points": Score(value=member.points.worth, explanation="\n\n".join(member.points.reasons) or None)}
        if member.points and member.points.worth is not None
        else {}
        if member.correct is None or member.points  # nobody has graded it
        else {
            "boxed": Score(
                value=RIGHT if member.correct else WRONG,
                answer=member.answer,
                explanation=f"doubt: {doubt}" if doubt else None,
                metadata={
                    "doubt": doubt or None,
                    "parents": member.parents,
                    "finish_reason": cost.finish_reason,
                    "group": member.group,  # of members that say the same; 0 is the largest
                },
            )
        },
        metadata={"step": t, "member": i, "parents": member.parents, "input": "the prompt" if sent else "the problem"},
        model_usage={model: usage} if usage else {},
        error=EvalError(message=cost.error, traceback="", traceback_ansi="") if cost.error else None,
        total_time=cost.seconds,
    )


def _message(message: Message) -> Any:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds: dict[str, Any] = {"system": ChatMessageSystem, "assistant": ChatMessageAssistant}
    return kinds.get(message["role"], ChatMessageUser)(content=message["content"], source="input")
