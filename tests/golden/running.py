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
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests import conftest
from tests.conftest import ROOT
from tests.fakes.grader import GradingServer
from tests.fakes.server import ScriptedServer
from tests.golden.cases import INPUTS, Case, Command
from tests.golden.normal import Normal

HERE = Path(__file__).resolve().parent
FILES, JOURNALS = HERE / "files", HERE / "journals"
REPLIES = {  # to scripts/schemes.sh and scripts/filter.sh
    "schemes": """Two ways are open.

Checkpoints:
- 2 points: reduces to $n$ odd
Chain: by induction
- 5 points: the step
Chain: by descent
- 1 point: a least one
- 4 points: a smaller one
No credit:
- tries of small cases
Deductions:
- 1 point: leaves out n = 0""",
    "filter": """It leaves out a case.

Incomplete: no
Difficulty: 7
Gaps: **yes**
Wrong: no
Disagreement: yes
Computational: no""",
}
PARTS = ("results", "in", "out")  # the folders of a case
UNPACKED = (".png", ".html", ".log", ".gguf", ".safetensors", ".checkpoint")
# printed texts, tables and pages, by the ends of their names
PRINTED = ("stdout.txt", "table.txt.txt", "tables.txt.txt", ".html.txt")
CARD = '[price]\nread = 1.0\ncached = 0.1\nwritten = 10.0\non = "2026-11-23"\n'
Texts = dict[str, str]  # names and contents of files
Server = TypeVar("Server", ScriptedServer, GradingServer)
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
    if case.server == "embedded":
        yield None
        return
    server: ScriptedServer | GradingServer
    if case.server == "scripted":
        server = on_port(ScriptedServer, case.name)
    else:
        server = on_port(GradingServer, case.name)
        if case.server in REPLIES:
            server.reply = lambda prompt, seed: REPLIES[case.server]
    with closing(server):
        yield server


def on_port(make: type[Server], name: str) -> Server:
    """Start a server on the port that follows from `name`. Waits if another checkout's tests have
    it."""
    port = 27000 + zlib.crc32(name.encode()) % 2000
    deadline = time.monotonic() + 120
    while True:
        try:
            return make(port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def run_case(case: Case, folder: Path) -> Ran:
    """Run the commands of `case`. `folder` has or gets: results, in (its inputs), out."""
    for name in PARTS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in case.inputs:
        shutil.copy(ROOT / INPUTS / name, folder / "in")
    normal = Normal({str(folder): "TMP", str(ROOT): "ROOT"}, case.trains)
    with serving(case) as server:
        changes = {"RESULTS_DIR": str(folder / "results")}
        if isinstance(server, ScriptedServer):
            changes["BASE_URL"] = server.url
        elif server:
            card = f'base_url = "{server.url}"\nmodel = "strict"\n{CARD}'
            (folder / "in" / "strict.toml").write_text(card)
        printed = [_printed(command, folder, changes, normal) for command in case.commands]
        asked = getattr(server, "asked", 0)
    requests = asked if isinstance(asked, int) else len(asked)
    return Ran({"stdout.txt": "\n".join(printed)} | _files(case, folder, normal), requests)


def _printed(command: Command, folder: Path, changes: dict[str, str], normal: Normal) -> str:
    """Run a command, and return its normalised output. Variables may precede its name."""
    changes = dict(changes)
    args = []
    for word in command:
        word = word.replace("IN/", f"{folder}/in/").replace("OUT/", f"{folder}/out/")
        args.append(word)
    while re.match(r"[A-Z_]+=", args[0]):
        name, _, value = args.pop(0).partition("=")
        changes[name] = value
    status, out, err = run_one(args, changes)
    text = out if status == 0 else f"{out}status {status}\n{err}"
    return f"$ {' '.join(command)}\n{normal.text(text, is_timed=command[0] != 'plan')}"


def _files(case: Case, folder: Path, normal: Normal) -> Texts:
    """Read the files of a case as normalised text. The text names.txt lists all of them."""
    texts: Texts = {}
    names = []
    for part in PARTS:
        for path in sorted((folder / part).rglob("*")):
            name = path.relative_to(folder / part).as_posix()
            name = re.sub(r"\.\d{8}-\d{6}(?=\.)", ".TIME", name)
            is_input = part == "in" and name in (*case.inputs, "strict.toml")
            if path.is_dir() or is_input or name.startswith("other/") or path.suffix == ".lock":
                continue
            names.append(f"{part}/{name}")
            text = normal.file(path, name)
            if text is not None:
                texts[f"{part}/{name}.txt"] = text
    texts["names.txt"] = "".join(f"{name}\n" for name in names)
    return texts


def pinned(case: Case, texts: Texts) -> Texts:
    """Choose the texts of a case that its golden files contain."""
    if case.pins_text:
        return texts
    return {name: text for name, text in texts.items() if not name.endswith(PRINTED)}


def run_one(args: list[str], changes: dict[str, str]) -> Result:
    """Run an experiment, or the module that a script of scripts/ starts."""
    name, *rest = args
    if name[0].isdigit():
        script = str(ROOT / "experiments" / f"{name}.py")
        return conftest.ended(conftest.python(script, *rest, **changes))
    text = (ROOT / "scripts" / f"{name}.sh").read_text(encoding="utf-8")
    module = re.search(r"^module=(\S+)", text, re.MULTILINE)
    assert module, name
    command = ["-m", module[1], *rest]
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
    if status == 130:  # stopped by SIGINT
        status = 0
    return status, f"{first}{out}{json.dumps(answer, sort_keys=True)}\n", err


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
            if path.is_file() and _is_packed(case, path, name):
                info = tarfile.TarInfo(name)
                info.size = path.stat().st_size
                archive.addfile(info, io.BytesIO(path.read_bytes()))
    JOURNALS.mkdir(exist_ok=True)
    (JOURNALS / f"{case.name}.tar.gz").write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def _is_packed(case: Case, path: Path, name: str) -> bool:
    if path.suffix in UNPACKED or re.search(r"-round\d+(-\w+)?\.json$", name):
        return False
    has_records = case.records and (case.trains or case.lean)
    return name.startswith("journal/") or has_records


def unpack(case: Case, results: Path, is_wanted: Callable[[str], bool]) -> None:
    """Unpack the stored journals of a case into `results`."""
    with tarfile.open(JOURNALS / f"{case.name}.tar.gz") as archive:
        members = [member for member in archive.getmembers() if is_wanted(member.name)]
        archive.extractall(results, members, filter="data")


def journal_keys(results: Path, is_trained: bool) -> dict[str, list[str]]:
    """Read the keys of each journal; if `is_trained`, only those by untrained models."""
    normal = Normal({}, is_trained)
    keys = {}
    for path in sorted((results / "journal").glob("*.jsonl")):
        text = normal.file(path, f"journal/{path.name}") or ""
        keys[path.name] = text.splitlines()
    return keys
