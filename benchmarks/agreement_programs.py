"""Run the programs that benchmarks/agreement.py compares. Each leaves its results in a folder."""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.agreement_readings import INSPECT, LM_EVAL, MATCH, OURS, Reading
from benchmarks.embedded import ROOT
from core.base.errors import UserError
from core.engines import environment
from harness.results.find import archive

PEERS = ROOT / ".venv-peers/bin"
EXPERIMENT = "01_baseline"
IN_FLIGHT = 1  # requests
SECONDS = 3600.0  # for one reply
NOTHING = "[invalid]"  # lm_eval's answer if a filter finds none

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Asked:
    """A problem as 01_baseline asked it: the messages, the reference answer and the reply."""

    id: str
    messages: Messages
    reference: str
    reply: str


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


def run_ours(url: str, folder: Path, args: argparse.Namespace) -> None:
    """Run our baseline without its own system prompt, one request at a time."""
    constants = {
        "N": 1,
        "TEMPERATURE": 0,
        "MAX_TOKENS": args.max_tokens,
        "ANSWER_TOKENS": 0,
        "ANSWER": "text",
        "SHOTS": args.shots,
        "SYSTEM": "",
        "PROMPT": "",
        "PROBLEMS": args.problems,
        "LIMIT": args.limit,
        "CONCURRENCY": IN_FLIGHT,
        "TIMEOUT": SECONDS,
        "STALL_SECONDS": SECONDS,
    }
    script = [sys.executable, ROOT / f"experiments/{EXPERIMENT}.py"]
    script += [f"{name}={value}" for name, value in constants.items()]
    call(script, folder / "ours.log", BASE_URL=url, RESULTS_DIR=str(folder))


def our_replies(folder: Path) -> list[Asked]:
    path = folder / f"{EXPERIMENT}.json"
    asked = []
    with archive(path, EXPERIMENT) as journals:
        for problem in json.loads(path.read_text(encoding="utf-8"))["problems"]:
            member = problem["steps"][0]["members"][0]
            record = journals.record(member["key"])
            if record is None or "error" in member:
                raise UserError(
                    f"{problem['id']} has no reply: "
                    f"{member.get('error', 'it is not in the journal')}"
                )
            asked.append(
                Asked(problem["id"], record.messages, problem["answer"], record.completion.answer)
            )
    return asked


def our_readings(folder: Path) -> list[dict[str, Reading]]:
    """Grade our results with each reader. Returns the readings of each problem."""
    path = folder / f"{EXPERIMENT}.json"
    readings: dict[str, list[Reading]] = {}
    for way in OURS:
        call(
            [sys.executable, "-m", "harness.session.regrade", path, way],
            folder / "regrade.log",
            RESULTS_DIR=str(folder),
        )
        problems = json.loads(path.read_text(encoding="utf-8"))["problems"]
        members = [problem["steps"][0]["members"][0] for problem in problems]
        readings[way] = [Reading(member["answer"], member["correct"]) for member in members]
    of_problems = zip(*readings.values(), strict=True)
    return [dict(zip(OURS, of_problem, strict=True)) for of_problem in of_problems]


def run_lm_eval(
    model: str, url: str, folder: Path, asked: Sequence[Asked], max_tokens: int
) -> None:
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
    task = _lm_eval_task(folder, asked[0].messages[:-1], max_tokens)
    (folder / "task").mkdir(exist_ok=True)
    (folder / "task/agreement.yaml").write_text(json.dumps(task), encoding="utf-8")  # JSON is YAML
    server = f"base_url={url}/chat/completions,num_concurrent={IN_FLIGHT}"
    options = f"{server},tokenizer_backend=none,timeout={SECONDS:.0f}"
    arguments = ["run", "--model", "local-chat-completions"]
    arguments += ["--model_args", f"model={model},{options}"]
    arguments += ["--tasks", "agreement", "--include_path", str(folder / "task")]
    arguments += ["--apply_chat_template"]
    arguments += ["--log_samples", "--output_path", str(folder / LM_EVAL)]
    changes = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub"), "OPENAI_API_KEY": "none"}
    call([PEERS / "lm_eval", *arguments], folder / "lm_eval.log", **changes)


def _lm_eval_task(folder: Path, shots: Messages, max_tokens: int) -> dict[str, Any]:
    """Return lm_eval's task gsm8k_cot with our problems and worked examples (`shots`)."""
    code = "import importlib.util; print(importlib.util.find_spec('lm_eval').origin)"
    origin = call([PEERS / "python", "-c", code], folder / "lm_eval_package.log").strip()
    turns = [shot["content"] for shot in shots]
    pairs = zip(turns[::2], turns[1::2], strict=True)
    examples = [{"question": question, "target": reply} for question, reply in pairs]
    task: dict[str, Any] = {
        # its filters and its metric
        "include": str(Path(origin).parent / "tasks/gsm8k/gsm8k-cot.yaml"),
        "task": "agreement",
        "tag": [],
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}},
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{target}}",
        "num_fewshot": len(examples),
        "generation_kwargs": {
            "until": [],
            "do_sample": False,
            "temperature": 0,
            "max_gen_toks": max_tokens,
        },
    }
    if examples:
        task["fewshot_config"] = {"sampler": "first_n", "samples": examples}
    return task


def lm_eval_results(folder: Path) -> tuple[dict[str, str], dict[str, dict[str, Reading]]]:
    """Return lm_eval's replies and readings by problem."""
    samples = next((folder / LM_EVAL).rglob("samples_agreement_*.jsonl")).read_text(
        encoding="utf-8"
    )
    replies: dict[str, str] = {}
    readings: dict[str, dict[str, Reading]] = {}
    for sample in map(json.loads, samples.splitlines()):
        name = sample["doc"]["id"]
        answer = sample["filtered_resps"][0]
        reading = Reading(None if answer == NOTHING else answer, sample["exact_match"] == 1)
        readings.setdefault(name, {})[f"{LM_EVAL} {sample['filter']}"] = reading
        replies[name] = sample["resps"][0][0]
    return replies, readings


def run_inspect(
    model: str, url: str, folder: Path, asked: Sequence[Asked], max_tokens: int
) -> None:
    """Run inspect_ai on the same messages."""
    rows = [
        {"id": each.id, "input": list(each.messages), "target": each.reference} for each in asked
    ]
    (folder / "samples.json").write_text(json.dumps(rows), encoding="utf-8")
    arguments = ["eval", "benchmarks/agreement_task.py", "--model", f"openai-api/agreement/{model}"]
    arguments += [
        "-T",
        f"file={folder / 'samples.json'}",
        "--temperature",
        "0",
        "--max-tokens",
        str(max_tokens),
    ]
    arguments += ["--max-connections", str(IN_FLIGHT), "--log-dir", str(folder / INSPECT)]
    arguments += ["--log-format", "json", "--display", "plain"]
    changes = {
        "AGREEMENT_BASE_URL": url,
        "AGREEMENT_API_KEY": "none",
        "XDG_DATA_HOME": str(folder / "data"),
    }
    call([PEERS / "inspect", *arguments], folder / "inspect.log", **changes)


def inspect_results(folder: Path) -> tuple[dict[str, str], dict[str, dict[str, Reading]]]:
    """Return inspect_ai's replies and readings by problem."""
    log = json.loads(next((folder / INSPECT).glob("*.json")).read_text(encoding="utf-8"))
    replies: dict[str, str] = {}
    readings: dict[str, dict[str, Reading]] = {}
    for sample in log["samples"]:
        score = sample["scores"]["match"]
        replies[sample["id"]] = sample["output"]["choices"][0]["message"]["content"]
        readings[sample["id"]] = {MATCH: Reading(score["answer"] or None, score["value"] == "C")}
    return replies, readings
