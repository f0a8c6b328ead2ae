"""Test that documents have no dead links or unknown commands and constants, and that README's
sentences are short."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from core import constants
from core.base.settings import SETTINGS
from harness import experiment_file, grid
from scripts import constants_page
from tests.conftest import ROOT
from tests.test_prose import LONGEST, private, sentences

STORY = {"LOG.md"}  # quotes commands and names that may no longer exist
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "data" / "embedded" / "README.md"]
)
CHECKED = [page for page in PAGES if page.name not in STORY]
NAMES = [page.relative_to(ROOT).as_posix() for page in CHECKED]
# Variables that documents set before a command, in addition to those that constants.py lists.
OTHERS = {
    "API_KEY", "CUDA_VISIBLE_DEVICES", "EXPERIMENT_OPTIONS", "FAULTS_SEED", "GRADER_OPTIONS",
    "GRADER_SERVERS", "LEAN", "LEAN_HEAD", "MATHLIB_COMMIT", "NAME", "OPENAI_API_KEY",
    "OPENAI_LOG", "PYTHON", "PYTHONPATH", "SERVERS", "SERVERS_OPTIONS", "SGLANG_PYTHON",
    "TRAIN_PYTHON", "VLLM_PYTHON",
}  # fmt: skip


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text_of(page), flags=re.S), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_link_is_dead(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def commands(page: Path) -> list[str]:
    """Return the commands in a page's bash blocks and backticks."""
    text = text_of(page)
    blocks = [
        line
        for block in re.findall(r"^ *```bash\n(.*?)^ *```", text, re.M | re.S)
        for line in block.splitlines()
    ]
    inline = re.findall(
        r"`((?:[A-Z_]+=\S+ )*(?:bash scripts/|bash setup|bash benchmarks/)[^`]*)`", text
    )
    return [
        " ".join(line.split()) for line in [*blocks, *inline] if re.search(r"\bbash \S+\.sh", line)
    ]


COMMANDS = sorted({line for page in CHECKED for line in commands(page)})


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_one_that_its_script_takes(line: str) -> None:
    # without the marks of optional words, "…" and alternatives
    plain = re.sub(r"[\[\]]|\s…|\|.*", "", line)
    words = shlex.split(plain, comments=True)
    place = next(place for place, word in enumerate(words) if word.endswith(".sh"))
    script = ROOT / words[place]
    assert script.is_file() and words[place - 1] == "bash"
    set_before = {
        name for name, is_set, _ in (word.partition("=") for word in words[: place - 1]) if is_set
    }
    assert set_before <= {*SETTINGS, *OTHERS, "PROBLEMS"}, set_before
    arguments = words[place + 1 :]
    if (
        script.name in ("run.sh", "plan.sh", "sweep.sh")
        and script.parent.name == "scripts"
        and arguments[:1] not in ([], ["NAME"])
    ):
        found: Any = experiment_file.load(arguments[0])
        given = [word for word in arguments[1:] if re.fullmatch(r"[A-Z_]+=.*[^…]", word)]
        kind = found.planned.constants
        if scaffold := next((word for word in given if word.startswith("SCAFFOLD=")), ""):
            kind = experiment_file.scaffold_named(scaffold.partition("=")[2]).constants
        if script.name == "run.sh" or not any("," in word for word in given):
            constants.read(kind, found.namespace, given)
        else:
            grid.expand(found.planned, found.namespace, given)
    else:
        source = text_of(script)
        for module in re.findall(r"module=([\w.]+)", source):
            source += text_of(ROOT / (module.replace(".", "/") + ".py"))
        if script.parent.name == "scripts" and script.name not in (
            "start_server.sh",
            "test.sh",
        ):  # these two pass unknown options to other programs
            assert all(word in source for word in arguments if word.startswith("--")), arguments


QED = re.search(r"## From QED-Nano.*?(?=\n## )", text_of(ROOT / "docs" / "proofs.md"), re.S)
TRANSLATED = re.findall(r"\b(?:18_proofs|19_answers) [^`#\n]*", QED[0] if QED else "")
ON_SLURM = re.findall(
    r"submit\.sh (18_proofs .*? )GRADER=gemini", text_of(ROOT / "docs" / "engines.md")
)


@pytest.mark.parametrize("command", [*TRANSLATED, *ON_SLURM])
def test_a_command_of_qed_nano_s_evaluation_asks_once_for_each_problem(command: str) -> None:
    words = [word for word in command.split() if not word.startswith("GRADER=")]
    found: Any = experiment_file.load(words[0])
    scaffold = experiment_file.scaffold_named(words[1].removeprefix("SCAFFOLD="))
    config = constants.read(scaffold.constants, found.namespace, words[1:])
    assert scaffold.max_completions(config) * config.RUNS == 1


def test_all_commands_of_qed_nano_s_evaluation_are_checked() -> None:
    assert (len(TRANSLATED), len(ON_SLURM)) == (3, 1)


def test_every_constant_exists() -> None:
    known = {*SETTINGS, *OTHERS}
    for path in experiment_file.paths():
        known |= {*constants.rules(experiment_file.load(path.stem).planned.constants)}
    known |= {*re.findall(r"^\| `(\w+)`", constants_page.page(), re.M)}
    for page in CHECKED:
        assert {*re.findall(r"`([A-Z][A-Z_]*[A-Z]|[A-Z])=", text_of(page))} <= known, page


def test_the_page_of_constants_is_up_to_date() -> None:
    assert text_of(constants_page.PAGE) == constants_page.page(), "python -m scripts.constants_page"


@pytest.mark.parametrize("name", NAMES)
def test_no_private_word(name: str) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "x", text_of(ROOT / name), flags=re.S)
    assert private(prose) == []


def test_sentences_of_the_readme_are_short() -> None:
    assert [
        each for each in sentences(text_of(ROOT / "README.md")) if len(each.split()) > LONGEST
    ] == []
    prose = re.sub(r"```.*?```", "", text_of(ROOT / "README.md"), flags=re.S)
    assert len(prose.split()) < 950


QUESTIONS = (ROOT / "docs" / "where.md").read_text(encoding="utf-8").partition("## The five")[0]
ROWS_OF_WHERE = [
    line.replace("\\_", "_")
    for line in QUESTIONS.splitlines()
    if line.startswith("| ") and ".py" in line
]


@pytest.mark.parametrize("row", ROWS_OF_WHERE, ids=lambda row: row.split("|")[1].strip())
def test_where_names_files_and_names_that_exist(row: str) -> None:
    place = row.split("|")[2]
    sources = [path for name in ("core", "harness", "labs") for path in (ROOT / name).rglob("*.*")]
    texts = []
    for name in re.findall(r"[\w/.-]+\.(?:py|json|sh)\b", place):
        files = [path for path in [*sources, ROOT / name] if path.as_posix().endswith(f"/{name}")]
        assert any(path.is_file() for path in files), f"{name} does not exist"
        texts += [path.read_text(encoding="utf-8") for path in files if path.is_file()]
    for word in re.findall(r"`([A-Za-z_]\w*)`", place):
        assert any(word in text for text in texts), f"no file of the row contains {word}"
