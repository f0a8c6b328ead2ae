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
import os
import shutil
import sys
import tempfile
import threading
import time
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.agreement_programs import (
    EXPERIMENT,
    PEERS,
    SECONDS,
    Messages,
    call,
    inspect_results,
    lm_eval_results,
    our_readings,
    our_replies,
    run_inspect,
    run_lm_eval,
    run_ours,
)
from benchmarks.agreement_readings import (
    INSPECT,
    LM_EVAL,
    Case,
    explained,
    format_share,
    table,
)
from core import server as start
from core.base.errors import UserError, command
from core.engines import queries as client
from core.engines.dialects.llamacpp import LlamaCpp
from core.engines.need import Need
from core.engines.protocol import Server

# The recorded requests


@dataclass
class Recorder:
    """The address of a server's proxy, and the bodies of the chat requests since the last check."""

    url: str
    bodies: list[dict[str, Any]]

    def check(self, name: str, wanted: Sequence[Messages], resumes: bool = False) -> None:
        """Raise UserError unless the program `name` has sent exactly the `wanted` messages, or some
        of them if it `resumes` an earlier run."""
        sent = {json.dumps(body["messages"]) for body in self.bodies}
        ours = set(map(json.dumps, wanted))
        different = sent - ours if resumes else sent ^ ours
        if different:
            first = min(different)
            has_sent = "has sent" if first in sent else "has not sent"
            raise UserError(f"{name} {has_sent} {first:.1500}, unlike our journal")
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
    extra = {"cache_prompt": False} if server.kind == LlamaCpp.kind else {}
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
                body = body | extra
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


def ask(folder: Path, args: argparse.Namespace) -> None:
    """Run the programs one after another on one server, and compare their messages."""
    need = Need(k=0, max_tokens=args.max_tokens, answer_tokens=0)
    with start.serving(need) as server, recording(server) as recorder:
        run_ours(recorder.url, folder, args)
        asked = our_replies(folder)
        messages = [problem.messages for problem in asked]
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
    asked = our_replies(folder)
    peers = {LM_EVAL: lm_eval_results(folder), INSPECT: inspect_results(folder)}
    lines = [f"{len(asked)} problems, {(folder / 'about.txt').read_text(encoding='utf-8')}", ""]
    cases = []
    for problem, ours in zip(asked, our_readings(folder), strict=True):
        replies = {}
        readings = dict(ours)
        for name, (their_replies, their_readings) in peers.items():
            replies[name] = their_replies[problem.id].strip()  # as our journal stores replies
            readings |= their_readings[problem.id]
        cases.append(Case(problem.id, problem.reference, problem.reply, readings, replies))
    for name in peers:
        equal = sum(case.others[name] == case.reply for case in cases)
        lines.append(f"replies of {name} with our text: {format_share(equal, len(cases))}")
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
