"""Write results and journals for tests of the report: of any size, or hostile."""

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from core import prompts
from core.client.journal import Journal, content_key
from core.types import Completion, Member, Problem
from harness.report.report import main
from tests.fakes.model import graded_step
from tests.helpers import graded

EVIL = (
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'></script><!--<a "
    "href='javascript:window.pwned=3'>x</a> $\\href{javascript:window.pwned=4}{x}$ ]]> \x1b[2J "
    "\u202e \u0000 \ud83d"
)


@dataclass
class MadeUp:
    """A problem with random replies. Aggregation loses its majority if it `is_lost`."""

    number: int
    N: int
    K: int
    is_lost: bool
    is_counted: bool
    say: Callable[[int, int, int], str]
    rng: random.Random

    def row(self, steps: int, journal: Journal) -> dict[str, Any]:
        """Return the problem's row of results with so many `steps`, whose replies are journaled."""
        p = self.number
        problem = Problem(f"p{p}", f"How much is {p} + 1? $x^2$", str(p + 1))
        records: list[dict[str, Any]] = []
        answers: list[str] = []
        for t in range(steps):
            members = [self._member(problem, t, i, answers, journal) for i in range(self.N)]
            answers = [member.completion.answer for member in members]
            records.append(graded_step(problem, t, members))
        return graded.row(problem.id, records, statement=problem.statement, answer=problem.answer)

    def _member(
        self, problem: Problem, t: int, i: int, answers: Sequence[str], journal: Journal
    ) -> Member:
        is_right = t == 0 if self.is_lost else self.rng.random() < 0.4 + 0.1 * t
        text = self.say(self.number, t, i) if is_right else "Wrong: \\boxed{999}"
        parents = self.rng.sample(range(self.N), self.K) if t else []
        reply = Completion(
            content_key([self.number, t, i]),
            i,
            f"Let me think about {self.number}.",
            text,
            finish_reason="stop",
            completion_tokens=100 if self.is_counted else 0,
            prompt_tokens=50 if self.is_counted else 0,
            seconds=1.5,
        )
        shown = [answers[j] for j in parents]
        messages = prompts.aggregate(problem, shown) if t else prompts.solve(problem)
        journal.put(reply, messages)
        return Member(reply, parents)


def results(  # noqa: PLR0913
    folder: Path,
    problems: int = 3,
    N: int = 4,
    K: int = 2,
    T: int = 2,
    lost: Sequence[int] = (),
    complete: bool = True,
    counted: bool = True,
    say: Callable[[int, int, int], str] = lambda p, t, i: f"Adding up, \\boxed{{{p + 1}}}.",
    reached: Sequence[int] = (),
) -> Path:
    """Write 02_rsa_basic.json and its journal. Aggregation loses the majorities of the problems in
    `lost`.

    If not `counted`, the server counted no tokens. `reached` are the numbers of steps of problems,
    by default all.
    """
    rng = random.Random(5)
    rows = []
    path = folder / "journal" / "02_rsa_basic.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for p in range(problems):
            count = reached[p] if reached else T + 1
            made_up = MadeUp(p, N, K, p in lost, counted, say, rng)
            row = made_up.row(count, journal)
            row["finished"] = complete
            rows.append(row)
    about = {
        "experiment": "02_rsa_basic",
        "model": {"name": "made-up"},
        "config": {"N": N, "K": K, "T": T},
    }
    run = graded.document(
        rows, complete, 12.0, problem_set={"name": "made up", "n": problems}, **about
    )
    graded.save(run, folder)
    return folder


def refused(
    capsys: pytest.CaptureFixture[str], *argv: str, main: Callable[[Sequence[str]], None] = main
) -> str:
    """Return the one line that a command prints if it refuses its arguments."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "") and err.count("\n") == 1 and err.startswith("error: ")
    return err


def hostile(folder: Path) -> Path:
    """Write results in which every text contains markup, and an answer is too long."""
    said, evil = {(0, 0, 2): "x" * 1_000_000 + r"\boxed{1}"}, EVIL + f" \\boxed{{{EVIL}}}"
    results(folder, problems=2, T=1, lost=(0,), say=lambda *at: said.get(at, evil))
    path = folder / "02_rsa_basic.json"
    document = json.loads(path.read_text())
    document["model"]["name"] = document["problem_set"]["name"] = document["provenance"]["gpu"] = (
        EVIL
    )
    document["warnings"].append(EVIL)
    document["config"][EVIL[:40]] = EVIL
    for problem in document["problems"]:
        problem |= {"id": EVIL, "statement": EVIL, "answer": EVIL}
        for step in problem["steps"]:
            step["majority_answer"] = EVIL
            for member in step["members"]:
                member |= {"answer": EVIL, "doubt": EVIL, "finish_reason": EVIL, "error": EVIL}
    path.write_text(json.dumps(document))
    return folder


@contextmanager
def served(application: Any) -> Iterator[int]:
    """Serve `application` and yield its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        server = uvicorn.Server(
            uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield port
        server.should_exit = True
        thread.join(10)


def rounds(
    folder: Path, *labels: str, rounds: int = 2, name: str = "21_star", reason: str = "wrong"
) -> Path:
    """Write an experiment in rounds: record, evaluations and collected samples, the wrong ones
    dropped for `reason`."""
    own = folder / name
    for label in labels or ("seed0",):
        (own / label).mkdir(parents=True)
        records: list[dict[str, Any]] = []
        for number in range(rounds + 1):
            called = f"{label}-round{number}"
            of: dict[str, Any] = {"round": number}
            results(folder, problems=8, N=1, T=0)
            _move(folder, own / f"{called}.json")
            if number:  # written last, as its journal contains all keys
                dropped = _collected(folder, own / f"{called}-collected.json", reason)
                of |= _making(label, number, dropped, reason)
            rate = {"value": 0.25 * number, "low": 0.1, "high": 0.9, "n": 8}
            gain = {"difference": 0.25 * number, "low": -0.1, "high": 0.8, "p": 0.5, "n": 8}
            of["evaluated"] = {
                **{"model": "made-up", "greedy": called, "sampled": f"{called}-sampled"},
                **dict.fromkeys(("accuracy", "sampled_accuracy", "vote", "format"), rate),
                **{"gain": gain if number else None, "sampled_gain": None},
                **{"steps": 4.0, "tokens": 800, "seconds": 12.0},
                **dict.fromkeys(("truncated", "failed", "timed_out"), 0),
            }
            records.append(of)
        record = {
            "schema": 1,
            "complete": True,
            "started": "2026-11-21T10:00:00+00:00",
            "ended": "2026-11-21T10:09:00+00:00",
            "experiment": name,
            "label": label,
            "run": "0" * 32,
            "config": {"VOTES": 1},
            "start": {"name": "model.gguf", "digest": "a" * 64},
            "data": {
                "name": "sums",
                "train": 90,
                "held_out": 8,
                "held_out_name": "sums_eval",
                "sha256": "0" * 64,
            },
            "last": rounds,
            "rounds": records,
        }
        (own / label / "record.json").write_text(json.dumps(record))
    (folder / "journal" / "02_rsa_basic.jsonl").rename(folder / "journal" / f"{name}.jsonl")
    return own


def _move(
    folder: Path, to: Path, change: Callable[[dict[str, Any]], None] = lambda document: None
) -> None:
    """Rename the results in `folder` to the results of a round."""
    document = json.loads((folder / "02_rsa_basic.json").read_text())
    document["experiment"] = to.stem
    document["model"]["name"] = f"made-up@{to.stem}"  # each round has weights of its own
    change(document)
    to.write_text(json.dumps(document))
    (folder / "02_rsa_basic.json").unlink()


def _collected(folder: Path, to: Path, reason: str) -> int:
    """Write the results of two tries of eight problems. Return the number of dropped samples."""
    dropped = 0

    def noted(document: dict[str, Any]) -> None:
        nonlocal dropped
        for step in (step for problem in document["problems"] for step in problem["steps"]):
            step["stage"] = f"try {step['step'] + 1}"
            for member in step["members"]:
                if not member["correct"]:
                    member["notes"], dropped = [f"dropped: {reason}"], dropped + 1

    results(folder, problems=8, N=1, K=1, T=1)
    _move(folder, to, noted)
    return dropped


def _making(label: str, number: int, dropped: int, reason: str) -> dict[str, Any]:
    ways = {"first": 16 - dropped, "retry": 0, "rationalised": 0}
    return {
        "collected": {
            **{
                "results": f"{label}-round{number}-collected",
                "problems": 8,
                "rows": 5 * number,
                "samples": 16,
            },
            **{
                "kept": ways,
                "dropped": {"first": {reason: dropped}},
                "unsound": dict.fromkeys(ways, 0),
            },
            **dict.fromkeys(("repeats", "truncated", "failed", "timed_out"), 0),
            **{
                "steps": 4.0,
                "tokens": 1600,
                "seconds": 8.0,
                "traces_sha256": "b" * 64,
                "malformed": {},
            },
        },
        "trained": {
            **{
                "rows": 5 * number,
                "tokens": 4000,
                "seconds": 6.0,
                "first_loss": 0.02,
                "last_loss": 0.01,
            },
            **{"weights": f"{label}/round{number}/trained/model.gguf", "digest": "c" * 64},
        },
    }
