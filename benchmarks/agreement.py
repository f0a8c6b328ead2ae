r"""Compare our verdicts with lm-evaluation-harness (lm_eval) and inspect_ai, on the same server and
messages.

    bash benchmarks/run.sh agreement [--problems words] [--limit 200] [--shots 4] [--keep FOLDER |
    --again FOLDER]

01_baseline with N=1, lm_eval and inspect_ai run one after another as programs, each with its own
client. They ask at temperature 0, with the same worked examples as earlier turns. A proxy records
their requests, and the benchmark fails if the messages differ in one byte. MODEL selects the model
(smollm2 if it is unset), as for a run.

One request is in flight, and the proxy turns off llama.cpp's cache of prompts. Otherwise
llama.cpp's sums depend on the other requests in its batch and on earlier prompts, with EXACT=1 too
if the file is quantised. At temperature 0 a tiny difference in a sum can change a token, and then
texts differ although no program is wrong.

Verdicts come from the programs' own results. Ours come from regrade.sh with ANSWER=text and
ANSWER=number. lm_eval's strict-match and flexible-extract are the filters and the metric of its own
task gsm8k_cot, which our task includes. inspect_ai's match(numeric=True) is in
benchmarks/agreement_task.py.

With --again no program asks. The results in FOLDER, which --keep has made, are compared with the
verdicts that our readers give now."""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.embedded import ROOT
from core import server as start
from core.base.errors import UserError, command
from core.engines import environment
from core.engines import queries as client
from core.engines.dialects.llamacpp import LlamaCpp
from core.engines.need import Need
from core.engines.protocol import Server
from harness.results.find import archive

PEERS = ROOT / ".venv-peers/bin"
EXPERIMENT = "01_baseline"
LM_EVAL, INSPECT = "lm_eval", "inspect_ai"
OURS = "ANSWER=text", "ANSWER=number"
MATCH = f"{INSPECT} match"
THEIRS = f"{LM_EVAL} strict-match", f"{LM_EVAL} flexible-extract", MATCH
IN_FLIGHT = 1  # requests
SECONDS = 3600.0  # for one reply
END = 160  # most characters of a reply's end that a difference shows
NOTHING = "[invalid]"  # lm_eval's answer if a filter finds none
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


# The comparison


@dataclass(frozen=True)
class Reading:
    """The answer that a reader found in a reply (None: no answer), and its verdict."""

    answer: str | None
    right: bool


@dataclass(frozen=True)
class Case:
    """A problem with our reply, the reference answer, and the readings by the names of their
    readers. `others` contains the replies of the other programs by their names."""

    id: str
    reference: str
    reply: str
    readings: Mapping[str, Reading]
    others: Mapping[str, str] = field(default_factory=dict)


def number(answer: str) -> float | None:
    """Return the value of the only number in `answer`, or None."""
    numbers = _NUMBER.findall(answer)
    return float(numbers[0].replace(",", "")) if len(numbers) == 1 else None


def place(reply: str, answer: str) -> int:
    """Return the position of the last number in `reply` that equals `answer`, or -1."""
    wanted = number(answer)
    found = [
        each.start()
        for each in _NUMBER.finditer(reply)
        if wanted is not None and number(each[0]) == wanted
    ]
    return found[-1] if found else -1


def why(reply: str, ours: Reading, theirs: Reading) -> str:
    """Return the category of a difference between two readings of `reply`, or "" if both read the
    same answer."""
    if ours.answer is None or theirs.answer is None:
        only = "we" if theirs.answer is None else "they"
        return "" if ours.answer == theirs.answer else f"only {only} read an answer"
    if ours.answer == theirs.answer or number(ours.answer) == number(theirs.answer) is not None:
        return "" if ours.right == theirs.right else "the same answer, compared differently"
    our_place, their_place = place(reply, ours.answer), place(reply, theirs.answer)
    if min(our_place, their_place) < 0:
        return (
            "they read a number in another form"
            if their_place < 0
            else "we read an answer in another form"
        )
    return f"they read {'an earlier' if their_place < our_place else 'a later'} number"


def wilson(count: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95% score interval for the share `count` of `n`."""
    z, share = 1.96, count / n
    middle = (share + z * z / 2 / n) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / 4 / n / n) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def shown(count: int, n: int) -> str:
    low, high = wilson(count, n)
    return f"{count} of {n} ({100 * count / n:.1f}% [{100 * low:.1f}, {100 * high:.1f}])"


def differences(cases: Sequence[Case], ours: str, theirs: str) -> list[tuple[Case, str]]:
    """Return the cases in which the readers `ours` and `theirs` differ, each with its category."""
    found = []
    for case in cases:
        if reason := why(case.reply, case.readings[ours], case.readings[theirs]):
            is_same = case.others.get(theirs.split()[0], case.reply) == case.reply
            found.append((case, reason if is_same else "their reply is another text"))
    return found


def table(cases: Sequence[Case]) -> str:
    """Return a Markdown table with a row for each pair of another program's reader and our
    reader."""
    heads = [
        "their reader",
        "our reader",
        "right: theirs, ours",
        "equal verdicts",
        "equal answers",
        "unequal verdicts",
    ]
    rows = [heads, ["---", "---", "--:", "---", "--:", "---"]]
    for theirs in THEIRS:
        for ours in OURS:
            unequal = differences(cases, ours, theirs)
            judged = [
                reason
                for case, reason in unequal
                if case.readings[ours].right != case.readings[theirs].right
            ]
            right = ", ".join(
                str(sum(case.readings[each].right for case in cases)) for each in (theirs, ours)
            )
            reasons = "; ".join(
                f"{count}: {reason}" for reason, count in Counter(judged).most_common()
            )
            equal = shown(len(cases) - len(judged), len(cases))
            rows.append(
                [theirs, ours, right, equal, str(len(cases) - len(unequal)), reasons or "none"]
            )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def explained(cases: Sequence[Case]) -> str:
    """Return a text about each case with a difference: all readings, the categories and the end of
    the reply."""
    reasons: dict[str, list[str]] = {}
    for theirs in THEIRS:
        for ours in OURS:
            for case, reason in differences(cases, ours, theirs):
                same = case.readings[ours].right == case.readings[theirs].right
                line = f"  {theirs}, {ours}: {reason}{' (equal verdicts)' if same else ''}"
                reasons.setdefault(case.id, []).append(line)
    lines = []
    for case in cases:
        if case.id in reasons:
            end, found = case.reply[-END:], case.readings.items()
            read = ", ".join(
                f"{name} {each.answer!r} ({'right' if each.right else 'wrong'})"
                for name, each in found
            )
            lines += [f"{case.id}, reference {case.reference}", f"  {read}", *reasons[case.id]]
            lines.append(f"  reply: {'…' if end != case.reply else ''}{end!r}")
    return "\n".join(lines)


# The recorded requests

Messages = Sequence[Mapping[str, str]]


@dataclass
class Recorder:
    """The address of a server's proxy, and the bodies of the chat requests since the last check."""

    url: str
    bodies: list[dict[str, Any]]

    def check(self, name: str, wanted: Sequence[Messages], resumes: bool = False) -> None:
        """Raise UserError unless the program `name` has sent exactly the `wanted` messages, or some
        of them if it `resumes` an earlier run."""
        sent, ours = (
            {json.dumps(body["messages"]) for body in self.bodies},
            set(map(json.dumps, wanted)),
        )
        if more := sent - ours if resumes else sent ^ ours:
            one = min(more)
            raise UserError(
                f"{name} has {'' if one in sent else 'not '}sent {one:.1500}, unlike our journal"
            )
        for body in self.bodies[:1]:
            rest = json.dumps({key: value for key, value in body.items() if key != "messages"})
            print(
                f"{name}: {len(sent)} prompts as in our journal, with {rest}",
                file=sys.stderr,
                flush=True,
            )
        self.bodies.clear()


@contextmanager
def recording(server: Server) -> Iterator[Recorder]:
    """Serve a proxy that passes requests on to `server` and records the bodies of chat requests. If
    the server is llama.cpp, each request computes its whole prompt."""
    own = {"cache_prompt": False} if server.kind == LlamaCpp.kind else {}
    bodies: list[dict[str, Any]] = []

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.pass_on(None)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("/chat/completions"):
                bodies.append(body)
                body = body | own
            self.pass_on(body)

        def pass_on(self, body: Any) -> None:
            try:
                status, content = (
                    200,
                    client.send(server.root + self.path, server.key, body, seconds=SECONDS),
                )
            except urllib.error.HTTPError as error:
                status, content = error.code, error.read()
            is_stream = isinstance(body, dict) and body.get("stream")
            self.send_response(status)
            self.send_header(
                "content-type", "text/event-stream" if is_stream else "application/json"
            )
            self.send_header("content-length", str(len(content)))
            # else our client may reuse the connection before it closes, and ask twice
            if self.close_connection:
                self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield Recorder(f"http://127.0.0.1:{listener.server_port}/v1", bodies)
        finally:
            listener.shutdown()


# The programs. Each leaves its results in a folder.


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
    constants = {
        **{
            "N": 1,
            "TEMPERATURE": 0,
            "MAX_TOKENS": args.max_tokens,
            "ANSWER_TOKENS": 0,
            "ANSWER": "text",
        },
        **{
            "SHOTS": args.shots,
            "SYSTEM": "",
            "PROMPT": "",
            "PROBLEMS": args.problems,
            "LIMIT": args.limit,
        },
        **{"CONCURRENCY": IN_FLIGHT, "TIMEOUT": SECONDS, "STALL_SECONDS": SECONDS},
    }
    script = [
        sys.executable,
        ROOT / f"experiments/{EXPERIMENT}.py",
        *(f"{k}={v}" for k, v in constants.items()),
    ]
    call(script, folder / "ours.log", BASE_URL=url, RESULTS_DIR=str(folder))


def our_replies(folder: Path) -> list[Asked]:
    path, asked = folder / f"{EXPERIMENT}.json", []
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
    path, readings = folder / f"{EXPERIMENT}.json", dict[str, list[Reading]]()
    for way in OURS:
        call(
            [sys.executable, "-m", "harness.session.regrade", path, way],
            folder / "regrade.log",
            RESULTS_DIR=str(folder),
        )
        problems = json.loads(path.read_text(encoding="utf-8"))["problems"]
        members = [problem["steps"][0]["members"][0] for problem in problems]
        readings[way] = [Reading(member["answer"], member["correct"]) for member in members]
    return [dict(zip(OURS, each, strict=True)) for each in zip(*readings.values(), strict=True)]


def run_lm_eval(
    model: str, url: str, folder: Path, asked: Sequence[Asked], max_tokens: int
) -> None:
    """Run lm_eval with a task of ours that asks the same messages."""
    code = "import importlib.util; print(importlib.util.find_spec('lm_eval').origin)"
    package = Path(
        call([PEERS / "python", "-c", code], folder / "lm_eval_package.log").strip()
    ).parent
    turns = [each["content"] for each in asked[0].messages[:-1]]
    pairs = zip(turns[::2], turns[1::2], strict=True)
    examples = [{"question": question, "target": reply} for question, reply in pairs]
    rows = [
        {"id": each.id, "question": each.messages[-1]["content"], "target": each.reference}
        for each in asked
    ]
    (folder / "docs.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    task: dict[str, Any] = {
        "include": str(package / "tasks/gsm8k/gsm8k-cot.yaml"),  # its filters and its metric
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
    (folder / "task").mkdir(exist_ok=True)
    (folder / "task/agreement.yaml").write_text(json.dumps(task), encoding="utf-8")  # JSON is YAML
    options = (
        f"base_url={url}/chat/completions,num_concurrent={IN_FLIGHT},tokenizer_backend=none,"
        f"timeout={SECONDS:.0f}"
    )
    arguments = [
        "run",
        "--model",
        "local-chat-completions",
        "--model_args",
        f"model={model},{options}",
    ]
    arguments += [
        "--tasks",
        "agreement",
        "--include_path",
        str(folder / "task"),
        "--apply_chat_template",
    ]
    arguments += ["--log_samples", "--output_path", str(folder / LM_EVAL)]
    changes = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub"), "OPENAI_API_KEY": "none"}
    call([PEERS / "lm_eval", *arguments], folder / "lm_eval.log", **changes)


def lm_eval_results(folder: Path) -> tuple[dict[str, str], dict[str, dict[str, Reading]]]:
    """Return lm_eval's replies and readings by problem."""
    samples = next((folder / LM_EVAL).rglob("samples_agreement_*.jsonl")).read_text(
        encoding="utf-8"
    )
    replies, readings = dict[str, str](), dict[str, dict[str, Reading]]()
    for sample in map(json.loads, samples.splitlines()):
        name, answer = sample["doc"]["id"], sample["filtered_resps"][0]
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
    replies, readings = dict[str, str](), dict[str, dict[str, Reading]]()
    for sample in log["samples"]:
        score = sample["scores"]["match"]
        replies[sample["id"]] = sample["output"]["choices"][0]["message"]["content"]
        readings[sample["id"]] = {MATCH: Reading(score["answer"] or None, score["value"] == "C")}
    return replies, readings


def ask(folder: Path, args: argparse.Namespace) -> None:
    """Run the programs one after another on one server, and compare their messages."""
    need = Need(k=0, max_tokens=args.max_tokens, answer_tokens=0)
    with start.serving(need) as server, recording(server) as recorder:
        run_ours(recorder.url, folder, args)
        asked = our_replies(folder)
        messages = [each.messages for each in asked]
        recorder.check(EXPERIMENT, messages, resumes=True)
        for name, run in {LM_EVAL: run_lm_eval, INSPECT: run_inspect}.items():
            shutil.rmtree(folder / name, ignore_errors=True)  # of a stopped benchmark
            run(server.model, recorder.url, folder, asked, args.max_tokens)
            recorder.check(name, messages)
        code = (
            "import sys, importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in "
            "sys.argv[1:]))"
        )
        versions = call(
            [PEERS / "python", "-c", code, LM_EVAL, INSPECT], folder / "versions.log"
        ).strip()
        about = f"{server.model} on {server.kind}, {versions}, {time.strftime('%Y-%m-%d')}"
        (folder / "about.txt").write_text(about, encoding="utf-8")


def report(folder: Path) -> str:
    """Return the comparison of the results in `folder`."""
    asked, peers = (
        our_replies(folder),
        {LM_EVAL: lm_eval_results(folder), INSPECT: inspect_results(folder)},
    )
    lines = [f"{len(asked)} problems, {(folder / 'about.txt').read_text(encoding='utf-8')}", ""]
    cases = []
    for each, own in zip(asked, our_readings(folder), strict=True):
        others = [readings[each.id] for _, readings in peers.values()]
        # as our journal stores replies
        replies = {name: texts[each.id].strip() for name, (texts, _) in peers.items()}
        cases.append(
            Case(each.id, each.reference, each.reply, own | others[0] | others[1], replies)
        )
    for name in peers:
        equal = sum(case.others[name] == case.reply for case in cases)
        lines.append(f"replies of {name} with our text: {shown(equal, len(cases))}")
    return "\n".join([*lines, "", table(cases), "", explained(cases)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--problems", default="words", help="a set's name or a file, as in PROBLEMS (words)"
    )
    parser.add_argument("--limit", type=int, default=200, help="number of problems (200)")
    parser.add_argument("--max-tokens", type=int, default=128, help="most tokens of a reply (128)")
    parser.add_argument("--shots", type=int, default=4, help="number of worked examples (4)")
    folders = parser.add_mutually_exclusive_group()
    folders.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="folder for results and logs. If it has a stopped 01_baseline, this run is resumed",
    )
    folders.add_argument(
        "--again", type=Path, metavar="FOLDER", help="folder of an earlier --keep to compare again"
    )
    args = parser.parse_args()
    os.environ.setdefault("MODEL", "smollm2")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.keep or args.again or Path(temporary)).resolve()
        if args.again and not (folder / "about.txt").exists():
            raise UserError(
                f"{args.again} has no complete results of this benchmark. Give the FOLDER of an "
                "earlier --keep"
            )
        if not args.again:
            folder.mkdir(parents=True, exist_ok=True)
            ask(folder, args)
        print(report(folder))


if __name__ == "__main__":
    with command():
        main()
