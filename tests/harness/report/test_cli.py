"""scripts/report.sh: text, figures and refusals; logs for inspect_ai; the live server."""

import json
import shutil
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from core.base.errors import UserError
from core.client.journal import Archive
from harness.report import live, page, plot
from harness.report.data import Results
from harness.report.report import main, show
from harness.results import progress
from tests.conftest import python
from tests.helpers import hostile, reports

EVIL_VALUES: list[Any] = [None, 7, [], {}, "\ud83d", -1, 1e400, "x" * 100_000]


@pytest.fixture
def folder(results: Path) -> Path:
    return reports.results(results, problems=3, lost=[1])


@pytest.mark.parametrize(
    ("content", "argv", "named"),
    [
        ("", ["--wrong"], "--wrong"),
        ("", ["02", "--out", "/proc/nowhere/x.html"], "/proc/nowhere"),
        (None, [], "results"),
        (None, ["05_nothing"], "05_nothing"),
        ('{"schema": 1}', ["02"], "02_rsa_basic.json"),
        ("{", ["02"], "02_rsa_basic.json"),
    ],
)
def test_a_wrong_command_is_refused_in_one_line(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    content: str | None,
    argv: list[str],
    named: str,
) -> None:
    path = folder / "02_rsa_basic.json"
    if content is None:
        path.unlink()
    else:
        path.write_text(content or path.read_text())
    assert named in reports.refused(capsys, *argv)


@pytest.mark.parametrize(
    ("reached", "ns"),
    [
        ([3, 2, 1, 3], ["4", "3", "2"]),
        ([2, 2, 1, 0], ["3", "2"]),
        ([1, 1, 0, 0], ["2"]),
        ([3, 0, 3, 3], ["3"] * 3),
    ],
)
def test_a_partial_run_says_over_how_many_problems(
    results: Path, capsys: pytest.CaptureFixture[str], reached: list[int], ns: list[str]
) -> None:
    reports.results(results, problems=4, complete=False, reached=reached)
    main(["--all"])
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    at = next(number for number, words in enumerate(lines) if words[:1] == ["step"])
    assert (
        lines[at][:3] == ["step", "n", "mean"]
        and [line[1] for line in lines[at + 2 :][: len(ns)]] == ns
    )
    assert ("pass@4" in text) == (len(ns) == 1) == (text.count(f"  n={ns[0]}\n") == 4)
    run, words = (
        Results(results / "02_rsa_basic.partial.json"),
        f"n={ns[0]}" + f" to {ns[-1]}" * (ns[-1] != ns[0]),
    )
    plot.plot(run.document, results / "accuracy.svg")
    plot.frontier([run.document] * 2, [[], []], results / "frontier.svg")
    assert words in (results / "accuracy.svg").read_text()
    assert f">02_rsa_basic.partial {words}<" in (results / "frontier.svg").read_text()


def test_figures_are_drawn_of_all_results_alike_each_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(folder / "02_rsa_basic.json", folder / "other.json")
    main(["--figures", str(folder / "drawn")])
    names = ["02_rsa_basic-accuracy", "frontier", "other-accuracy"]
    drawn = sorted((folder / "drawn").iterdir())
    assert [path.name for path in drawn] == [
        f"{name}.{ending}" for name in names for ending in ("png", "svg")
    ]
    frontier, before = drawn[3].read_text(), drawn[1].read_bytes()
    assert (
        ">other<" in frontier
        and ">made-up (other) on made up, n=3<" in frontier
        and b"n=3 problems" not in before
    )
    main(["02_rsa_basic", "--figures", str(folder / "drawn")])
    assert drawn[1].read_bytes() == before


def test_any_value_in_a_results_file_is_shown_or_refused_in_one_line(results: Path) -> None:
    path = reports.results(results, problems=1, T=1) / "02_rsa_basic.json"
    text = path.read_text()
    first = [
        at
        for at in hostile.places(json.loads(text))
        if not any(isinstance(key, int) and key for key in at)
    ]
    for place in first:
        for value in EVIL_VALUES:
            inner = changed = json.loads(text)
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
            path.write_text(json.dumps(changed))
            try:
                run = Results(path)
                page.data([run])
                show([run])
            except UserError as error:
                assert "\n" not in str(error), place


@pytest.mark.parametrize("is_kept", [True, False])
def test_inspect_ai_reads_the_logs_back(folder: Path, tmp_path: Path, is_kept: bool) -> None:
    inspect = pytest.importorskip("inspect_ai.log")
    document = json.loads((folder / "02_rsa_basic.json").read_text())
    member = document["problems"][2]["steps"][1]["members"][2]
    with Archive(folder / "journal") as archive:
        kept = archive.get(member["key"])
    if not is_kept:
        (folder / "journal" / "02_rsa_basic.jsonl").unlink()
    main(["02_rsa_basic", "--inspect", str(tmp_path / "logs")])
    log = inspect.read_eval_log(tmp_path / "logs" / "02_rsa_basic-t1.eval")
    assert log.status == "success" and log.eval.task == "02_rsa_basic_t1"
    assert len(log.samples) == 3 * 4 and {s.epoch for s in log.samples} == {1, 2, 3, 4}
    step = document["metrics"]["steps"][1]
    assert log.results.scores[0].metrics["mean_accuracy"].value == step["mean_accuracy"]["value"]
    assert log.stats.model_usage["made-up"].output_tokens == step["completion_tokens"]
    sample = next(s for s in log.samples if (s.id, s.epoch) == ("p2", 3))
    assert sample.target == "3" and sample.scores["boxed"].value == (
        "C" if member["correct"] else "I"
    )
    assert sample.scores["boxed"].answer == member["answer"]
    reply = sample.output.choices[0].message
    if is_kept:
        assert kept and (reply.text, reply.content[0].reasoning) == (kept.answer, kept.thinking)
        assert "Candidate 2:" in sample.input[0].text
    else:
        assert (
            sample.input[0].text == "How much is 2 + 1? $x^2$"
            and sample.metadata["input"] == "the problem"
        )


def test_the_live_server_is_for_this_machine_alone(folder: Path) -> None:
    client = TestClient(live.application(live.Live([], folder)), base_url="http://127.0.0.1:30200")
    found = client.get("/data")
    assert (
        found.json()["runs"][0]["name"] == "02_rsa_basic"
        and client.get("/part/p0-0-a").json()["0,0"]["answer"]
    )
    for headers, path, status in (
        ({"If-None-Match": found.headers["ETag"]}, "/data", 304),
        ({"Host": "evil.example"}, "/data", 400),
        ({"Host": "evil.example:30200"}, "/", 400),
        ({}, "/part/p0-99-a", 404),
        ({}, "/part/p0-0-x", 404),
        ({}, "/etc/passwd", 404),
    ):
        assert client.get(path, headers=headers).status_code == status
    (folder / "02_rsa_basic.json").write_text("{")
    assert client.get("/data").status_code == 503


@pytest.mark.parametrize("names", [[], ["02_rsa_basic"], ["02"]])
def test_the_progress_of_a_run_is_served_with_and_without_results(
    names: list[str], results: Path
) -> None:
    state = progress.Progress(
        name="02_rsa_basic-seed1",
        done=1,
        total=4,
        unit="completions",
        seconds_left=None,
        speed=None,
        notes=[],
    )
    seeds = results / "02_rsa_basic"
    seeds.mkdir()
    progress.write(state, progress.path_of(seeds, state.name))
    progress.path_of(results, "02_rsa_basic").write_text("{")
    client = TestClient(live.application(live.Live(names, results)), base_url="http://127.0.0.1")
    expected = [{"name": state.name, "text": "25% of 4 completions"}]
    assert client.get("/progress").json() == expected, "a damaged file is no progress"
    assert "25% of 4 completions" in client.get("/").text, "a page without results has it, too"
    reports.results(results, complete=False)
    assert client.get("/data").status_code == 200
    assert client.get("/progress").json() == expected


def test_live_waits_for_the_first_results_of_a_run_and_ends_with_ctrl_c(results: Path) -> None:
    process = python(
        "-m", "harness.report.report", "--live", "--port", "0", RESULTS_DIR=str(results)
    )
    assert process.stdout and process.stderr
    try:
        url = process.stdout.readline().split()[1]
        with pytest.raises(urllib.error.HTTPError) as waiting, urllib.request.urlopen(url):
            pass
        assert waiting.value.headers["Refresh"] and "no results" in waiting.value.read().decode()
        reports.results(results, complete=False)
        with urllib.request.urlopen(url) as answer:
            shown = answer.read().decode()
            assert "02_rsa_basic" in shown and "Content-Security-Policy" in shown
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (0, 130) and "Traceback" not in process.stderr.read()
    finally:
        process.kill()


def test_results_without_texts_keep_every_figure(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["02_rsa_basic"])
    table = capsys.readouterr().out.partition("report ")[0]
    bare = tmp_path / "bare"
    main(["02_rsa_basic", "--without-texts", str(bare)])
    capsys.readouterr()
    path = bare / "02_rsa_basic.json"
    main([str(path)])
    shown = capsys.readouterr().out
    notes_on_texts = [line for line in table.splitlines() if "journal" in line]
    assert set(table.splitlines()) - set(notes_on_texts) <= set(shown.splitlines())
    stored = path.read_text()
    for problem in Results(folder / "02_rsa_basic.json").problems:
        assert problem.statement not in stored
        for step in problem.steps:
            for member in step.members:
                assert member.key not in stored
