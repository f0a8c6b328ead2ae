"""scripts/report.sh: what it prints, draws and refuses; logs for inspect_ai; the live server."""

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.generate.journal import Archive
from core.report import page
from core.report.report import main
from core.results import read
from tests.conftest import python
from tests.helpers import reports

EVIL_VALUES: list[Any] = [None, 7, [], {}, "\ud83d", -1, 1e400, "x" * 100_000]


@pytest.fixture
def folder(results: Path) -> Path:
    return reports.results(results, problems=3, lost=[1])


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(argv)
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, "") and err.count("\n") == 1 and err.startswith("error: ")
    return err


def test_what_is_wrong_with_a_command_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unrecognized arguments: --wrong. For help: bash scripts/report.sh --help" in refused(capsys, "--wrong")
    said = refused(capsys, "02", "--out", "/proc/nowhere/x.html")
    assert "/proc/nowhere" in said


def test_tables_and_page_of_all_results(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    out = capsys.readouterr().out
    assert "mean accuracy" in out and "lost" not in out and "wrong at the end: 1 problems" in out
    assert (folder / "02_rsa_basic.html").stat().st_size < page.PAGE_BYTES and "02_rsa_basic.html" in out


def test_partial_results_count_where_there_are_no_others(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports.results(results, complete=False)
    main([])
    assert "partial run" in capsys.readouterr().out


def heads_and_ns(text: str) -> tuple[list[str], list[str]]:
    """The head of a run's table, and the second column of its rows."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["t"])
    rows = [line.split() for line in lines[at + 2 :]]
    return lines[at].split(), [row[1] for row in rows[: next(i for i, row in enumerate([*rows, []]) if not row)]]


@pytest.mark.parametrize(
    ("reached", "ns"),
    [([3, 2, 1, 3], ["4", "3", "2"]), ([2, 2, 1, 0], ["3", "2"]), ([1, 1, 0, 0], ["2"]), ([3, 0, 3, 3], ["3"] * 3)],
)
def test_a_partial_run_says_over_how_many_problems(
    results: Path, capsys: pytest.CaptureFixture[str], reached: list[int], ns: list[str]
) -> None:
    reports.results(results, problems=4, complete=False, reached=reached)
    main([])
    text = capsys.readouterr().out
    heads, found = heads_and_ns(text)
    assert heads[:3] == ["t", "n", "mean"] and found == ns
    assert ("pass@4" in text) == (len(ns) == 1) == (text.count(f"  n={ns[0]}\n") == 4)
    main(["--figures"])
    main(["02_rsa_basic.partial", "02_rsa_basic.partial", "--figures"])
    said = f"n={ns[0]}" + (f" to {ns[-1]}" if ns[-1] != ns[0] else "")
    caption = (results / "figures" / "02_rsa_basic.partial-accuracy.svg").read_text()
    assert f"accuracies over {said} problems" in caption and "partial run" in caption
    assert f">02_rsa_basic.partial {said}<" in (results / "figures" / "frontier.svg").read_text()


def test_a_whole_run_has_no_column_that_says_one_thing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports.results(results, problems=4)
    main([])
    assert heads_and_ns(capsys.readouterr().out)[0][:3] == ["t", "mean", "accuracy"]
    main(["--figures"])
    assert "accuracies over" not in (results / "figures" / "02_rsa_basic-accuracy.svg").read_text()


def test_results_of_one_step_without_a_size_are_told_by_pass_at_k(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = reports.results(results, T=0) / "02_rsa_basic.json"
    document = json.loads(path.read_text())
    for name in ("N", "K", "T"):
        del document["config"][name]
    path.write_text(json.dumps(document))
    main([])
    out = capsys.readouterr().out
    assert "pass@4  " in out and "at the end" not in out
    main(["--figures"])
    assert (results / "figures" / "02_rsa_basic-accuracy.png").exists()


def test_results_of_one_experiment_are_told_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(folder / "02_rsa_basic.json", folder / "other.json")
    main([])
    out = capsys.readouterr().out
    assert "\nother: made-up" in out and out.startswith("02_rsa_basic: made-up")
    main(["--figures"])
    svg = (folder / "figures" / "frontier.svg").read_text()
    assert ">other<" in svg and ">made-up (other) on made up, n=3<" in svg


def test_what_is_not_there_or_no_results_is_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no results in" in refused(capsys)
    assert "no results at" in refused(capsys, "05_nothing")
    (results / "02_rsa_basic.json").write_text('{"schema": 1}')
    assert "not a results file" in refused(capsys, "02_rsa_basic")
    (results / "02_rsa_basic.json").write_text("{")
    assert "02_rsa_basic.json" in refused(capsys, "02_rsa_basic")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a JSON value, of lists the first item only."""
    items = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))[:1]
        if isinstance(value, list)
        else []
    )
    return [path, *(found for key, item in items for found in places(item, (*path, key)))] if path or items else [path]


def test_any_value_in_a_results_file_is_read_or_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "02_rsa_basic.json"
    whole = json.loads(path.read_text())
    for place in places(whole):
        for value in EVIL_VALUES:
            changed = json.loads(json.dumps(whole))
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            if place:
                inner[place[-1]] = value
            path.write_text(json.dumps(changed))
            try:
                list(read.read(path)[1])  # what it refuses, the command refuses
                main(["02_rsa_basic", "--out", str(folder / "page.html")])
            except UserError as error:
                assert "\n" not in str(error), place
            except SystemExit as exit_:
                assert exit_.code == 2
            err = capsys.readouterr().err
            assert err.count("\n") <= 1 and "Traceback" not in err, place


def test_a_journal_that_is_gone_leaves_the_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "journal" / "02_rsa_basic.jsonl").unlink()
    main(["02_rsa_basic"])
    assert "36 completions of 02_rsa_basic are in no journal" in capsys.readouterr().out


def test_figures_are_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--figures", str(folder / "drawn")])
    names = sorted(path.name for path in (folder / "drawn").iterdir())
    assert names == [f"02_rsa_basic-{kind}.{ending}" for kind in ("accuracy", "map") for ending in ("png", "svg")]
    svg = (folder / "drawn" / "02_rsa_basic-map.svg").read_bytes()
    main(["--figures", str(folder / "drawn")])
    assert (folder / "drawn" / "02_rsa_basic-map.svg").read_bytes() == svg, "the same results, the same file"


def test_the_map_of_many_problems_fits_a_page(results: Path) -> None:
    reports.results(results, problems=250, N=2, T=1)
    main(["--figures"])
    png = (results / "figures" / "02_rsa_basic-map.png").read_bytes()
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert height < 1.5 * width


def test_a_log_does_not_make_up_prompts(folder: Path, tmp_path: Path) -> None:
    inspect = pytest.importorskip("inspect_ai.log")
    (folder / "journal" / "02_rsa_basic.jsonl").unlink()
    main(["02_rsa_basic", "--inspect", str(tmp_path / "logs")])
    sample = inspect.read_eval_log(tmp_path / "logs" / "02_rsa_basic-t1.eval").samples[0]
    assert sample.input[0].text == "How much is 0 + 1? $x^2$" and sample.metadata["input"] == "the problem"


def test_inspect_ai_reads_the_logs_back(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspect = pytest.importorskip("inspect_ai.log")
    main(["02_rsa_basic", "--inspect", str(tmp_path / "logs")])
    assert "inspect view" in capsys.readouterr().out
    document = json.loads((folder / "02_rsa_basic.json").read_text())
    for t in range(3):
        log = inspect.read_eval_log(tmp_path / "logs" / f"02_rsa_basic-t{t}.eval")
        assert log.status == "success" and log.eval.task == f"02_rsa_basic_t{t}"
        assert len(log.samples) == 3 * 4 and {s.epoch for s in log.samples} == {1, 2, 3, 4}
        told = log.results.scores[0].metrics["mean_accuracy"].value
        assert told == document["metrics"]["steps"][t]["mean_accuracy"]["value"]
        spent = document["metrics"]["steps"][t]["completion_tokens"]
        assert log.stats.model_usage["made-up"].output_tokens == spent
        sample = next(s for s in log.samples if (s.id, s.epoch) == ("p2", 3))
        member = document["problems"][2]["steps"][t]["members"][2]
        with Archive(folder / "journal") as archive:
            kept = archive.get(member["key"])
        assert kept is not None
        assert sample.output.choices[0].message.text == kept["answer"] and sample.target == "3"
        assert sample.output.choices[0].message.content[0].reasoning == kept["thinking"]
        assert sample.scores["boxed"].value == ("C" if member["correct"] else "I")
        assert sample.scores["boxed"].answer == member["answer"]
        if t:
            assert "Candidate 2:" in sample.input[0].text


def test_the_live_server_is_for_this_machine_alone(folder: Path) -> None:
    from core.report import live

    watched = live.Live([], folder)
    with reports.served(lambda port: live.application(watched, port)) as port:
        base = f"http://127.0.0.1:{port}"
        with urllib.request.urlopen(f"{base}/data") as answer:
            tag, told = answer.headers["ETag"], json.load(answer)
        assert told["runs"][0]["name"] == "02_rsa_basic"
        for headers, path, status in (
            ({"If-None-Match": tag}, "/data", 304),
            ({"Host": "evil.example"}, "/data", 403),
            ({}, "/part/p0-99-a", 404),
            ({}, "/part/p0-0-x", 404),
            ({}, "/etc/passwd", 404),
        ):
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(urllib.request.Request(base + path, headers=headers))
            assert error.value.code == status
        with urllib.request.urlopen(f"{base}/part/p0-0-a") as answer:
            assert json.load(answer)["0,0"]["answer"]
        (folder / "02_rsa_basic.json").write_text("{")
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(f"{base}/data")
        assert error.value.code == 503


def test_live_waits_for_the_first_results_of_a_run(results: Path) -> None:
    process = python("-m", "core.report.report", "--live", "--port", "0", RESULTS_DIR=str(results))
    assert process.stdout
    try:
        line = process.stdout.readline()
        assert line.startswith("report  http://127.0.0.1:")
        assert process.stdout.readline().startswith("there are no results yet")
        with urllib.request.urlopen(line.split()[1]) as answer:
            assert "Waiting for the first results" in answer.read().decode()
        reports.results(results, complete=False)
        with urllib.request.urlopen(line.split()[1]) as answer:
            assert "02_rsa_basic" in answer.read().decode()
    finally:
        process.kill()


def test_live_says_where_it_listens_and_ends_with_ctrl_c(folder: Path) -> None:
    import signal

    process = python("-m", "core.report.report", "--live", "--port", "0", RESULTS_DIR=str(folder))
    assert process.stdout and process.stderr
    try:
        line = process.stdout.readline()
        assert line.startswith("report  http://127.0.0.1:")
        with urllib.request.urlopen(line.split()[1]) as answer:
            assert "Content-Security-Policy" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (0, 130) and "Traceback" not in process.stderr.read()
    finally:
        process.kill()


def test_an_archive_reads_what_is_written_while_it_is_open(folder: Path) -> None:
    from core.generate.journal import Journal

    key = "ab" * 16
    with Archive(folder / "journal") as archive, Journal(folder / "journal" / "02_rsa_basic.jsonl") as journal:
        assert archive.get(key) is None
        journal.put(key, {"text": "x"}, [])
        archive.refresh()
        assert archive.get(key) == {"text": "x"}


def test_eighteen_results_are_told_apart_in_a_figure() -> None:
    from core.report import plot

    assert len({plot._style(n) for n in range(18)}) == 18
