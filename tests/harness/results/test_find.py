"""Results files by name."""

from pathlib import Path

import pytest

from harness.results.find import NoResults, comparison, path_of, results_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write results, and comparisons whose names begin alike."""
    for name in (
        "12_majority.json",
        "02_rsa_basic.json",
        "02_rsa_basic.partial.json",
        "07_nomos.partial.json",
    ):
        (tmp_path / name).write_text("{}")
    for name, runs in (
        ("12_majority_long", ["rsa-seed1", "majority-seed1"]),
        ("15_compute_matched", ["rsa-seed1"]),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.txt").write_text("majority 50.0\nrsa 60.0\n")
        for run in runs:
            (tmp_path / name / f"{run}.json").write_text("{}")
    (tmp_path / "15_notes").mkdir()  # no comparison: it has no table
    return tmp_path


def relative(paths: list[Path], folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in paths]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("12_majority", ["12_majority.json"]),  # a whole name, though a comparison begins so
        (
            "12_majority_l",
            ["12_majority_long/majority-seed1.json", "12_majority_long/rsa-seed1.json"],
        ),
        ("02", ["02_rsa_basic.json"]),
        ("07", ["07_nomos.partial.json"]),
        ("15", ["15_compute_matched/rsa-seed1.json"]),
        ("15_compute_matched/rsa-seed1", ["15_compute_matched/rsa-seed1.json"]),
    ],
)
def test_a_name_or_its_beginning_finds_results(folder: Path, name: str, files: list[str]) -> None:
    assert relative(results_files([name], folder), folder) == files
    is_comparison = len(Path(files[0]).parts) > 1 and "/" not in name
    assert comparison([name], folder) == (
        folder / Path(files[0]).parts[0] if is_comparison else None
    )


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("1", ": 12_majority, 12_majority_long, 15_compute_matched. "),
        ("0", ": 02_rsa_basic, 07_nomos. "),
        ("", "It has 02_rsa_basic, 07_nomos, 12_majority, 12_majority_long, 15_compute_matched. "),
        ("x", "It has 02_rsa_basic, 07_nomos, "),
        ("15_n", "12_majority_long, 15_compute_matched. "),
        ("02_rsa_basics", "Did you mean 02_rsa_basic"),
        ("02_rsa_basic.partial.json/x", "12_majority_long, 15_compute_matched. "),
    ],
)
def test_a_beginning_of_several_names_or_of_none_finds_nothing(
    folder: Path, name: str, listed: str
) -> None:
    for looked_for in (lambda: results_files([name], folder), lambda: comparison([name], folder)):
        with pytest.raises(NoResults) as error:
            looked_for()
        assert listed in str(error.value)


def test_a_comparison_without_a_table_yet_is_found(folder: Path) -> None:
    running = folder / "27_race"
    running.mkdir()
    (running / "rsa-seed0.partial.json").write_text("{}")
    (running / "majority-seed0.json").write_text("{}")
    assert relative(results_files(["27"], folder), folder) == [
        "27_race/majority-seed0.json",
        "27_race/rsa-seed0.partial.json",
    ]
    assert comparison(["27"], folder) is None


def test_an_empty_folder_has_no_name_to_suggest(tmp_path: Path) -> None:
    with pytest.raises(NoResults, match="Run an experiment first"):
        path_of("02", tmp_path)


def test_a_single_file_is_never_a_comparison(folder: Path) -> None:
    assert path_of("12", folder) == folder / "12_majority.json"
    with pytest.raises(NoResults):
        path_of("15", folder)


def test_without_names_all_results_are_found_partial_ones_only_without_others(folder: Path) -> None:
    assert relative(results_files([], folder), folder) == [
        "02_rsa_basic.json",
        "07_nomos.partial.json",
        "12_majority.json",
    ]
    assert comparison([], folder) is None
    with pytest.raises(NoResults):
        results_files([], folder / "nothing")
