"""The results JSON (schema 1, core/results/schema.json): graded steps, doubts, provenance, atomic writes.

Grading is apart from generation: `grade` needs completions only, so a better extractor re-scores an old run from its
journal with no GPU.
"""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from core.errors import UserError, one_line
from core.files import ROOT, remove, write_atomically
from core.grading.answers import groups, judge, vote
from core.grading.boxed import extract
from core.prompts import prompts_sha256
from core.results import read
from core.types import Completion, Member, Problem

SCHEMA = 1
PACKAGES = ("openai", "huggingface_hub", "numpy", "tqdm", "math-verify", "xllamacpp")
# Short right solutions coincide by themselves (an eighth of the embedded model's first ones); a server that ignores
# seeds repeats nearly all.
MANY_IDENTICAL = 0.5
# What a member costs that stood in an earlier population already: its tokens are in the record there.
FREE = {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0, "seconds": 0.0}
MANY_TRUNCATED = 0.1  # a share of truncated completions above this makes accuracy a figure about the cap


# Grading


def grade(problem: Problem, step: int, population: Sequence[Member]) -> dict[str, Any]:
    """The record of one step of one problem. Members of one "group" say the same; the largest group is number 0."""
    members = [_member(problem, member) for member in population]
    answers = [m["answer"] for m in members]
    voted = vote(answers, problem.answer or "", problem.answer_type)
    ranks = {name: rank for rank, name in enumerate(voted.counts)}
    for m, name in zip(members, voted.names, strict=True):
        m["group"] = None if name is None else ranks[name]
    made = [m.completion for m in population if not (m.completion.error or m.completion.filtered)]
    spoken = [(c.thinking, c.text) for c in made if (c.thinking + c.text).strip()]  # silence is no repetition
    return {
        "step": step,
        "mean_accuracy": sum(m["correct"] for m in members) / len(members),
        "majority_answer": voted.answer,
        "majority_tied": list(voted.tied) if len(voted.tied) > 1 else [],
        "majority_correct": voted.score,
        "identical": len(spoken) - len(set(spoken)),
        "members": members,
    } | ({"undecided_pairs": voted.undecided} if voted.undecided else {})


def _member(problem: Problem, member: Member) -> dict[str, Any]:
    made = member.completion
    read = _read(problem, made, made.text)
    record: dict[str, Any] = {
        "answer": read["answer"],
        "correct": read["correct"],
        "doubt": _silence(made) or read["doubt"],
        "parents": member.parents,
    } | _cost(made)
    if "undecided" in read:
        record["undecided"] = True
    if made.forced is not None:
        record["unforced"] = _read(problem, made, made.answer)
    if member.carried_over:
        record |= {"again": True} | FREE
    if member.verdicts is not None:
        record |= {"score": member.self_score, "verdicts": member.verdicts}
    if member.verdicts is not None or member.side_calls:
        record["checks"] = [_cost(c) for c in member.side_calls]
    if member.notes:
        record["notes"] = member.notes
    return record


def _silence(made: Completion) -> str | None:
    """Why a completion says nothing, or not all that it would have said, where that is the server's doing."""
    return "failed" if made.error else "filtered" if made.filtered else "empty" if made.empty else None


def _cost(made: Completion) -> dict[str, Any]:
    """Where a completion is kept, what it took (None: the server does not tell), and why it failed or is empty, if it
    is."""
    prompt, cached, completion = made.counted
    cost: dict[str, Any] = {
        "finish_reason": made.finish_reason,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": completion,
        "seconds": made.seconds,
        "seed": made.seed,
        "key": made.key,
    }
    if made.not_forced:
        cost["not_forced"] = made.not_forced
    silence = _silence(made)
    return cost | ({"error": made.error} if made.error else {silence: True} if silence else {})


def _read(problem: Problem, made: Completion, text: str) -> dict[str, Any]:
    """One reading of a completion, forced or not. A comparison that math-verify could not decide counts as wrong, is
    marked as undecided, and has that for its doubt where there is no other."""
    read = extract(text, problem.answer_type, truncated=made.truncated)
    verdict = judge(read.answer, problem.answer or "", problem.answer_type)
    doubt = read.doubt
    if read.others and len(groups([read.answer, *read.others], problem.answer_type).counts) == 1:
        doubt = None  # several spellings of one answer
    if verdict is None:
        return {"answer": read.answer, "correct": False, "doubt": doubt or "undecided", "undecided": True}
    return {"answer": read.answer, "correct": verdict, "doubt": doubt}


# Doubts


def warnings(document: dict[str, Any], commonest_error: str | None) -> list[str]:
    """What makes the figures doubtful, in words. `commonest_error`: of the completions that failed."""
    steps = document["metrics"]["steps"]
    completions = sum(s["completions"] for s in steps)
    found = []
    if document["model"].get("embedded"):
        found.append("embedded model: a demonstration on sums of products, not QED-Nano and not AIME")
    if document["engine"].get("seeds") is False:
        found.append(
            "the server ignores seeds: SEED decides which candidates are drawn, not what the model answers, so that "
            "another run gives other answers (SGLang honours seeds when it is started with DETERMINISTIC=1)"
        )
    if not document["complete"]:
        done = sum(s["problems"] for s in steps)
        found.append(f"partial run: {done} populations so far; run the same command again to go on")
    for count, words in (("truncated", "hit the token cap"), ("failed", "failed"), ("forced", "were forced to answer")):
        share = sum(s[count] for s in steps) / completions if completions else 0
        if share > (MANY_TRUNCATED if count != "failed" else 0):
            why = f"; most often: {one_line(str(commonest_error), 300)}" if count == "failed" else ""
            found.append(f"{share:.1%} of {completions} completions {words}{why}")
    for count, words in (("empty", "are empty: the server sent no text"), ("filtered", "were ended by a filter")):
        some = sum(s.get(count, 0) for s in steps)
        if some > (MANY_TRUNCATED * completions if count == "empty" else 0):  # single ones are a model's own
            found.append(f"{some / completions:.1%} of {completions} completions {words}")
    if uncounted := sum(s.get("uncounted", 0) for s in steps):
        found.append(f"the server did not tell the tokens of {uncounted} completions and checks: figures lack them")
    if steps and steps[0]["identical"] > MANY_IDENTICAL * steps[0]["completions"]:
        found.append(
            f"step 0: {steps[0]['identical']} of {steps[0]['completions']} members repeat another of their population "
            "word for word although their seeds differ; does the server ignore seeds, or is TEMPERATURE 0?"
        )
    undecided, pairs = (sum(s.get(what, 0) for s in steps) for what in ("undecided", "undecided_pairs"))
    if undecided or pairs:
        found.append(
            f"math-verify gave no verdict in time: {undecided} answers are undecided and count as wrong, {pairs} pairs "
            "of answers count as different in votes; the same command grades all again, from the journal"
        )
    for what in ("truncated", "failed", "empty", "filtered"):
        if count := document["metrics"].get("checks", {}).get(what):
            why = f"; most often: {one_line(str(commonest_error), 300)}" if what == "failed" else ""
            words = "hit the token cap" if what == "truncated" else what
            found.append(f"{count} of {document['metrics']['checks']['completions']} checks {words}{why}")
    found += origins(document["engine"].get("origin"), document["metrics"].get("reused", {}))
    if unforced := document["metrics"].get("not_forced"):
        why = max(unforced, key=lambda words: unforced[words])
        found.append(
            f"{sum(unforced.values())} answers could not be opened for the model, so that its own words stand; most "
            f"often: {one_line(why, 300)}"
        )
    checked = document["metrics"].get("verification")
    if noted := document["metrics"].get("notes"):
        told = ", ".join(f"{count} {note}" for note, count in noted.items())
        found.append(f"handled on purpose, and counted: {told}")
    if checked and checked["uniform_selections"] and "TAU" in document["config"]:
        found.append(
            f"selection was uniform here: in {checked['uniform_selections']} of {checked['selections']} scored "
            "populations all scores were equal"
        )
    if checked and checked["unreadable"]:
        found.append(f"{checked['unreadable']} of {checked['verdicts']} verdicts could not be read")
    return found


def origins(ours: str | None, reused: Mapping[str, int]) -> list[str]:
    """Of completions that were `reused`, by their origins: those that were not made by `ours`, the engine which the
    results name."""
    others = {origin: n for origin, n in reused.items() if origin != ours}
    if not others or not ours:
        return []
    told = "; ".join(f"{n:,} by {origin}" for origin, n in sorted(others.items(), key=lambda each: -each[1]))
    return [f"{sum(others.values()):,} completions from the journal were not made by this run's {ours}: {told}"]


# Provenance and files


def provenance(prompts: Sequence[str] = ()) -> dict[str, Any]:
    """Where the figures come from: code, packages, machine. No host names, no keys. `prompts`: those that a scaffold
    has besides the common ones."""
    return {
        "git_commit": _said(["git", "-C", str(ROOT), "rev-parse", "HEAD"]),
        "git_dirty": bool(_said(["git", "-C", str(ROOT), "status", "--porcelain"])),
        "prompts_sha256": prompts_sha256(prompts),
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


def save(document: dict[str, Any], rows: Iterable[bytes], folder: Path) -> Path:
    """Write `document` with its problems, which come as `row`s, under its experiment's name: NAME.json when complete,
    NAME.partial.json until then.

    An earlier NAME.json is kept beside it as NAME.<when it started>.json; a complete run removes the partial file.
    """
    name = document["experiment"]
    partial = folder / f"{name}.partial.json"
    if not document["complete"]:
        write_atomically(partial, _dump(document, rows))
        return partial
    path = folder / f"{name}.json"
    if path.exists():
        _keep(path, _unused(folder, name, _started(path)))
    write_atomically(path, _dump(document, rows))
    remove(partial)
    return path


def _keep(path: Path, kept: Path) -> None:
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        with open(path, "rb") as file:
            write_atomically(kept, iter(lambda: file.read(1 << 20), b""))


def _started(path: Path) -> str:
    try:
        stamp = datetime.fromisoformat(read.read(path)[0]["started"])
    except (UserError, ValueError, KeyError, TypeError, AttributeError):
        stamp = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return stamp.strftime("%Y%m%d-%H%M%S")


def _unused(folder: Path, name: str, stamp: str) -> Path:
    path, number = folder / f"{name}.{stamp}.json", 2
    while path.exists():
        path, number = folder / f"{name}.{stamp}-{number}.json", number + 1
    return path


def _dump(document: dict[str, Any], rows: Iterable[bytes]) -> Iterator[bytes]:
    """One line per step of a problem: readable in an editor, diffable, compact; read.py reads it by line."""
    yield f"{json.dumps(document, indent=1, ensure_ascii=True)[:-2]},\n{read.START}".encode()
    between = b""
    for row in rows:
        yield between + row
        between = b",\n"
    yield f"\n{read.END}}}\n".encode()


def row(problem: Problem, finished: bool, steps: Iterable[bytes]) -> bytes:
    """A problem as it stands in the file; each of `steps` is a record in JSON."""
    told = {"id": problem.id, "statement": problem.statement, "answer": problem.answer, "finished": finished}
    head = json.dumps(told, ensure_ascii=True)
    return f'  {head[:-1]}, "steps": [\n   '.encode() + b",\n   ".join(steps) + b"]}"
