"""Compare a new run of a case, or a run resumed from stored journals, with the golden files."""

import difflib
import re
from collections.abc import Set
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.golden.cases import Case
from tests.golden.normal import is_alike
from tests.golden.running import Texts, golden, journal_keys, run_case, unpack

SPENT = re.compile(r'"spent": |spent, including failed requests')  # a resumed run spends nothing
COMMAND = "PYTHONPATH=. .venv/bin/python -m tests.golden"
# not compared if a grader or Lean would have been asked
UNRESUMED = (".html.txt", ".ledger.txt", "names.txt")
# Cases that the default suite runs on a stored journal. It runs those of STORED only so, and those
# of LONG not at all.
STORED = {"03_rsa_verify", "04_rsa_adaptive", "05_rsa_qed", "06_deepseek_math", "07_nomos", (
    "08_reasoning_cache"
),
          "09_selfcheck", "10_static_math_agent", "11_math_agent", "12_majority", "13_best_of",
          "14_refinement", "15_compute_matched", "16_rsa_paper", "18_proofs", "19_answers", (
              "02_carry_full"
          ), (
              "02_runs"
          ),
          "18_deepseek_math", "19_nomos", "compare", "jsonl", "20_grader", "21_star", (
              "23_lean_baseline"
          ),
          "01_cut", "03_p_true", "17_waits", "27_race"}  # fmt: skip
SHORT = STORED | {"20_people", "grade_lines", "schemes"}
LONG = {"01_baseline", "22_star_controls", "24_lean_iteration", "25_lean_all"}
FAULTS = pytest.mark.faults
LINES = 40  # of a difference, shown


def parameters(cases: list[Case], *if_it_trains: pytest.MarkDecorator) -> list[ParameterSet]:
    """Return the cases as parameters of a test, with the marks `if_it_trains` if a case trains."""
    return [_parameter(case, case.name in STORED | LONG, *if_it_trains) for case in cases]


def _parameter(case: Case, is_long: bool, *if_it_trains: pytest.MarkDecorator) -> ParameterSet:
    return pytest.param(
        case, id=case.name, marks=(*(if_it_trains if case.trains else ()), *[FAULTS][:is_long])
    )


def resumed(
    cases: list[Case], *if_it_trains: pytest.MarkDecorator, short: Set[str] = SHORT
) -> list[ParameterSet]:
    """The cases that run on stored journals. The others than `short` belong to the long suite."""
    return [_parameter(case, case.name not in short, *if_it_trains) for case in cases]


def compare(case: Case, found: Texts, is_resumed: bool = False) -> None:
    """Fail with a short difference if the texts of a case differ from its golden ones."""
    kept = golden(case)
    assert kept, f"{case.name} has no golden files. Write them: {COMMAND} {case.name}"
    shown: list[str] = []
    left_out = (
        UNRESUMED
        if is_resumed and (case.lean or case.server not in ("embedded", "scripted"))
        else ()
    )
    compared = {name for name in (*kept, *found) if not name.endswith(left_out)}
    # first what a failed command printed
    for name in sorted(compared, key=lambda name: (name != "stdout.txt", name)):
        one, other = (texts.get(name, "").splitlines() for texts in (kept, found))
        if is_resumed:
            one, other = (
                [line for line in lines if not SPENT.search(line)] for lines in (one, other)
            )
        if len(one) == len(other):
            other = [a if is_alike(a, b) else b for a, b in zip(one, other, strict=True)]
        shown += difflib.unified_diff(one, other, f"golden/{name}", f"now/{name}", lineterm="", n=1)
    if shown:
        more = len(shown) - LINES
        lines = [line[:400] for line in shown[:LINES]] + (
            [f"… {more} more lines"] if more > 0 else []
        )
        pytest.fail("\n".join([*lines, f"If this is meant: {COMMAND} {case.name}"]), pytrace=False)


def check(case: Case, folder: Path) -> None:
    """Run a case and compare everything."""
    compare(case, run_case(case, folder).texts)


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
    if not records:
        compare(case, ran.texts, is_resumed=True)
    assert "\nstatus " not in ran.texts["stdout.txt"], ran.texts["stdout.txt"]
