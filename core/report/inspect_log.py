"""Results as logs of inspect_ai, written by inspect_ai's own writer, for people who live in `inspect view`.

A log for each step of a run: a problem is a sample, a member of its population an epoch of it. Inspect's own figures
(accuracy over epochs) are then the mean accuracy of that step. inspect_ai is optional: requirements-inspect.txt.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.report.page import (
    ANSWER,
    CACHED,
    CORRECT,
    DOUBT,
    ERROR,
    FINISH,
    GROUP,
    PARENTS,
    PROMPT,
    SECONDS,
    TOKENS,
    Run,
    journals,
    texts,
)

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
        with journals(run) as archive:
            said = [texts(run, number, archive) for number in range(len(run.problems))]
        for t in range(len(run.head["metrics"]["steps"])):
            path = folder / f"{run.name}-t{t}.eval"
            inspect.write_eval_log(_log(run, t, said), path)
            written.append(path)
    return written


def _log(run: Run, t: int, said: Sequence[dict[str, dict[str, Any]]]) -> Any:
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

    head, step = run.head, run.head["metrics"]["steps"][t]
    config = head["config"]
    samples = [
        _sample(run, number, t, i, said[number])
        for number, problem in enumerate(run.problems)
        if t < len(problem["steps"])
        for i in range(len(problem["steps"][t]["m"]))
    ]
    metrics = {}
    for name in ("mean_accuracy", "majority_accuracy"):
        found = step[name]
        if found["value"] is not None:
            about = {part: found[part] for part in ("low", "high", "n")}
            metrics[name] = EvalMetric(name=name, value=found["value"], metadata=about)
    commit = head["provenance"].get("git_commit")
    ids = [problem["id"] for problem in run.problems if t < len(problem["steps"])]
    return EvalLog(
        status="success" if head["complete"] else "cancelled",
        eval=EvalSpec(
            created=head["started"],
            task=f"{run.name}_t{t}",
            task_id=f"{run.name}_t{t}",
            eval_id=f"{run.name}_t{t}",
            run_id=run.name,
            dataset=EvalDataset(name=head["problem_set"]["name"], samples=len(ids), sample_ids=ids),
            model=f"{head['engine']['kind']}/{head['model']['name']}",
            model_generate_config=GenerateConfig(
                temperature=config.get("TEMPERATURE"), top_p=config.get("TOP_P"), max_tokens=config.get("MAX_TOKENS")
            ),
            config=EvalConfig(epochs=max((s.epoch for s in samples), default=1), epochs_reducer=["mean"]),
            revision=EvalRevision(type="git", origin="", commit=commit) if isinstance(commit, str) else None,
            metadata={"step": t, "config": config, "model": head["model"], "warnings": head["warnings"]},
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=sum(sample.error is None for sample in samples),
            scores=[EvalScore(name="boxed", scorer="boxed", reducer="mean", metrics=metrics)],
        ),
        stats=EvalStats(
            started_at=head["started"],
            completed_at=head["ended"],
            model_usage={head["model"]["name"]: sum((s.output.usage for s in samples if s.output.usage), ModelUsage())},
        ),
        samples=samples,
    )


def _sample(run: Run, number: int, t: int, i: int, said: dict[str, dict[str, Any]]) -> Any:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageUser,
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
    row = problem["steps"][t]["m"][i]
    answers, more = said["a"].get(f"{t},{i}", {}), said["b"].get(f"{t},{i}", {})
    model = run.head["model"]["name"]
    pieces = answers.get("p") or more.get("p")
    if pieces:
        prompt = "".join(
            piece if isinstance(piece, str) else _text(said["a"].get(f"{t - 1},{piece}", {})) for piece in pieces
        )
    else:  # what was sent is not known; the problem stands for it
        prompt = problem["statement"] or f"(the statement of {problem['id']} is not in these results)"
    content: list[Any] = [ContentReasoning(reasoning=more["t"])] if "t" in more else []
    content.append(ContentText(text=_text(answers)))
    reply = ChatMessageAssistant(content=content, model=model, source="generate")
    usage = None
    if None not in (row[PROMPT], row[TOKENS]):  # else the server told none, and inspect knows no other word for that
        usage = ModelUsage(
            input_tokens=row[PROMPT],
            output_tokens=row[TOKENS],
            total_tokens=row[PROMPT] + row[TOKENS],
            input_tokens_cache_read=row[CACHED],
        )
    question = ChatMessageUser(content=prompt, source="input")
    return EvalSample(
        id=problem["id"],
        epoch=i + 1,
        input=[question],
        target=problem["answer"],
        messages=[question, reply],
        output=ModelOutput(
            model=model,
            choices=[ChatCompletionChoice(message=reply, stop_reason=STOPS.get(row[FINISH], "unknown"))],
            usage=usage,
            time=row[SECONDS],
        ),
        scores={
            "boxed": Score(
                value=RIGHT if row[CORRECT] else WRONG,
                answer=row[ANSWER],
                explanation=f"doubt: {row[DOUBT]}" if row[DOUBT] else None,
                metadata={
                    "doubt": row[DOUBT],
                    "parents": row[PARENTS],
                    "finish_reason": row[FINISH],
                    "group": row[GROUP],  # of members that say the same; 0 is the largest
                },
            )
        },
        metadata={"step": t, "member": i, "parents": row[PARENTS], "input": "the prompt" if pieces else "the problem"},
        model_usage={model: usage} if usage else {},
        error=EvalError(message=row[ERROR], traceback="", traceback_ansi="") if row[ERROR] else None,
        total_time=row[SECONDS],
    )


def _text(answers: dict[str, Any]) -> str:
    return str(answers.get("f") or answers.get("a") or "").strip()
