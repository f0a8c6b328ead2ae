"""Slurm's commands as the scripts use them, without a cluster: sbatch, scancel and scontrol
requeue.

Options must be known to Slurm. Jobs run as sessions of this machine. The state is in
$SLURM_STAND_IN: jobs.jsonl (one submission a line), ID.json (how to start it), ID.pids, and log
(the commands).
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

STATE = Path(os.environ.get("SLURM_STAND_IN", ""))
# Options that the scripts use, from the sbatch man page of slurm-client 22.05.8, without and with a
# value.
FLAGS = {"parsable", "requeue"}
VALUED = {
    "chdir",
    "export",
    "array",
    "output",
    "dependency",
    "kill-on-invalid-dep",
    "job-name",
    "ntasks",
    "gres",
}
VALUED |= {"cpus-per-task", "mem", "time", "open-mode", "signal", "partition", "account"}


def options(words: list[str]) -> tuple[dict[str, str | None], list[str]]:
    """Return the long options that `words` begin with, checked, and the rest. Exits like sbatch if
    one is wrong."""
    found: dict[str, str | None] = {}
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).removeprefix("--").partition("=")
        if name not in (VALUED if equals else FLAGS):
            sys.exit(f"sbatch: unrecognized option '--{name}'")
        found[name] = value if equals else None
    return found, words


def directives(script: str) -> list[str]:
    """Return the #SBATCH lines before the first command: Slurm reads no others."""
    found = []
    for line in script.splitlines():
        if line.startswith("#SBATCH "):
            found.append(line.split(None, 1)[1].strip())
        elif line.strip() and not line.startswith("#"):
            break
    return found


def sbatch(words: list[str]) -> None:
    given, (script, *args) = options(words)
    text = Path(script).read_text()
    asked = options(directives(text))[0] | given
    assert text.startswith("#!"), "sbatch refuses a script without a shebang"
    with open(STATE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(STATE / "jobs.jsonl", "a+") as jobs:
            jobs.seek(0)
            number = str(1001 + len(jobs.readlines()))
            jobs.write(
                json.dumps({"id": number, "options": asked, "script": script, "args": args}) + "\n"
            )
    if dependency := asked.get("dependency"):
        assert (STATE / f"{dependency.split(':')[1]}.json").exists(), (
            "sbatch: error: Job dependency problem"
        )
    # as Slurm runs one, a script can't find files in its own folder
    copy = STATE / f"{number}.slurm_script"
    copy.write_text(text)
    job = {"args": [str(copy), *args], "options": asked, "environment": dict(os.environ)}
    (STATE / f"{number}.json").write_text(json.dumps(job))
    kind, _, first = (dependency or "").partition(":")
    if kind == "afterok":
        apart("later", number, first)
    else:
        launch(number, 0)
    print(number if "parsable" in asked else f"Submitted batch job {number}", flush=True)


def apart(*words: str) -> None:
    """Start this program as the controller, which outlives the command."""
    command = [sys.executable, __file__, *words]
    subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def later(number: str, first: str) -> None:
    """Start a job when the job `first` has ended well; else never (--kill-on-invalid-dep)."""
    while not (ended := STATE / f"{first}.status").exists():
        time.sleep(0.1)
    if ended.read_text() == "0":
        launch(number, 0)
    else:
        note(f"never {number}")


def launch(number: str, restarts: int) -> None:
    """Run a job's tasks now."""
    pids = STATE / f"{number}.pids"
    pids.unlink(missing_ok=True)
    write(STATE / f"{number}.restarts", str(restarts))
    apart("watch", number, str(restarts))
    while not pids.exists():
        time.sleep(0.02)


def watch(number: str, restarts: str) -> None:
    """Start a job's tasks, each in its own session, and note its status, unless it was requeued."""
    job: dict[str, Any] = json.loads((STATE / f"{number}.json").read_text())
    first, _, last = (job["options"].get("array") or "").partition("-")
    started = []
    for task in (
        [str(task) for task in range(int(first), int(last or first) + 1)] if first else [""]
    ):
        environment = job["environment"] | {
            "SLURM_JOB_ID": number,
            "SLURMD_NODENAME": os.uname().nodename,
        }
        if task:
            environment |= {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": task}
        if restarts != "0":
            environment["SLURM_RESTART_COUNT"] = restarts
        output = (
            job["options"]["output"].replace("%A", number).replace("%a", task).replace("%j", number)
        )
        with open(output, "ab") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            place = {"cwd": job["options"]["chdir"], "env": environment}
            started.append(
                subprocess.Popen(["bash", *job["args"]], **place, **streams, start_new_session=True)
            )
    write(STATE / f"{number}.pids", " ".join(str(process.pid) for process in started))
    status = max(abs(process.wait()) for process in started)
    if (STATE / f"{number}.restarts").read_text() == restarts:
        write(STATE / f"{number}.status", str(status))


def write(path: Path, text: str) -> None:
    """Write a file at once, for processes that wait for it."""
    new = path.with_suffix(f"{path.suffix}.new")
    new.write_text(text)
    new.rename(path)


def note(line: str) -> None:
    with open(STATE / "log", "a") as log:
        log.write(f"{line}\n")


def session(stat: Path) -> int:
    """Return the session of a process, or 0 if it has ended or is a zombie."""
    try:
        kind, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return 0
    return 0 if kind == "Z" else int(session)


def running(number: str, state: Path = STATE) -> list[int]:
    """Return the sessions of a job with a process that is no zombie."""
    file = state / f"{number}.pids"
    pids = [int(pid) for pid in file.read_text().split()] if file.exists() else []
    if all(session(Path(f"/proc/{pid}/stat")) for pid in pids):
        return pids  # without a look at all processes
    found = set(map(session, Path("/proc").glob("[0-9]*/stat")))
    return [pid for pid in pids if pid in found]


def scancel(number: str) -> None:
    """Send SIGTERM, and SIGKILL after KillWait (30 s)."""
    for sign, patience in ((signal.SIGTERM, 30.0), (signal.SIGKILL, 5.0)):
        for pid in running(number):
            with suppress(ProcessLookupError):
                os.killpg(pid, sign)
        deadline = time.monotonic() + patience
        while running(number) and time.monotonic() < deadline:
            time.sleep(0.1)


def main() -> None:
    name, *words = sys.argv[1:]
    if name in ("later", "watch"):
        return {"later": later, "watch": watch}[name](*words)  # no user's command: not in the log
    note(f"{name} {' '.join(words)}")
    match name, words:
        case "sbatch", _:
            sbatch(words)
        case "scancel", [number]:
            scancel(number)
        case "scontrol", ["requeue", number]:  # inside the job: the controller must outlive it
            apart("requeue", number)
            time.sleep(30)  # Slurm ends the job here
        case "requeue", [number]:
            write(STATE / f"{number}.restarts", "1")
            scancel(number)
            launch(number, 1)
        case _:
            sys.exit(f"{name}: these arguments are not expected: {words}")


if __name__ == "__main__":
    main()
