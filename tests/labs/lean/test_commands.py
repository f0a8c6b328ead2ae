"""Test that the scripts accept the commands of docs/lean.md."""

import re
import shlex
from pathlib import Path

import pytest

from core import constants
from core.scaffolds import experiment_file
from labs.lean.prepare import parser
from tests.conftest import ROOT

BLOCKS = re.findall(r"^```bash\n(.*?)^```", (ROOT / "docs" / "lean.md").read_text(encoding="utf-8"), re.M | re.S)
LINES = [line for block in BLOCKS for line in block.splitlines() if "scripts/" in line]


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_page_is_read(line: str) -> None:
    words = shlex.split(line, comments=True)
    script = next(place for place, word in enumerate(words) if word.startswith("scripts/"))
    assert (ROOT / words[script]).is_file() and words[script - 1] == "bash"
    assert {name.partition("=")[0] for name in words[: script - 1]} <= {"LEAN", "MODEL"}
    arguments = words[script + 1 :]
    if words[script] == "scripts/run.sh":
        found = experiment_file.load(arguments[0])
        constants.read(found.planned.constants, found.namespace, arguments[1:])
    elif words[script] == "scripts/prepare_lean.sh":
        parser().parse_args(arguments)
    elif words[script] == "scripts/report.sh":
        assert arguments == ["lean"]  # tests/labs/lean/test_report.py runs it
    else:
        source = (ROOT / "labs" / "training" / "finetune.py").read_text(encoding="utf-8")
        options = [word for word in arguments if word.startswith("--")]
        assert Path(words[script]).name == "finetune.sh" and all(f'"{option}"' in source for option in options)
