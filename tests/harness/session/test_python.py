"""Runs from Python, as in a notebook: results as data, errors as exceptions."""

import asyncio
import doctest
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import prompts
from core.base.errors import UserError
from core.rsa import RSA
from core.types import Ask, Completion, Member, Population, Problem
from harness import run as entry_points
from harness.report.data import load
from harness.run import run, solve, solve_sync
from harness.session.contract import Contract
from tests.conftest import ROOT, ended, environment, python
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import TWO


def test_a_run_gives_its_results_as_data(server: ScriptedServer, results: Path) -> None:
    outcome = solve_sync(RSA, TWO, N=4, K=2, T=1)
    assert outcome.head.complete and outcome.head.config["N"] == 4
    assert [problem.id for problem in outcome.problems] == ["1", "second"]
    assert (
        len(outcome.rows) == 2 * 2 * 4
        and outcome.rows[-1]["problem"] == "second"
        and outcome.rows[-1]["step"] == 1
    )
    member = outcome.problems[1].steps[1].members[2]
    assert (
        outcome.completion(member).text and "What is 2+1?" in outcome.messages(member)[0]["content"]
    )
    asked = len(server.asked)
    assert solve_sync(RSA, TWO, N=4, K=2, T=1).rows == outcome.rows
    assert len(server.asked) == asked, "everything came from the journal"
    assert load("rsa").rows == load(str(outcome.path)).rows == outcome.rows and json.dumps(
        outcome.rows
    )


@pytest.mark.parametrize(
    ("problems", "constants", "words"),
    [
        (TWO, {"K": 9}, "K=9"),
        (TWO, {"n": 4}, "N=4"),
        ([{"problem": "?"}], {}, "problem 1"),
        ([], {}, "the list"),
        ("nowhere.json", {}, "nowhere.json"),
    ],
)
def test_a_wrong_argument_raises_an_error_before_any_request(
    server: ScriptedServer, results: Path, problems: Any, constants: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        solve_sync(RSA, problems, **constants)
    assert not server.asked


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"N": 2, "K": 5}, 'help("core.rsa.RsaConstants")'),
        ({"NN": 2}, 'help("core.rsa.RsaConstants")'),
        ({"MODEL": "x"}, "model=…"),
    ],
)
def test_messages_name_what_a_python_user_can_type(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as raised:
        solve_sync(RSA, [{"problem": "1+1?", "answer": 2}], **given)
    assert words in str(raised.value) and "--help" not in str(raised.value)


ONE, OTHER = Completion("1" * 32, 0), Completion("2" * 32, 0)


@pytest.mark.parametrize(
    ("breach", "named"),
    [
        (lambda kept: [kept.got(ONE, names) for names in (("0", 0), (0, 0))], "(0, 0)"),
        (lambda kept: kept.ended(), "at least"),
        (lambda kept: kept.yielded([]), "without members"),
        (
            lambda kept: (
                kept.got(ONE, (0,)),
                kept.got(OTHER, (1,)),
                kept.yielded([Member(ONE)]),
                kept.ended(),
            ),
            "1 of them",
        ),
        (
            lambda kept: (kept.yielded([Member(ONE)]), kept.yielded([Member(ONE, [1])])),
            "parents=[1]",
        ),
        (lambda kept: [kept.got(ONE, (i,)) for i in range(3)], "(2)"),
    ],
)
def test_a_breach_of_a_scaffolds_contract_is_refused(
    breach: Callable[[Contract], Any], named: str
) -> None:
    with pytest.raises(UserError, match=rf"mine .*{re.escape(named)}"):
        breach(Contract("mine", 2))


def test_a_bug_of_a_scaffold_is_raised_and_partial_results_are_saved(
    server: ScriptedServer, results: Path
) -> None:
    async def broken(problem: Problem, ask: Ask, config: Any) -> AsyncIterator[Population]:
        yield [Member(await ask(prompts.solve(problem), 0, 0))]
        raise IndexError("mine")

    with pytest.raises(IndexError) as error:
        solve_sync(replace(RSA, run=broken), TWO, name="broken")
    assert str(results / "broken.partial.json") in error.value.__notes__[0]
    saved = json.loads((results / "broken.partial.json").read_text())
    assert saved["problems"][0]["steps"], "a step was there"


def test_solve_sync_is_refused_where_a_loop_runs(results: Path) -> None:
    async def notebook() -> None:
        solve_sync(RSA, TWO)

    with pytest.raises(UserError, match="solve_sync"):
        asyncio.run(notebook())


def test_model_and_base_url_choose_the_server_of_one_call(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("MODEL", raising=False)
    one, other = ScriptedServer(), ScriptedServer()

    async def notebook() -> None:
        sizes: dict[str, Any] = {"N": 2, "K": 1, "T": 0}
        calls = []
        for server in (one, other):
            place: dict[str, Any] = {
                "name": f"at{server.port}",
                "base_url": server.url,
                "model": "scripted",
            }
            calls.append(solve(RSA, TWO, **place, **sizes))
        await asyncio.gather(*calls)

    with closing(one), closing(other):
        asyncio.run(notebook())
    assert len(one.asked) == len(other.asked) == 4
    assert os.environ["BASE_URL"] == "http://127.0.0.1:9" and "MODEL" not in os.environ


@pytest.mark.parametrize("function", [solve, run])
def test_the_example_of_a_docstring_runs(
    function: Callable[..., Any],
    server: ScriptedServer,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["mine.py"])
    (example,) = doctest.DocTestFinder().find(function, globs=vars(entry_points).copy())
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example) == (
        0,
        len(example.examples),
    )


def test_the_example_of_the_manual_runs_as_it_stands(
    server: ScriptedServer, tmp_path: Path
) -> None:
    manual = (ROOT / "docs" / "python.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", manual, re.DOTALL))
    program = (
        f"async def main():\n{re.sub('^', '    ', code, flags=re.MULTILINE)}\nimport "
        "asyncio\nasyncio.run(main())"
    )
    (tmp_path / "manual.py").write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{program}")
    process = python(str(tmp_path / "manual.py"), BASE_URL=server.url, RESULTS_DIR=str(tmp_path))
    status, out, err = ended(process)
    assert status == 0 and "rsa: scripted (llama.cpp) on given, n=2" in out, err


@pytest.mark.skipif(
    not (ROOT / "labs").exists(), reason="pyproject.toml puts the labs into a wheel too"
)
def test_a_wheel_holds_all_that_a_run_needs(tmp_path: Path) -> None:
    """The checkout is not on the path of the installed wheel."""
    copy = tmp_path / "checkout"  # because a build leaves files, which the next wheel would contain
    copy.mkdir()
    for name in ("core", "harness", "labs", "data", "pyproject.toml", "README.md", "LICENSE"):
        copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copied(ROOT / name, copy / name)
    # as pip asks, whose start takes longer
    make = "from setuptools.build_meta import build_wheel; build_wheel('..')"
    subprocess.run([sys.executable, "-c", make], check=True, cwd=copy, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    program = """
from harness.run import solve_sync
from core.rsa import RSA
outcome = solve_sync(RSA, "sums", LIMIT=1, N=2, K=2, T=1, MAX_TOKENS=300)
import core, json
print(json.dumps([core.__file__, str(outcome.path), outcome.head.model["embedded"], \
len(outcome.rows)]))
from harness.report import report as cli
cli.main(["rsa"])
"""
    env = environment(PYTHONPATH=str(tmp_path / "installed"), RESULTS_DIR="results")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=env
    )
    assert done.returncode == 0, done.stderr
    where, path, is_embedded, members = json.loads(
        next(line for line in done.stdout.splitlines() if line[0] == "[")
    )
    assert (
        where.startswith(str(tmp_path))
        and path == "results/rsa.json"
        and is_embedded
        and members == 4
    )
    assert (tmp_path / "results" / "rsa.html").stat().st_size > 100_000
