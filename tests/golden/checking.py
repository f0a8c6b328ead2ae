"""Compare a new run of a case, or a run resumed from stored journals, with the golden files."""

import difflib
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.golden.cases import Case
from tests.golden.normal import is_alike
from tests.golden.running import Ran, golden, journal_keys, pinned, run_case, unpack

SPENT = re.compile(r'"spent": |spent, including failed requests')  # a resumed run spends nothing
COMMAND = "PYTHONPATH=. .venv/bin/python -m tests.golden"
# not compared if a grader or Lean would have been asked
UNRESUMED = (".html.txt", ".ledger.txt", "names.txt")
# Cases that the default suite runs on a stored journal. It runs those of STORED only so, and those
# of LONG not at all.
STORED = {
    "01_cut",
    "02_carry_full",
    "02_runs",
    "03_p_true",
    "03_rsa_verify",
    "04_rsa_adaptive",
    "05_rsa_qed",
    "06_deepseek_math",
    "07_nomos",
    "08_reasoning_cache",
    "09_selfcheck",
    "10_static_math_agent",
    "11_math_agent",
    "12_majority",
    "13_best_of",
    "14_refinement",
    "15_compute_matched",
    "16_rsa_paper",
    "17_waits",
    "18_deepseek_math",
    "18_proofs",
    "19_answers",
    "19_nomos",
    "20_grader",
    "21_star",
    "23_lean_baseline",
    "27_race",
    "29_learn_to_aggregate",
    "compare",
    "jsonl",
}
SHORT = STORED | {"20_people", "grade_lines", "schemes"}
LONG = {"01_baseline", "22_star_controls", "24_lean_iteration", "25_lean_all"}
LINES = 40  # of a difference, shown
STDOUT = "stdout.txt"


def parameters(cases: list[Case], *if_it_trains: pytest.MarkDecorator) -> list[ParameterSet]:
    """Return the cases as parameters of a test, with the marks `if_it_trains` if a case trains."""
    return [_parameter(case, case.name in STORED | LONG, if_it_trains) for case in cases]


def resumed(
    cases: list[Case], *if_it_trains: pytest.MarkDecorator, short: Set[str] = SHORT
) -> list[ParameterSet]:
    """Return the cases that run on stored journals. Cases that are not in `short` belong to the
    long suite."""
    return [_parameter(case, case.name not in short, if_it_trains) for case in cases]


def _parameter(
    case: Case, is_long: bool, if_it_trains: Sequence[pytest.MarkDecorator]
) -> ParameterSet:
    marks: list[pytest.MarkDecorator] = []
    if case.trains:
        marks += if_it_trains
    if is_long:
        marks.append(pytest.mark.faults)
    return pytest.param(case, id=case.name, marks=marks)


def compare(case: Case, ran: Ran, is_resumed: bool = False) -> None:
    """Fail with a short difference if a command of a case failed, or if the texts of the case
    differ from its golden ones."""
    assert "\nstatus " not in ran.texts[STDOUT], ran.texts[STDOUT]
    expected = golden(case)
    assert expected, f"{case.name} has no golden files. Write them: {COMMAND} {case.name}"
    found = pinned(case, ran.texts)
    names = {*expected, *found}
    if is_resumed and (case.lean or case.server not in ("embedded", "scripted")):
        names = {name for name in names if not name.endswith(UNRESUMED)}
    difference: list[str] = []
    for name in sorted(names):
        before = expected.get(name, "").splitlines()
        after = found.get(name, "").splitlines()
        difference += _difference(name, before, after, is_resumed)
    if difference:
        lines = [line[:400] for line in difference[:LINES]]
        if len(difference) > LINES:
            lines.append(f"… {len(difference) - LINES} more lines")
        lines.append(f"If this is meant: {COMMAND} {case.name}")
        pytest.fail("\n".join(lines), pytrace=False)


def _difference(name: str, before: list[str], after: list[str], is_resumed: bool) -> Iterator[str]:
    if is_resumed:
        before = [line for line in before if not SPENT.search(line)]
        after = [line for line in after if not SPENT.search(line)]
    if len(before) == len(after):
        # the last digits of a figure are no difference
        for number, line in enumerate(before):
            if is_alike(line, after[number]):
                after[number] = line
    return difflib.unified_diff(before, after, f"golden/{name}", f"now/{name}", lineterm="", n=1)


def check(case: Case, folder: Path) -> None:
    """Run a case and compare everything."""
    compare(case, run_case(case, folder))


def check_resumed(case: Case, folder: Path, records: bool) -> None:
    """Run a case on the stored journals, and check that it sends no request and ends with equal
    results.

    With `records`, the records of its rounds or searches are stored, too. They lack newer fields,
    so the results are not compared.
    """
    results = folder / "results"
    unpack(case, results, lambda name: records or name.startswith("journal/"))
    before = journal_keys(results, case.trains)
    ran = run_case(case, folder)
    assert ran.requests == 0, (
        f"{case.name}: {ran.requests} new requests on a journal that has everything"
    )
    after = journal_keys(results, case.trains)
    new = {name: sorted(set(keys) - set(before.get(name, []))) for name, keys in after.items()}
    assert after == before and any(before.values()), (
        f"{case.name}: new completions on a complete journal: {new}"
    )
    if records:
        assert "\nstatus " not in ran.texts[STDOUT], ran.texts[STDOUT]
    else:
        compare(case, ran, is_resumed=True)
