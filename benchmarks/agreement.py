r"""Compare our verdicts with lm-evaluation-harness (lm_eval) and inspect_ai, on the same server and messages.

    bash benchmarks/run.sh agreement [--problems words] [--limit 200] [--max-tokens 128] [--shots 4] [--keep FOLDER]

01_baseline with N=1, lm_eval and inspect_ai run one after another as programs, each with its own client. They ask at
temperature 0, with the same worked examples as earlier turns. A proxy records their requests, and the benchmark fails
if the messages differ in one byte. MODEL selects the model (smollm2 if it is unset), as for a run.

EXACT=1 is set unless EXACT is given. Otherwise llama.cpp's sums depend on the other requests in its batch. At
temperature 0 a tiny difference in a sum can change a token, and then texts differ although no program is wrong.

Verdicts come from the programs' own results. Our ANSWER=text is 01_baseline's verdict, and ANSWER=number is regrade's.
lm_eval's strict-match and flexible-extract are the filters and the metric of its own task gsm8k_cot, which our task
includes. inspect_ai's match(numeric=True) is in benchmarks/agreement_task.py."""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.embedded import ROOT
from core.base.errors import UserError, command
from core.engines import client, environment, start
from core.engines.need import Need
from core.engines.server import Server
from core.generate.journal import from_record
from core.results.find import archive

PEERS = ROOT / ".venv-peers/bin"
EXPERIMENT = "01_baseline"
OURS, THEIRS = ("ANSWER=text", "ANSWER=number"), ("lm_eval strict-match", "lm_eval flexible-extract", "inspect_ai match")
LM_EVAL, INSPECT = "lm_eval", "inspect_ai"
SECONDS = 600.0  # for one reply
END = 160  # most characters of a reply's end that a difference shows
NOTHING = "[invalid]"  # lm_eval's answer if a filter finds none
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


# What the programs answer


@dataclass(frozen=True)
class Reading:
    """The answer that a reader found in a reply (None: no answer), and its verdict."""

    answer: str | None
    right: bool


@dataclass(frozen=True)
class Case:
    """A problem with its reply, the reference answer, and the reading of each reader by name."""

    id: str
    reference: str
    reply: str
    readings: Mapping[str, Reading]


def number(answer: str | None) -> float | None:
    """Return the value of the only number in `answer`, or None."""
    numbers = _NUMBER.findall(answer or "")
    return float(numbers[0].replace(",", "")) if len(numbers) == 1 else None


def place(reply: str, answer: str) -> int:
    """Return the position of the last number in `reply` that equals `answer`, or -1."""
    wanted = number(answer)
    found = [each.start() for each in _NUMBER.finditer(reply) if wanted is not None and number(each[0]) == wanted]
    return found[-1] if found else -1


def why(reply: str, ours: Reading, theirs: Reading) -> str:
    """Return the category of a difference between two verdicts about `reply`."""
    if theirs.answer is None or ours.answer is None:
        return f"only {'we find' if theirs.answer is None else 'they find'} an answer"
    if number(ours.answer) is not None and number(ours.answer) == number(theirs.answer):
        return "same number, compared differently"
    our_place, their_place = place(reply, ours.answer), place(reply, theirs.answer)
    if min(our_place, their_place) < 0:
        return "other texts"
    return f"they read an {'earlier' if their_place < our_place else 'other, later'} number"


def wilson(count: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95% score interval for `count` of `n`."""
    z, share = 1.96, count / n
    middle = (share + z * z / 2 / n) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / 4 / n / n) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def shown(count: int, n: int) -> str:
    low, high = wilson(count, n)
    return f"{count} of {n} ({100 * count / n:.1f}% [{100 * low:.1f}, {100 * high:.1f}])"


def differences(cases: Sequence[Case], ours: str, theirs: str) -> list[tuple[Case, str]]:
    """Return the cases with unequal verdicts of the readers `ours` and `theirs`, each with its category."""
    pairs = [(case, case.readings[ours], case.readings[theirs]) for case in cases]
    return [(case, why(case.reply, one, other)) for case, one, other in pairs if one.right != other.right]


def table(cases: Sequence[Case]) -> str:
    """Return a Markdown table with a row for each pair of our reader and another program's reader."""
    rows = ["| their reader | our reader | right: theirs, ours | equal verdicts | differences |", "|---|---|--:|---|---|"]
    for theirs in THEIRS:
        for ours in OURS:
            unequal = differences(cases, ours, theirs)
            reasons = ", ".join(f"{count}: {reason}" for reason, count in Counter(r for _, r in unequal).most_common())
            right = ", ".join(str(sum(case.readings[each].right for case in cases)) for each in (theirs, ours))
            equal = shown(len(cases) - len(unequal), len(cases))
            rows.append(f"| {theirs} | {ours} | {right} | {equal} | {reasons or 'none'} |")
    return "\n".join(rows)


def explained(cases: Sequence[Case]) -> str:
    """Return a text about each case with unequal verdicts: the reference, all readings, reasons and the reply's end."""
    reasons: dict[str, list[str]] = {}
    for theirs in THEIRS:
        for ours in OURS:
            for case, reason in differences(cases, ours, theirs):
                reasons.setdefault(case.id, []).append(f"  {theirs}, {ours}: {reason}")
    texts = []
    for case in cases:
        if case.id in reasons:
            end = case.reply[-END:]
            read = [
                f"{name} {'nothing' if each.answer is None else repr(each.answer)} ({'right' if each.right else 'wrong'})"
                for name, each in case.readings.items()
            ]
            texts.append("\n".join([f"{case.id}: {case.reference} is right", f"  {', '.join(read)}"]))
            texts[-1] += "\n" + "\n".join([*reasons[case.id], f"  reply: {'…' * (end != case.reply)}{end!r}"])
    return "\n".join(texts)


# The recorded requests


@dataclass
class Recorder:
    """The address of a proxy of a server, and the bodies of the chat requests since the last `taken`."""

    url: str
    bodies: list[dict[str, Any]]

    def taken(self) -> dict[str, dict[str, Any]]:
        """Return the recorded bodies by the content of their last message, and forget them."""
        taken = {body["messages"][-1]["content"]: body for body in self.bodies}
        self.bodies.clear()
        return taken


@contextmanager
def recording(server: Server) -> Iterator[Recorder]:
    """Pass requests on to `server`, and record the bodies of chat requests."""
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
            self.pass_on(body)

        def pass_on(self, body: Any) -> None:
            try:
                status, content = 200, client.send(server.root + self.path, server.api_key, body, seconds=SECONDS)
            except urllib.error.HTTPError as error:
                status, content = error.code, error.read()
            is_stream = isinstance(body, dict) and body.get("stream")
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield Recorder(f"http://127.0.0.1:{listener.server_port}/v1", bodies)
        finally:
            listener.shutdown()


# The programs


@dataclass(frozen=True)
class Asked:
    """A problem as 01_baseline asked it: its messages, the reference answer, the reply and our readings."""

    id: str
    messages: Sequence[Mapping[str, str]]
    reference: str
    reply: str
    readings: Mapping[str, Reading]

    @property
    def question(self) -> str:
        return self.messages[-1]["content"]


def call(arguments: Sequence[str | Path], log: Path, **changes: str) -> str:
    """Run a program, write its output to `log`, and return it. Raises UserError if the program fails."""
    env = environment.with_changes(changes)
    with log.open("w+", encoding="utf-8") as output:
        status = subprocess.run(
            [str(each) for each in arguments], env=env, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
        output.seek(0)
        text = output.read()
    if status:
        raise UserError(f"{log.stem} ended with status {status}: …{text[-1500:]}")
    return text


def ours(recorder: Recorder, folder: Path, args: argparse.Namespace) -> list[Asked]:
    """Run 01_baseline and regrade. Returns the problems, and fails if a request has other messages than the journal."""
    sampling = {"N": 1, "TEMPERATURE": 0, "MAX_TOKENS": args.max_tokens, "ANSWER_TOKENS": 0}
    asking = {"SHOTS": args.shots, "SYSTEM": "", "PROMPT": "", "ANSWER": "text", "CONCURRENCY": args.in_flight}
    problems = {"PROBLEMS": args.problems, "LIMIT": args.limit}
    constants = [f"{name}={value}" for name, value in (sampling | asking | problems).items()]
    script = [sys.executable, ROOT / f"experiments/{EXPERIMENT}.py", *constants]
    changes = {"RESULTS_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    call(script, folder / "ours.log", BASE_URL=recorder.url, **changes)
    path = folder / f"{EXPERIMENT}.json"
    first = json.loads(path.read_text(encoding="utf-8"))["problems"]
    call([sys.executable, "-m", "core.session.regrade", path, "ANSWER=number"], folder / "regrade.log", **changes)
    second = json.loads(path.read_text(encoding="utf-8"))["problems"]
    sent = recorder.taken()
    asked = []
    with archive(path, EXPERIMENT) as journals:
        for row, again in zip(first, second, strict=True):
            members = [each["steps"][0]["members"][0] for each in (row, again)]
            record = journals.record(members[0]["key"])
            if record is None or "error" in members[0]:
                raise UserError(f"{row['id']} has no reply ({members[0].get('error')}). See {folder / 'ours.log'}")
            messages = record.messages
            same_messages(sent, messages, EXPERIMENT)
            readings = {
                name: Reading(member["answer"], member["correct"])
                for name, member in zip(OURS, members, strict=True)
            }
            reply = from_record(members[0]["key"], record.completion).answer
            asked.append(Asked(row["id"], messages, row["answer"], reply, readings))
    return asked


def same_messages(sent: Mapping[str, Mapping[str, Any]], messages: Sequence[Mapping[str, str]], name: str) -> None:
    """Raise UserError unless a recorded request has exactly these `messages`."""
    found = sent.get(messages[-1]["content"], {}).get("messages")
    if found != list(messages):
        raise UserError(f"{name} sent other messages than {EXPERIMENT}: {json.dumps(found)[:600]}")


def lm_eval(
    model: str, recorder: Recorder, asked: Sequence[Asked], folder: Path, args: argparse.Namespace
) -> tuple[list[str], list[dict[str, Reading]]]:
    """Run lm_eval with a task that asks the same messages. Returns the replies and the readings."""
    include = call([PEERS / "python", "-c", "import importlib.util as u; print(u.find_spec('lm_eval').origin)"],
                   folder / "lm_eval_path.log").strip()
    turns = asked[0].messages[:-1]
    shots = [
        {"question": one["content"], "target": other["content"]}
        for one, other in zip(turns[::2], turns[1::2], strict=True)
    ]
    rows = [{"id": each.id, "question": each.question, "target": each.reference} for each in asked]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = {
        "include": str(Path(include).parent / "tasks/gsm8k/gsm8k-cot.yaml"),  # filters and metric
        "task": "agreement",
        "tag": [],
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}},
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{target}}",
        "fewshot_config": {"sampler": "first_n", "samples": shots},
        "num_fewshot": len(shots),
        "generation_kwargs": {"until": [], "do_sample": False, "temperature": 0, "max_gen_toks": args.max_tokens},
    }
    (folder / "task").mkdir()
    (folder / "task/agreement.yaml").write_text(json.dumps(task), encoding="utf-8")  # JSON is YAML
    of_model = f"model={model},base_url={recorder.url}/chat/completions,num_concurrent={args.in_flight}"
    arguments = ["run", "--model", "local-chat-completions", "--model_args", f"{of_model},tokenizer_backend=none"]
    arguments += ["--tasks", "agreement", "--include_path", str(folder / "task"), "--apply_chat_template"]
    arguments += ["--log_samples", "--output_path", str(folder / "lm_eval")]
    call([PEERS / "lm_eval", *arguments], folder / "lm_eval.log", HF_HUB_OFFLINE="1", HF_HOME=str(folder / "hub"),
         OPENAI_API_KEY="none")
    samples = next((folder / "lm_eval").rglob("samples_agreement_*.jsonl")).read_text(encoding="utf-8").splitlines()
    replies, readings = dict[str, str](), dict[str, dict[str, Reading]]()
    for sample in map(json.loads, samples):
        name, found = sample["doc"]["id"], sample["filtered_resps"][0]
        reading = Reading(None if found == NOTHING else found, sample["exact_match"] == 1)
        readings.setdefault(name, {})[f"lm_eval {sample['filter']}"] = reading
        replies[name] = sample["resps"][0][0]
    check_all(recorder, asked, LM_EVAL)
    return [replies[each.id] for each in asked], [readings[each.id] for each in asked]


def inspect(
    model: str, recorder: Recorder, asked: Sequence[Asked], folder: Path, args: argparse.Namespace
) -> tuple[list[str], list[dict[str, Reading]]]:
    """Run inspect_ai on the same messages. Returns the replies and the readings."""
    rows = [{"id": each.id, "input": list(each.messages), "target": each.reference} for each in asked]
    (folder / "samples.json").write_text(json.dumps(rows), encoding="utf-8")
    arguments = ["eval", "benchmarks/agreement_task.py", "--model", f"openai-api/agreement/{model}"]
    arguments += ["-T", f"file={folder / 'samples.json'}", "--temperature", "0", "--max-tokens", str(args.max_tokens)]
    arguments += ["--max-connections", str(args.in_flight), "--log-dir", str(folder / "inspect")]
    arguments += ["--log-format", "json", "--display", "plain"]
    call([PEERS / "inspect", *arguments], folder / "inspect.log", AGREEMENT_BASE_URL=recorder.url,
         AGREEMENT_API_KEY="none", XDG_DATA_HOME=str(folder / "data"), XDG_CACHE_HOME=str(folder / "cache"))
    log = json.loads(next((folder / "inspect").glob("*.json")).read_text(encoding="utf-8"))
    samples = {sample["id"]: sample for sample in log["samples"]}
    replies, readings = [], []
    for each in asked:
        sample = samples[each.id]
        score = sample["scores"]["match"]
        replies.append(sample["output"]["choices"][0]["message"]["content"])
        readings.append({THEIRS[2]: Reading(score["answer"] or None, score["value"] == "C")})
    check_all(recorder, asked, INSPECT)
    return replies, readings


def check_all(recorder: Recorder, asked: Sequence[Asked], name: str) -> None:
    """Raise UserError unless the recorded requests have exactly the messages of 01_baseline."""
    sent = recorder.taken()
    for each in asked:
        same_messages(sent, each.messages, name)
    body = {key: value for key, value in next(iter(sent.values())).items() if key != "messages"}
    print(f"{name}: {len(sent)} requests with equal messages, and {json.dumps(body)}", file=sys.stderr, flush=True)


def versions(folder: Path) -> str:
    code = f"import importlib.metadata as m; print(*(n + ' ' + m.version(n) for n in {[LM_EVAL, INSPECT]!r}), sep=', ')"
    return call([PEERS / "python", "-c", code], folder / "versions.log").strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="words", help="a set's name or a file, as in PROBLEMS (words)")
    parser.add_argument("--limit", type=int, default=200, help="number of problems (200)")
    parser.add_argument("--max-tokens", type=int, default=128, help="most tokens of a reply (128)")
    parser.add_argument("--shots", type=int, default=4, help="number of worked examples (4)")
    parser.add_argument("--in-flight", type=int, default=4, help="requests in flight (4)")
    parser.add_argument("--keep", type=Path, help="new folder for all results and logs (default: a temporary folder)")
    args = parser.parse_args()
    for name, value in {"MODEL": "smollm2", "EXACT": "1"}.items():
        os.environ.setdefault(name, value)
    began = time.monotonic()
    if args.keep:
        args.keep.mkdir(parents=True)
    with (
        nullcontext(args.keep.resolve()) if args.keep else tempfile.TemporaryDirectory() as name,
        start.serving(Need(k=0, max_tokens=args.max_tokens, answer_tokens=0)) as server,
        recording(server) as recorder,
    ):
        folder = Path(name)
        asked = ours(recorder, folder, args)
        others = {LM_EVAL: lm_eval, INSPECT: inspect}
        found = {name: ask(server.model, recorder, asked, folder, args) for name, ask in others.items()}
        about = f"{server.model} on {server.kind}, {versions(folder)}"
    readings = zip(asked, *(each for _, each in found.values()), strict=True)
    cases = [Case(one.id, one.reference, one.reply, one.readings | strict | loose) for one, strict, loose in readings]
    n = len(cases)
    print(f"{n} problems of {args.problems}, {about}, {time.strftime('%Y-%m-%d')}, {time.monotonic() - began:.0f} s\n")
    for name, (replies, _) in found.items():
        equal = sum(reply == case.reply for reply, case in zip(replies, cases, strict=True))
        print(f"texts of {name} equal to ours: {shown(equal, n)}")
    print(f"\n{table(cases)}\n\n{explained(cases)}")


if __name__ == "__main__":
    with command():
        main()
