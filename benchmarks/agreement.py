r"""Compare our verdicts with lm-evaluation-harness (lm_eval) and inspect_ai, on the same replies.

    bash benchmarks/run.sh agreement [--problems words] [--limit 200] [--shots 4] [--max-tokens 512]
        [--in-flight 32] [--keep FOLDER | --again FOLDER] [--heads FILE]

01_baseline with N=1 asks at temperature 0. MODEL and BASE_URL select the model and its server, as
for a run (MODEL is smollm2 if both are unset). Then lm_eval and inspect_ai run as programs, each
with its own client. Their server is a replay of our run: it answers a request that has the same
messages, temperature and token cap with our reply, and refuses any other.

So all programs read the same texts, and a difference between verdicts is a difference of reading.
If each program asked a model's server, this would not be so: a greedy reply depends on the other
requests in its batch. A tiny difference in a sum can change a token, and then the rest of the text.

With worked examples, our prompt asks for a last line "The answer is …", which lm_eval's task
gsm8k_cot reads. The examples are the first ones of this task, as earlier turns. Our readings are
ANSWER=text and ANSWER=number, lm_eval's are strict-match and flexible-extract, and inspect_ai's is
match(numeric=True).

With --shots 0, our prompt asks for a boxed answer. Our reading is ANSWER=auto. lm_eval's are
is_equiv (the last box, compared by the task hendrycks_math) and math_verify (Math-Verify, called as
in the task minerva_math). inspect_ai's is its scorer math().

With --keep, FOLDER stores the results. A stopped run in it is resumed, and a finished one is used.
With --again no program runs. The results in FOLDER are compared with the verdicts that our readings
give now. --heads writes the verdicts and answers without the texts."""

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.agreement_programs import (
    Asked,
    Messages,
    Options,
    inspect_results,
    lm_eval_results,
    our_readings,
    our_replies,
    our_settings,
    run_inspect,
    run_lm_eval,
    run_ours,
    versions,
)
from benchmarks.agreement_readings import (
    INSPECT,
    LM_EVAL,
    Case,
    accuracies,
    explained,
    format_share,
    table,
)
from core.base.errors import UserError, command

# The replay of our run


class Replay:
    """The address of a server that answers with the replies of our run, and the ids of the problems
    that a program has asked for."""

    def __init__(self, asked: Sequence[Asked], max_tokens: int) -> None:
        self.url = ""
        self.ids: set[str] = set()
        self._max_tokens = max_tokens
        self._problems = {_key(problem.messages): problem for problem in asked}

    def reply(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the chat completion for the request `body`, or None if our run has not asked for
        it."""
        problem = self._problems.get(_key(body.get("messages", [])))
        cap = body.get("max_completion_tokens", body.get("max_tokens"))
        is_same = cap == self._max_tokens and body.get("temperature") == 0
        if problem is None or not is_same or body.get("stream"):
            return None
        self.ids.add(problem.id)
        message = {"role": "assistant", "content": problem.reply}
        choice = {"index": 0, "message": message, "finish_reason": problem.finish_reason}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        head = {"id": problem.id, "object": "chat.completion", "created": 0}
        return {**head, "model": body.get("model"), "choices": [choice], "usage": usage}

    def check(self, name: str) -> None:
        """Raise UserError unless the program `name` has asked for all problems. Then forget its
        requests."""
        missing = {problem.id for problem in self._problems.values()} - self.ids
        if missing:
            names = ", ".join(sorted(missing)[:10])
            raise UserError(f"{name} has not asked for {len(missing)} problems of our run: {names}")
        self.ids.clear()


def _key(messages: Messages) -> str:
    return json.dumps([[message["role"], message["content"]] for message in messages])


@contextmanager
def replaying(asked: Sequence[Asked], max_tokens: int) -> Iterator[Replay]:
    """Serve the replies of our run. A request that our run has not sent gets status 400."""
    replay = Replay(asked, max_tokens)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = replay.reply(body)
            status = 200
            if reply is None:
                status = 400
                reply = {"error": {"message": f"our run has not asked: {json.dumps(body)}"}}
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        replay.url = f"http://127.0.0.1:{listener.server_port}/v1"
        try:
            yield replay
        finally:
            listener.shutdown()


# The comparison


def ask(folder: Path, options: Options) -> None:
    """Run the programs one after another: ours with the model, and the others with its replies."""
    run_ours(folder, options)
    asked = our_replies(folder)
    settings = our_settings(folder)
    with replaying(asked, settings.max_tokens) as replay:
        for name, run in {LM_EVAL: run_lm_eval, INSPECT: run_inspect}.items():
            shutil.rmtree(folder / name, ignore_errors=True)  # of a stopped benchmark
            run(replay.url, folder, asked, settings)
            replay.check(name)
    date = time.strftime("%Y-%m-%d")
    description = settings.description(len(asked[0].messages) // 2)
    about = f"{description}, {versions(folder)}, {date}"
    (folder / "about.txt").write_text(about, encoding="utf-8")


def compared(folder: Path) -> list[Case]:
    """Return the cases of the results in `folder`, with the readings of all programs."""
    asked = our_replies(folder)
    theirs = [lm_eval_results(folder), inspect_results(folder)]
    cases = []
    for problem, ours in zip(asked, our_readings(folder), strict=True):
        readings = dict(ours)
        for of_program in theirs:
            readings |= of_program[problem.id]
        is_cut = problem.finish_reason == "length"
        cases.append(Case(problem.id, problem.reference, problem.reply, readings, is_cut))
    return cases


def report(cases: Sequence[Case], about: str) -> str:
    """Return the comparison as text: accuracies, agreement, and each difference."""
    cut = sum(case.is_cut for case in cases)
    lines = [
        f"{len(cases)} problems, {about}",
        f"cut off at the cap: {format_share(cut, len(cases))}",
    ]
    return "\n".join([*lines, "", accuracies(cases), "", table(cases), "", explained(cases)])


def write_heads(cases: Sequence[Case], about: str, path: Path) -> None:
    """Write the verdicts and answers to `path` as JSON, one problem a line."""
    rows = []
    for case in cases:
        readings = {
            name: [reading.head, int(reading.right)] for name, reading in case.readings.items()
        }
        row = {"id": case.id, "reference": case.reference, "cut": int(case.is_cut)}
        rows.append(json.dumps(row | {"readings": readings}, ensure_ascii=False))
    lines = ",\n".join(rows)
    path.write_text(
        f'{{"about": {json.dumps(about)}, "problems": [\n{lines}\n]}}\n', encoding="utf-8"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--problems", default="words", help="a set's name or a file, as in PROBLEMS (words)"
    )
    parser.add_argument("--limit", type=int, default=200, help="number of problems (200)")
    parser.add_argument("--max-tokens", type=int, default=512, help="most tokens of a reply (512)")
    parser.add_argument(
        "--shots", type=int, default=4, help="worked examples, or 0 to ask for a box (4)"
    )
    parser.add_argument("--in-flight", type=int, default=32, help="requests together (32)")
    parser.add_argument("--heads", type=Path, metavar="FILE", help="file for the verdicts")
    folders = parser.add_mutually_exclusive_group()
    folders.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for results and logs")
    folders.add_argument(
        "--again", type=Path, metavar="FOLDER", help="folder of an earlier --keep to compare again"
    )
    return parser.parse_args()


def main() -> None:
    args = _arguments()
    if not os.environ.get("BASE_URL"):
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
            ask(
                folder,
                Options(args.problems, args.limit, args.max_tokens, args.shots, args.in_flight),
            )
        about = (folder / "about.txt").read_text(encoding="utf-8")
        cases = compared(folder)
        if args.heads:
            write_heads(cases, about, args.heads)
        print(report(cases, about))


if __name__ == "__main__":
    with command():
        main()
