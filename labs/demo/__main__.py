"""Make, train and measure the embedded model, its problem sets and the embedded Lean policy.

    python -m labs.demo TASK [options]

`python -m labs.demo TASK -h` explains the task's options."""

import importlib
import sys
from typing import NamedTuple

from core.base.errors import UserError, command


class Task(NamedTuple):
    module: str
    purpose: str


TASKS = {
    "sums": Task("make_sums", "write a problem set of sums, or the bundled ones"),
    "words": Task("make_words", "write data/words.json and data/words_train.json"),
    "graded": Task("make_graded", "write data/sums_graded.json, with the embedded model's proofs"),
    "train": Task("train", "train the embedded model (needs torch)"),
    "chances": Task("chances", "measure how likely right products are (needs torch)"),
    "measure": Task("measure", "measure other wordings, agreement of thinking, or other methods"),
    "roles": Task("measure_roles", "measure the scaffolds' roles"),
    "lean-lemmas": Task("lean.make_lemmas", "write data/lean/lemmas_*.json (needs Lean)"),
    "lean-pairs": Task("lean.make_pairs", "write pairs of states and tactics (needs Lean)"),
    "lean-policy": Task("lean.train_policy", "train the embedded Lean policy (needs torch)"),
}


def overview() -> str:
    """Return the module's docstring with a line for each task."""
    width = max(len(name) for name in TASKS)
    lines = [f"  {name:{width}}  {task.purpose}" for name, task in TASKS.items()]
    return "\n".join([str(__doc__), "", "tasks:", *lines])


def main() -> None:
    """Run the task that the first argument names, with the other arguments."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ("-h", "--help"):
        print(overview())
        return
    if not name:
        raise SystemExit(overview())
    if name not in TASKS:
        raise UserError(f"{name} is no task. For a list of tasks: python -m labs.demo -h")
    sys.argv = [f"python -m labs.demo {name}", *sys.argv[2:]]
    importlib.import_module(f"labs.demo.{TASKS[name].module}").main()


if __name__ == "__main__":
    with command():
        main()
