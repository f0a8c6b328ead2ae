"""The results JSON (schema 1, core/results.schema.json): graded steps, metrics, provenance, atomic writes.

Grading is apart from generation: `grade` needs completions only, so a better extractor re-scores an old run from its
journal with no GPU.
"""

import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from core import stats
from core.eval import extract, judge, pass_at_k, vote
from core.files import remove, write_atomically
from core.generate import Completion
from core.problems import Problem
from core.prompts import prompts_sha256
from core.rsa import Member

SCHEMA = 1
ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("openai", "huggingface_hub", "numpy", "tqdm", "math-verify", "xllamacpp")
PASS_AT = range(1, 9)
# Short right solutions coincide by themselves (an eighth of the embedded model's first ones); a server that ignores
# seeds repeats nearly all.
MANY_IDENTICAL = 0.5
MANY_TRUNCATED = 0.1  # a share of truncated completions above this makes accuracy a figure about the cap


# Grading


def grade(problem: Problem, step: int, population: Sequence[Member]) -> dict[str, Any]:
    """The record of one step of one problem."""
    members = [_member(problem, member) for member in population]
    voted = vote([m["answer"] for m in members], problem.answer, problem.answer_type)
    spoken = [(m.completion.thinking, m.completion.text) for m in population if m.completion.error is None]
    return {
        "step": step,
        "mean_accuracy": sum(m["correct"] for m in members) / len(members),
        "majority_answer": voted.answer,
        "majority_tied": list(voted.tied) if len(voted.tied) > 1 else [],
        "majority_correct": voted.score,
        "identical": len(spoken) - len(set(spoken)),
        "members": members,
    }


def _member(problem: Problem, member: Member) -> dict[str, Any]:
    made = member.completion
    read = _read(problem, made, made.text)
    record: dict[str, Any] = {
        "answer": read["answer"],
        "correct": read["correct"],
        "doubt": "failed" if made.error else read["doubt"],
        "parents": member.parents,
    } | _cost(made)
    if made.error:
        record["error"] = made.error
    if made.forced is not None:
        record["unforced"] = _read(problem, made, made.answer)
    if member.verdicts is not None:
        record |= {"score": member.score, "verdicts": member.verdicts, "checks": [_cost(c) for c in member.checks]}
    return record


def _cost(made: Completion) -> dict[str, Any]:
    """Where a completion is kept, and what it took."""
    return {
        "finish_reason": made.finish_reason,
        "prompt_tokens": made.prompt_tokens,
        "cached_tokens": made.cached_tokens,
        "completion_tokens": made.completion_tokens,
        "seconds": made.seconds,
        "seed": made.seed,
        "key": made.key,
    }


def _read(problem: Problem, made: Completion, text: str) -> dict[str, Any]:
    """One reading of a completion, forced or not. A comparison that math-verify could not decide counts as wrong,
    with the doubt "undecided"."""
    read = extract(text, problem.answer_type, truncated=made.truncated)
    verdict = judge(read.answer, problem.answer, problem.answer_type)
    doubt = read.doubt or ("undecided" if verdict is None else None)
    return {"answer": read.answer, "correct": verdict is True, "doubt": doubt}


# Metrics


def metrics(problems: Sequence[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Figures over all problems, step by step. Only problems that reached a step count in it; one that finished
    before (a scaffold may stop early) counts with its last population, at no cost."""
    depth = max((len(p["steps"]) for p in problems), default=0)
    steps = []
    for t in range(depth):
        here = [p["steps"][t] for p in problems if len(p["steps"]) > t]
        ended = [p["steps"][-1] for p in problems if len(p["steps"]) <= t and p["finished"] and p["steps"]]
        steps.append(_step_metrics(here, ended, t))
    members = [m for p in problems for s in p["steps"] for m in s["members"]]
    final = {name: steps[-1][name] for name in ("mean_accuracy", "majority_accuracy", "pass_at_k")} if steps else {}
    found = {
        "steps": steps,
        "final": final,
        "tokens": {
            kind: sum(m[f"{kind}_tokens"] for m in [*members, *_checks(members)])
            for kind in ("prompt", "cached", "completion")
        },
        "seconds": round(seconds, 1),
    }
    if any("verdicts" in m for m in members):
        found["verification"] = _verification(problems)
    return found


def _step_metrics(records: Sequence[dict[str, Any]], ended: Sequence[dict[str, Any]], step: int) -> dict[str, Any]:
    """Accuracy over `records` and `ended`, costs and counts over `records`."""
    members = [m for r in records for m in r["members"]]
    standing = [*records, *ended]
    correct = [[float(m["correct"]) for m in r["members"]] for r in standing]
    return {
        "step": step,
        "mean_accuracy": stats.mean_by_problem(correct).to_json(),
        "majority_accuracy": stats.mean_by_problem([r["majority_correct"] for r in standing]).to_json(),
        "pass_at_k": {
            str(k): stats.mean_by_problem([pass_at_k(len(c), int(sum(c)), k) for c in correct]).to_json()
            for k in PASS_AT
            if k <= min(map(len, correct))
        },
        "completion_tokens": sum(m["completion_tokens"] for m in members),
        "verification_tokens": sum(c["completion_tokens"] for c in _checks(members)),
        "generation_seconds": round(sum(m["seconds"] for m in [*members, *_checks(members)]), 1),
        "completions": len(members),
        "problems": len(records),
        "truncated": sum(m["finish_reason"] == "length" for m in members),
        "forced": sum("unforced" in m for m in members),
        "doubtful": sum(m["doubt"] is not None for m in members),
        "failed": sum("error" in m for m in members),
        "identical": sum(r["identical"] for r in records),
    }


def _checks(members: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The verifications of `members`: tokens spent beside those of the solutions."""
    return [check for m in members for check in m.get("checks", [])]


def _verification(problems: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How well scores tell right from wrong, and how often they could not choose at all."""
    scored = [[m for m in s["members"] if "verdicts" in m] for p in problems for s in p["steps"]]
    populations = [members for members in scored if members]
    members = [m for population in populations for m in population]
    verdicts = [v for m in members for v in m["verdicts"]]
    readable = [m for m in members if m["score"] is not None]
    right = [m["score"] for m in readable if m["correct"]]
    wrong = [m["score"] for m in readable if not m["correct"]]
    return {
        "verdicts": len(verdicts),
        "unreadable": sum(v is None for v in verdicts),
        "auc": stats.auc(right, wrong),
        "right": len(right),
        "wrong": len(wrong),
        "selections": len(populations),
        "uniform_selections": sum(_is_uniform(population) for population in populations),
    }


def _is_uniform(population: Sequence[dict[str, Any]]) -> bool:
    """Whether Boltzmann selection had nothing to go by: all known scores equal."""
    return len({m["score"] for m in population if m["score"] is not None}) <= 1


def warnings(document: dict[str, Any]) -> list[str]:
    """What makes the figures doubtful, in words."""
    steps = document["metrics"]["steps"]
    completions = sum(s["completions"] for s in steps)
    found = []
    if document["model"].get("embedded"):
        found.append("embedded model: a demonstration on sums of products, not QED-Nano and not AIME")
    if not document["complete"]:
        done = sum(len(p["steps"]) for p in document["problems"])
        found.append(f"partial run: {done} populations so far; run the same command again to go on")
    for count, words in (("truncated", "hit the token cap"), ("failed", "failed"), ("forced", "were forced to answer")):
        share = sum(s[count] for s in steps) / completions if completions else 0
        if share > (MANY_TRUNCATED if count != "failed" else 0):
            why = f"; most often: {_commonest_error(document)}" if count == "failed" else ""
            found.append(f"{share:.1%} of {completions} completions {words}{why}")
    if steps and steps[0]["identical"] > MANY_IDENTICAL * steps[0]["completions"]:
        found.append(
            f"step 0: {steps[0]['identical']} of {steps[0]['completions']} members repeat another of their population "
            "word for word although their seeds differ; does the server ignore seeds, or is TEMPERATURE 0?"
        )
    checked = document["metrics"].get("verification")
    if checked and checked["uniform_selections"]:
        found.append(
            f"selection was uniform here: in {checked['uniform_selections']} of {checked['selections']} scored "
            "populations all scores were equal"
        )
    if checked and checked["unreadable"]:
        found.append(f"{checked['unreadable']} of {checked['verdicts']} verdicts could not be read")
    return found


def _commonest_error(document: dict[str, Any]) -> str:
    members = (m for p in document["problems"] for s in p["steps"] for m in s["members"])
    return str(Counter(m["error"] for m in members if "error" in m).most_common(1)[0][0])


# Provenance and files


def provenance() -> dict[str, Any]:
    """Where the figures come from: code, packages, machine. No host names, no keys."""
    return {
        "git_commit": _said(["git", "-C", str(ROOT), "rev-parse", "HEAD"]),
        "git_dirty": bool(_said(["git", "-C", str(ROOT), "status", "--porcelain"])),
        "prompts_sha256": prompts_sha256(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "gpu": _said(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]),
    }


def _said(args: list[str]) -> str | None:
    try:
        done = subprocess.run(args, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def save(document: dict[str, Any], folder: Path) -> Path:
    """Write `document` under its experiment's name: NAME.json when complete, NAME.partial.json until then.

    An earlier NAME.json is kept beside it as NAME.<when it started>.json; a complete run removes the partial file.
    """
    name = document["experiment"]
    partial = folder / f"{name}.partial.json"
    if not document["complete"]:
        write_atomically(partial, _dump(document))
        return partial
    path = folder / f"{name}.json"
    if path.exists():
        _keep(path, _unused(folder, name, _started(path)))
    write_atomically(path, _dump(document))
    remove(partial)
    return path


def _keep(path: Path, kept: Path) -> None:
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        write_atomically(kept, path.read_bytes())


def _started(path: Path) -> str:
    try:
        stamp = datetime.fromisoformat(json.loads(path.read_text(encoding="utf-8"))["started"])
    except (OSError, ValueError, KeyError, TypeError):
        stamp = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return stamp.strftime("%Y%m%d-%H%M%S")


def _unused(folder: Path, name: str, stamp: str) -> Path:
    path, number = folder / f"{name}.{stamp}.json", 2
    while path.exists():
        path, number = folder / f"{name}.{stamp}-{number}.json", number + 1
    return path


def _dump(document: dict[str, Any]) -> bytes:
    """One line per step of a problem: readable in an editor, diffable, and compact."""
    head = {key: value for key, value in document.items() if key != "problems"}
    text = json.dumps(head, indent=1, ensure_ascii=True)
    problems = ",\n".join(_dump_problem(problem) for problem in document["problems"])
    return f'{text[:-2]},\n "problems": [\n{problems}\n ]\n}}\n'.encode()


def _dump_problem(problem: dict[str, Any]) -> str:
    head = json.dumps({key: value for key, value in problem.items() if key != "steps"}, ensure_ascii=True)
    steps: Iterable[str] = (json.dumps(step, ensure_ascii=True) for step in problem["steps"])
    return f'  {head[:-1]}, "steps": [\n   ' + ",\n   ".join(steps) + "]}"
