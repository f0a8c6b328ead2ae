"""Write docs/constants.md from the constants of experiments and commands: python -m
scripts.constants_page."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from core.base.files import ROOT
from core.constants import Constants, Part, Rule, rules
from harness import experiment_file
from labs.proofs.curate.tool import CurateConstants
from labs.proofs.grade.cli import GradeConstants
from labs.star.cli import FormConstants
from labs.star.constants import StarConstants

PAGE = ROOT / "docs" / "constants.md"
LIKE = {"22_star_controls": "21_star", "24_lean_iteration": "23_lean_baseline", "25_lean_all": (
    "24_lean_iteration"
),
        "26_lean_energy": "23_lean_baseline"}  # fmt: skip
HEAD = """# Constants

Set constants at the top of an experiment's file, or for one run: `bash scripts/run.sh \
02_rsa_basic N=16`. The server
counts tokens. Seconds are wall-clock time. `python -m scripts.constants_page` generates this page.
"""

Row = tuple[Any, Rule]


def settings(kind: type[Part], namespace: dict[str, Any]) -> dict[str, Row]:
    """Return the value and the rule of each constant. Constants that `namespace` does not set have
    their defaults."""
    defaults = {each.name: each.default for each in fields(kind) if each.default is not MISSING}
    return {
        name: (namespace.get(name, defaults.get(name)), rule) for name, rule in rules(kind).items()
    }


def table(rows: dict[str, Row]) -> str:
    """Format constants as the rows of a Markdown table."""
    lines = ["| constant | value | range | meaning |", "|---|---|---|---|"]
    for name, (value, rule) in rows.items():
        span = (
            ""
            if rule.span() == "text"
            else " ".join(f"`{each}`" for each in rule.choices) or rule.span()
        )
        if len(rule.choices) > 10:
            span = "a scaffold or its experiment"
        lines.append(f"| `{name}` | `{value}` | {span} | {rule.about} |".replace("``", '`""`'))
    return "\n".join(lines)


def section(name: str, rows: dict[str, Row], base: dict[str, Row], like: str) -> str:
    """Format an experiment's section: the constants that differ from the section `like`, and the
    ones that it lacks."""
    own = {each: row for each, row in rows.items() if base.get(each) != row}
    lacks = ", ".join(f"`{each}`" for each in base if each not in rows)
    words = (
        f"Like {like}" + (f", without {lacks}" if lacks else "") + (", and with:" if own else ".")
    )
    return f"\n## {name}\n{words}\n" + (f"\n{table(own)}\n" if own else "")


def page() -> str:
    """Return the whole page as Markdown."""
    common = settings(Constants, {})
    return "".join([HEAD, f"\n## Every experiment\n{table(common)}\n", *sections(common)])


def sections(common: dict[str, Row]) -> Iterator[str]:
    """Yield a section for each experiment, then the sections of the commands that check, grade and
    curate."""
    known: dict[str, dict[str, Row]] = {}
    for path in experiment_file.paths():
        found = experiment_file.load(path.stem)
        known[path.stem] = settings(found.planned.constants, found.namespace)
        like = LIKE.get(path.stem, "")
        yield section(
            path.stem,
            known[path.stem],
            known.get(like, common),
            f"`{like}`" if like else "every experiment",
        )
    yield section(
        "check_traces.sh", settings(FormConstants, {}), settings(StarConstants, {}), "`21_star`"
    )
    yield section("grade.sh", settings(GradeConstants, {}), common, "every experiment")
    yield section(
        "schemes.sh and filter.sh", settings(CurateConstants, {}), common, "every experiment"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
