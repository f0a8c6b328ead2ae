"""The value head: its regression, its choices, and the command on the embedded model's own
samples."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.base.errors import UserError
from core.base.files import ROOT
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from labs.training import value
from labs.training.value import FOLDS, Group
from tests.helpers.runs import answer_texts, load


def group(number: int, right: list[float], verdicts: list[float | None] | None = None) -> Group:
    return Group(
        f"problem {number}",
        ["text"] * len(right),
        right,
        verdicts or [None] * len(right),
        10,
        10,
        right[0],
    )


def test_the_head_learns_what_a_vector_tells_and_nothing_from_noise() -> None:
    rng = np.random.default_rng(0)
    groups = [group(i, list(rng.integers(0, 2, 6).astype(float))) for i in range(100)]
    right = np.array([each for one in groups for each in one.right])
    noise = rng.normal(size=(600, 8)).astype(np.float32)
    signal = noise.copy()
    signal[:, 3] += 1.5 * right
    learned, other = (value.values_of(groups, vectors) for vectors in (signal, noise))
    found = value.auc(groups, learned)
    assert found.low > 0.7 and found.n > 90
    assert value.auc(groups, other).low < 0.5 < value.auc(groups, other).high
    assert len({one.fold for one in groups}) == FOLDS


def test_values_of_a_problem_do_not_depend_on_its_own_grades() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(120, 4)).astype(np.float32)
    groups = [group(i, [1.0, 0.0, float(i % 2)]) for i in range(40)]
    changed = [group(0, [0.0, 1.0, 1.0]), *groups[1:]]
    assert value.values_of(groups, vectors)[0] == value.values_of(changed, vectors)[0]


def test_a_sample_without_a_text_has_no_value() -> None:
    rng = np.random.default_rng(2)
    groups = [group(i, [1.0, 0.0, float(i % 2)]) for i in range(40)]
    vectors = rng.normal(size=(119, 4)).astype(np.float32)
    groups[5] = replace(groups[5], texts=["text", "", "text"])
    values = value.values_of(groups, vectors)
    assert [len(own) for own in values] == [3] * 40
    missing = [(i, k) for i, own in enumerate(values) for k in range(3) if own[k] is None]
    assert missing == [(5, 1)]
    assert value.auc(groups, values).n == 39 and not groups[5].is_mixed


def test_ways_to_choose_cost_tokens_and_ties_are_shared() -> None:
    one = group(0, [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, None])
    found = value.ways([one], [[0.1, 0.2, 0.9, 0.9]])
    accuracies = {way: (tokens, accuracy) for way, (tokens, (accuracy,)) in found.items()}
    assert accuracies["one sample"] == (10, 0.5) and accuracies[value.VOTE] == (40, 0.0)
    assert accuracies["best of 4 by value"] == (40, 1.0)
    assert accuracies["best of 2 by own verdict"] == (40, 0.0), (
        "a verdict costs as much as a sample"
    )
    assert accuracies["any of 4 is right"] == (40, 1.0)


def test_the_command_reads_a_runs_samples(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = str(ROOT / "data" / "sums_card.json")
    solve_sync(
        BEST_OF,
        problems,
        name="samples",
        LIMIT=8,
        N=3,
        SCORE="p_true",
        MAX_TOKENS=160,
        TEMPERATURE=1.0,
    )
    path = results / "samples.json"
    with pytest.raises(UserError):
        value.groups_of(path)
    monkeypatch.setattr(value, "FEWEST", 1)
    value.main([str(path)])
    out = capsys.readouterr().out
    assert "best of 3 by value" in out and "by own verdict" in out and "AUC of own verdicts" in out

    _, groups = value.groups_of(path)
    answers = answer_texts(results, "samples")
    for problem, samples in zip(load(results, "samples")["problems"], groups, strict=True):
        keys = [member["key"] for member in problem["steps"][1]["members"]]
        texts = [f"{problem['statement']}\n\n{answers[key].strip()}" for key in keys]
        assert samples.texts == texts, "the thinking is not read"


def test_an_existing_file_is_not_replaced(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (results / "samples.json").write_text("{}")
    out = results / "head.json"
    out.write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        value.main(["samples", "--out", str(out)])
    assert out.read_text() == "mine" and str(out) in capsys.readouterr().err
