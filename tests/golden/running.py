"""Run a case in its own folders, and collect its files and output as text."""

import gzip
import io
import json
import re
import shutil
import signal
import tarfile
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests import conftest
from tests.conftest import ROOT
from tests.fakes.grader import GradingServer
from tests.fakes.server import ScriptedServer
from tests.golden.cases import INPUTS, Case
from tests.golden.normal import Normal

HERE = Path(__file__).resolve().parent
FILES, JOURNALS = HERE / "files", HERE / "journals"
REPLIES = {  # to scripts/schemes.sh and scripts/filter.sh
    "schemes": "Two ways are open.\n\nCheckpoints:\n- 2 points: reduces to $n$ odd\nChain: by induction\n"
    "- 5 points: the step\n"
    "Chain: by descent\n"
    "- 1 point: a least one\n"
    "- 4 points: a smaller one\n"
    "No credit:\n"
    "- tries of small cases\n"
    "Deductions:\n"
    "- 1 point: leaves out n = 0",
    "filter": "It leaves out a case.\n\nIncomplete: no\nDifficulty: 7\nGaps: **yes**\nWrong: no\nDisagreement: yes\n"
    "Computational: no",
}
UNPACKED = (".png", ".html", ".log", ".gguf", ".safetensors", ".checkpoint")
CARD = '[price]\nread = 1.0\ncached = 0.1\nwritten = 10.0\non = "2026-11-23"\n'
Texts = dict[str, str]  # names and contents of files
Result = tuple[int, str, str]  # status, standard output, standard error


@dataclass
class Ran:
    """A case that has run: its golden texts, and the number of requests that reached its scripted
    server."""

    texts: Texts
    requests: int


@contextmanager
def serving(case: Case) -> Iterator[ScriptedServer | GradingServer | None]:
    """Start the scripted server of a case, on the case's port: a card's address is part of journal
    keys."""
    kind = case.server
    server = (
        None
        if kind == "embedded"
        else on_port(ScriptedServer if kind == "scripted" else GradingServer, case.name)
    )
    if kind in REPLIES and isinstance(server, GradingServer):
        server.reply = lambda prompt, seed: REPLIES[kind]
    with closing(server) if server else nullcontext():
        yield server


def on_port(
    make: type[ScriptedServer] | type[GradingServer], name: str
) -> ScriptedServer | GradingServer:
    """Start a server on the port that follows from `name`. Waits if another checkout's tests have
    it."""
    port, ends = 27000 + zlib.crc32(name.encode()) % 2000, time.monotonic() + 120
    while True:
        try:
            return make(port)
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)


def run_case(case: Case, folder: Path) -> Ran:
    """Run the commands of `case`. `folder` has or gets: results, in (its inputs), out."""
    results = folder / "results"
    for name in ("results", "in", "out"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in case.inputs:
        shutil.copy(ROOT / INPUTS / name, folder / "in")
    normal = Normal({str(folder): "TMP", str(ROOT): "ROOT"}, case.trains)
    printed: list[str] = []
    with serving(case) as server:
        env: dict[str, str] = {}
        if isinstance(server, ScriptedServer):
            env["BASE_URL"] = server.url
        elif server:
            (folder / "in" / "strict.toml").write_text(
                f'base_url = "{server.url}"\nmodel = "strict"\n{CARD}'
            )
        for command in case.commands:
            changes = env | {"RESULTS_DIR": str(results)}
            args = [
                each.replace("IN/", f"{folder}/in/").replace("OUT/", f"{folder}/out/")
                for each in command
            ]
            while re.match(r"[A-Z_]+=", args[0]):
                name, _, value = args.pop(0).partition("=")
                changes[name] = value
            status, out, err = run_one(args, changes)
            text = out if status == 0 else f"{out}status {status}\n{err}"
            printed.append(
                f"$ {' '.join(command)}\n{normal.text(text, is_timed=command[0] != 'plan')}"
            )
        asked = getattr(server, "asked", 0)
    texts = {"stdout.txt": "\n".join(printed)}
    listed = []
    for part in ("results", "in", "out"):
        for path in sorted((folder / part).rglob("*")):
            name = re.sub(
                r"\.\d{8}-\d{6}(?=\.)", ".TIME", path.relative_to(folder / part).as_posix()
            )
            is_input = part == "in" and name in (*case.inputs, "strict.toml")
            if path.is_dir() or is_input or name.startswith("other/") or path.suffix == ".lock":
                continue
            listed.append(f"{part}/{name}")
            if (found := normal.file(path, name)) is not None:
                texts[f"{part}/{name}.txt"] = found
    texts["names.txt"] = "".join(f"{name}\n" for name in listed)
    return Ran(texts, asked if isinstance(asked, int) else len(asked))


def run_one(args: list[str], changes: dict[str, str]) -> Result:
    """Run an experiment, or the module that a script of scripts/ starts."""
    name, *rest = args
    if name[0].isdigit():
        return conftest.ended(
            conftest.python(str(ROOT / "experiments" / f"{name}.py"), *rest, **changes)
        )
    found = re.search(
        r"^module=(\S+)",
        (ROOT / "scripts" / f"{name}.sh").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert found, name
    command = ["-m", found[1], *rest]
    if name == "serve_rsa":
        return served(command, changes)
    return conftest.ended(conftest.python(*command, **changes))


def served(args: list[str], changes: dict[str, str]) -> Result:
    """Start the endpoint, send it one request, and stop it."""
    process = conftest.python(*args, "--port", "0", **changes)
    assert process.stdout
    first = process.stdout.readline()
    try:
        url = re.search(r"http://[\d.:]+/v1", first)
        assert url, first
        body = (ROOT / INPUTS / "ask.json").read_bytes()
        request = urllib.request.Request(
            f"{url[0]}/chat/completions", body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            answer = json.load(reply)
    finally:
        process.send_signal(signal.SIGINT)
        status, out, err = conftest.ended(process)
    for name in ("id", "created"):
        del answer[name]
    # the load of the machine decides it
    answer["usage"]["prompt_tokens_details"]["cached_tokens"] = 0
    return (
        0 if status == 130 else status,
        f"{first}{out}{json.dumps(answer, sort_keys=True)}\n",
        err,
    )


def golden(case: Case) -> Texts:
    """Read the golden texts of a case."""
    folder = FILES / case.name
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def write(case: Case, texts: Texts) -> None:
    """Replace the golden texts of a case."""
    shutil.rmtree(FILES / case.name, ignore_errors=True)
    for name, text in texts.items():
        path = FILES / case.name / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def pack(case: Case, results: Path) -> None:
    """Store the journals of a run, and the records of searches and rounds, without weights and
    results of rounds."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(results.rglob("*")):
            name = path.relative_to(results).as_posix()
            is_kept = name.startswith("journal/") or (case.records and (case.trains or case.lean))
            is_kept = is_kept and not re.search(r"-round\d+(-\w+)?\.json$", name)
            if path.is_file() and is_kept and path.suffix not in UNPACKED:
                about = tarfile.TarInfo(name)
                about.size = path.stat().st_size
                archive.addfile(about, io.BytesIO(path.read_bytes()))
    JOURNALS.mkdir(exist_ok=True)
    (JOURNALS / f"{case.name}.tar.gz").write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def unpack(case: Case, results: Path, is_wanted: Callable[[str], bool]) -> None:
    """Unpack the stored journals of a case into `results`."""
    with tarfile.open(JOURNALS / f"{case.name}.tar.gz") as archive:
        members = [member for member in archive.getmembers() if is_wanted(member.name)]
        archive.extractall(results, members, filter="data")


def journal_keys(results: Path, is_trained: bool) -> dict[str, list[str]]:
    """Read the keys of each journal; if `is_trained`, only those by untrained models."""
    normal = Normal({}, is_trained)
    found = {
        path.name: normal.file(path, f"journal/{path.name}")
        for path in (results / "journal").glob("*.jsonl")
    }
    return {name: (text or "").splitlines() for name, text in sorted(found.items())}
