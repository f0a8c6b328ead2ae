"""Run the programs that benchmarks/agreement.py compares. Each leaves its results in a folder."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.agreement_readings import BOXED, INSPECT, LM_EVAL, SHOWN, Reading
from benchmarks.embedded import ROOT
from core.base.errors import UserError
from core.engines import environment
from harness.results.find import archive

PEERS = ROOT / ".venv-peers/bin"
EXPERIMENT = "01_baseline"
SECONDS = 3600.0  # for one reply
NOTHING = "[invalid]"  # lm_eval's answer if a filter finds none
BOXED_TASK = "agreement_boxed"  # the module with lm_eval's readings of boxed answers
_VERSIONS = """
import importlib.metadata, sys
print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in sys.argv[1:]))
"""
_EXAMPLES = """
import importlib.util, json, pathlib, yaml
package = pathlib.Path(importlib.util.find_spec("lm_eval").origin).parent
task = package / "tasks/gsm8k/gsm8k-cot.yaml"
samples = yaml.safe_load(task.read_text())["fewshot_config"]["samples"]
print(json.dumps({"task": str(task), "samples": samples}))
"""

Messages = Sequence[Mapping[str, str]]
Readings = dict[str, dict[str, Reading]]  # by the problem's id, then by the reading's name


@dataclass(frozen=True)
class Options:
    """The command line's choices for our run: the set, its first `limit` problems, the token cap of
    a reply, the worked examples and the requests in flight."""

    problems: str
    limit: int
    max_tokens: int
    shots: int
    in_flight: int


@dataclass(frozen=True)
class Settings:
    """The settings of our finished run, in the words of its results."""

    model: str
    engine: str
    problems: str
    max_tokens: int
    is_boxed: bool

    def description(self, shots: int) -> str:
        """Return the settings in a few words, with the number of worked examples."""
        form = "boxed" if self.is_boxed else "no box"
        task = f"{self.problems}, {shots} shots, {form}, at most {self.max_tokens} tokens"
        return f"{task}, {self.model} on {self.engine}"


@dataclass(frozen=True)
class Asked:
    """A problem as 01_baseline asked it: the messages, the reference answer and the reply."""

    id: str
    messages: Messages
    reference: str
    reply: str
    finish_reason: str = "stop"


def call(arguments: Sequence[object], log: Path, **changes: str) -> str:
    """Run a program, and write its output to `log`. Returns the output. Raises UserError if the
    program fails."""
    with log.open("w+", encoding="utf-8") as output:
        env = environment.with_changes(changes)
        ended = subprocess.run(
            list(map(str, arguments)), env=env, cwd=ROOT, stdout=output, stderr=output, check=False
        )
        output.seek(0)
        text = output.read()
    if ended.returncode:
        raise UserError(f"{log.stem} ended with status {ended.returncode}: …{text[-1500:]}")
    return text


def versions(folder: Path) -> str:
    """Return the names and versions of the other programs."""
    arguments = [PEERS / "python", "-c", _VERSIONS, LM_EVAL, INSPECT]
    return call(arguments, folder / "versions.log").strip()


# Our run


def run_ours(folder: Path, options: Options) -> None:
    """Run our baseline without its own system prompt, unless `folder` contains a finished one."""
    if (folder / f"{EXPERIMENT}.json").exists():
        return
    shots = "0"
    if options.shots:
        shots = str(folder / "shots.jsonl")
        write_examples(folder, options.shots)
    constants = {
        "N": 1,
        "TEMPERATURE": 0,
        "MAX_TOKENS": options.max_tokens,
        "ANSWER_TOKENS": 0,
        "ANSWER": "text" if options.shots else "auto",
        "SHOTS": shots,
        "SYSTEM": "",
        "PROMPT": "",
        "PROBLEMS": options.problems,
        "LIMIT": options.limit,
        "CONCURRENCY": options.in_flight,
        "TIMEOUT": SECONDS,
        "STALL_SECONDS": SECONDS,
    }
    script = [sys.executable, ROOT / f"experiments/{EXPERIMENT}.py"]
    script += [f"{name}={value}" for name, value in constants.items()]
    call(script, folder / "ours.log", RESULTS_DIR=str(folder))


def write_examples(folder: Path, count: int) -> None:
    """Write the first `count` worked examples of lm_eval's task gsm8k_cot to `folder`."""
    samples = _gsm8k_cot(folder)["samples"]
    if count > len(samples):
        raise UserError(f"--shots {count}, but gsm8k_cot has {len(samples)} examples. Lower it")
    lines = []
    for sample in samples[:count]:
        solution, _, answer = sample["target"].partition(" The answer is ")
        row = {"problem": sample["question"], "solution": solution}
        lines.append(json.dumps(row | {"answer": answer.removesuffix(".")}) + "\n")
    (folder / "shots.jsonl").write_text("".join(lines), encoding="utf-8")


def _gsm8k_cot(folder: Path) -> dict[str, Any]:
    """Return the file of lm_eval's task gsm8k_cot, and its worked examples."""
    output = call([PEERS / "python", "-c", _EXAMPLES], folder / "gsm8k_cot.log")
    task: dict[str, Any] = json.loads(output)
    return task


def _results(folder: Path) -> dict[str, Any]:
    text = (folder / f"{EXPERIMENT}.json").read_text(encoding="utf-8")
    results: dict[str, Any] = json.loads(text)
    return results


def our_settings(folder: Path) -> Settings:
    """Return the settings of our finished run in `folder`."""
    results = _results(folder)
    config = results["config"]
    return Settings(
        results["model"]["name"],
        results["engine"]["kind"],
        results["problem_set"]["name"],
        config["MAX_TOKENS"],
        config.get("ANSWER", "auto") not in ("text", "number"),
    )


def our_replies(folder: Path) -> list[Asked]:
    """Return the problems of our run with their messages and replies, from its journal."""
    path = folder / f"{EXPERIMENT}.json"
    asked = []
    with archive(path, EXPERIMENT) as journals:
        for problem in _results(folder)["problems"]:
            member = problem["steps"][0]["members"][0]
            record = journals.record(member["key"])
            if record is None or "error" in member:
                cause = member.get("error", "it is not in the journal")
                raise UserError(f"{problem['id']} has no reply: {cause}")
            asked.append(
                Asked(
                    problem["id"],
                    record.messages,
                    problem["answer"],
                    record.completion.answer,
                    member["finish_reason"],
                )
            )
    return asked


def our_readings(folder: Path) -> list[dict[str, Reading]]:
    """Grade our results in each way (ANSWER). Returns the readings of each problem."""
    path = folder / f"{EXPERIMENT}.json"
    ways = BOXED.ours if our_settings(folder).is_boxed else SHOWN.ours
    readings: dict[str, list[Reading]] = {}
    for way in ways:
        arguments = [sys.executable, "-m", "harness.session.regrade", path, way]
        call(arguments, folder / "regrade.log", RESULTS_DIR=str(folder))
        members = [problem["steps"][0]["members"][0] for problem in _results(folder)["problems"]]
        readings[way] = [Reading(member["answer"], member["correct"]) for member in members]
    by_problem = zip(*readings.values(), strict=True)
    return [dict(zip(ways, row, strict=True)) for row in by_problem]


# lm_eval


def run_lm_eval(url: str, folder: Path, asked: Sequence[Asked], settings: Settings) -> None:
    """Run lm_eval with a task of ours that asks the same messages."""
    rows = [
        {
            "id": problem.id,
            "question": problem.messages[-1]["content"],
            "target": problem.reference,
        }
        for problem in asked
    ]
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "docs.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "task").mkdir(exist_ok=True)
    task = _lm_eval_task(folder, asked[0].messages[:-1], settings)
    (folder / "task/agreement.yaml").write_text(task, encoding="utf-8")
    options = f"base_url={url}/chat/completions,num_concurrent=8,tokenizer_backend=none"
    arguments = ["run", "--model", "local-chat-completions"]
    arguments += ["--model_args", f"model=replay,{options}"]
    arguments += ["--tasks", "agreement", "--include_path", str(folder / "task")]
    arguments += ["--apply_chat_template"]
    arguments += ["--log_samples", "--output_path", str(folder / LM_EVAL)]
    changes = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub"), "OPENAI_API_KEY": "none"}
    call([PEERS / "lm_eval", *arguments], folder / "lm_eval.log", **changes)


def _lm_eval_task(folder: Path, shots: Messages, settings: Settings) -> str:
    """Return the YAML of a task with our problems and worked examples (`shots`). It reads replies
    as gsm8k_cot does, or it reads boxed answers."""
    task: dict[str, Any] = {
        "task": "agreement",
        "tag": [],
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}},
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{target}}",
        "output_type": "generate_until",
        "num_fewshot": len(shots) // 2,
        "generation_kwargs": {
            "until": [],
            "do_sample": False,
            "temperature": 0,
            "max_gen_toks": settings.max_tokens,
        },
    }
    lines = []
    if settings.is_boxed:
        shutil.copy(ROOT / f"benchmarks/{BOXED_TASK}.py", folder / "task")
        means = {"aggregation": "mean", "higher_is_better": True}
        task["metric_list"] = [{"metric": name} | means for name in ("is_equiv", "math_verify")]
        task["metric_list"] += [
            {"metric": f"{name}_answer", "aggregation": "bypass", "higher_is_better": True}
            for name in ("is_equiv", "math_verify")
        ]
        lines.append(f"process_results: !function {BOXED_TASK}.process_results")
    else:
        task["include"] = _gsm8k_cot(folder)["task"]  # its filters and its metric
    if shots:
        turns = [shot["content"] for shot in shots]
        pairs = zip(turns[::2], turns[1::2], strict=True)
        examples = [{"question": question, "target": reply} for question, reply in pairs]
        task["fewshot_config"] = {"sampler": "first_n", "samples": examples}
    lines += [f"{name}: {json.dumps(value)}" for name, value in task.items()]  # JSON is YAML
    return "\n".join(lines) + "\n"


def lm_eval_results(folder: Path) -> Readings:
    """Return lm_eval's readings."""
    path = next((folder / LM_EVAL).rglob("samples_agreement_*.jsonl"))
    readings: Readings = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        of_problem = readings.setdefault(sample["doc"]["id"], {})
        if "exact_match" in sample:
            answer = sample["filtered_resps"][0]
            reading = Reading(None if answer == NOTHING else answer, sample["exact_match"] == 1)
            of_problem[f"{LM_EVAL} {sample['filter']}"] = reading
        else:
            for name in ("is_equiv", "math_verify"):
                answer = sample[f"{name}_answer"]
                of_problem[f"{LM_EVAL} {name}"] = Reading(answer or None, sample[name] == 1)
    return readings


# inspect_ai


def run_inspect(url: str, folder: Path, asked: Sequence[Asked], settings: Settings) -> None:
    """Run inspect_ai on the same messages."""
    rows = [
        {"id": problem.id, "input": list(problem.messages), "target": problem.reference}
        for problem in asked
    ]
    samples = folder / "samples.json"
    samples.write_text(json.dumps(rows), encoding="utf-8")
    arguments = ["eval", "benchmarks/agreement_task.py", "--model", "openai-api/agreement/replay"]
    arguments += ["-T", f"file={samples}", "-T", f"boxed={str(settings.is_boxed).lower()}"]
    arguments += ["--temperature", "0", "--max-tokens", str(settings.max_tokens)]
    arguments += ["--max-connections", "8", "--log-dir", str(folder / INSPECT)]
    arguments += ["--log-format", "json", "--display", "plain"]
    changes = {
        "AGREEMENT_BASE_URL": url,
        "AGREEMENT_API_KEY": "none",
        "XDG_DATA_HOME": str(folder / "data"),
    }
    call([PEERS / "inspect", *arguments], folder / "inspect.log", **changes)


def inspect_results(folder: Path) -> Readings:
    """Return inspect_ai's readings."""
    path = next((folder / INSPECT).glob("*.json"))
    log = json.loads(path.read_text(encoding="utf-8"))
    readings: Readings = {}
    for sample in log["samples"]:
        scores = sample["scores"].items()
        readings[sample["id"]] = {
            f"{INSPECT} {name}": Reading(score.get("answer") or None, score["value"] == "C")
            for name, score in scores
        }
    return readings
