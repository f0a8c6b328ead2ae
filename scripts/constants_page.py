"""Write docs/constants.md from the constants of experiments and commands: python -m
scripts.constants_page."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from core.base.files import ROOT
from core.constants import ConstantGroup, Constants, Rule, rules
from harness import experiment_file
from labs.proofs.curate.tool import CurateConstants
from labs.proofs.grade.cli import GradeConstants
from labs.star.cli import FormConstants
from labs.star.constants import StarConstants

PAGE = ROOT / "docs" / "constants.md"
LIKE = {
    "22_star_controls": "21_star",
    "29_learn_to_aggregate": "22_star_controls",
    "24_lean_iteration": "23_lean_baseline",
    "25_lean_all": "24_lean_iteration",
    "26_lean_energy": "23_lean_baseline",
}
HEAD = """# Constants

Set constants at the top of an experiment's file, or for one run: `bash scripts/run.sh \
02_rsa_basic N=16`. The server
counts tokens. Seconds are wall-clock time. `python -m scripts.constants_page` generates this page.
"""

Row = tuple[Any, Rule]


def settings(kind: type[ConstantGroup], namespace: dict[str, Any]) -> dict[str, Row]:
    """Return the value and the rule of each constant. Constants that `namespace` does not set have
    their defaults."""
    values = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    values |= namespace
    return {name: (values.get(name), rule) for name, rule in rules(kind).items()}


def table(rows: dict[str, Row]) -> str:
    """Format constants as the rows of a Markdown table."""
    lines = ["| constant | value | range | meaning |", "|---|---|---|---|"]
    for name, (value, rule) in rows.items():
        row = f"| `{name}` | `{value}` | {_range(rule)} | {rule.help} |"
        lines.append(row.replace("``", '`""`'))
    return "\n".join(lines)


def _range(rule: Rule) -> str:
    if len(rule.choices) > 10:
        return "a scaffold or its experiment"
    if rule.choices:
        return " ".join(f"`{choice}`" for choice in rule.choices)
    if rule.span() == "text":
        return ""
    return rule.span()


def section(name: str, rows: dict[str, Row], base: dict[str, Row], like: str) -> str:
    """Format an experiment's section: the constants that differ from the section `like`, and the
    ones that it lacks."""
    changed = {constant: row for constant, row in rows.items() if base.get(constant) != row}
    lacking = ", ".join(f"`{constant}`" for constant in base if constant not in rows)
    words = f"Like {like}"
    if lacking:
        words += f", without {lacking}"
    if not changed:
        return f"\n## {name}\n{words}.\n"
    return f"\n## {name}\n{words}, and with:\n\n{table(changed)}\n"


def page() -> str:
    """Return the whole page as Markdown."""
    common = settings(Constants, {})
    return "".join([HEAD, f"\n## Every experiment\n{table(common)}\n", *sections(common)])


def sections(common: dict[str, Row]) -> Iterator[str]:
    """Yield a section for each experiment, then the sections of the commands that check, grade and
    curate."""
    experiments: dict[str, dict[str, Row]] = {}
    for path in experiment_file.paths():
        file = experiment_file.load(path.stem)
        rows = settings(file.planned.constants, file.namespace)
        experiments[path.stem] = rows
        like = LIKE.get(path.stem)
        if like:
            yield section(path.stem, rows, experiments[like], f"`{like}`")
        else:
            yield section(path.stem, rows, common, "every experiment")
    traces = settings(FormConstants, {})
    yield section("check_traces.sh", traces, settings(StarConstants, {}), "`21_star`")
    yield section("grade.sh", settings(GradeConstants, {}), common, "every experiment")
    curating = settings(CurateConstants, {})
    yield section("schemes.sh and filter.sh", curating, common, "every experiment")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
