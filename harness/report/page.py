"""Write the report from results and journals: one HTML file that needs no network.

Figures, members and texts are packed into the page as gzipped JSON. Texts that do not fit are
stored in a folder next to the page, with files for each problem (harness/report/texts.py). The page
shows texts of models as text nodes only. Its Content-Security-Policy allows only its own scripts
and the files of texts.
"""

import base64
import math
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from core.base.errors import UserError
from core.base.files import read_text, write_atomically
from core.base.terminal import cut
from core.types import GOOD, MAX_POINTS
from harness.report import (
    compare,
    run_table,
    scores_table,
    tables,
    texts,
    transitions_table,
    votes,
)
from harness.report.data import Results
from harness.report.table import BETWEEN
from harness.results.find import archive
from harness.results.model import TEXT, MemberResult, ProblemResult, StepResult
from harness.results.registry import View
from harness.results.write import now

PageData = dict[str, Any]  # the data of a page
Packed = Iterable[tuple[str, str]]  # packed texts by id
WEB = Path(__file__).resolve().parent / "web"
KATEX = WEB / "katex"
VIEWS = (
    "charts",
    "map",
    "overview",
    "lineage",
    "rich",
    "member",
    "reading",
    "compare",
    "search",
    "tables",
)
SCRIPTS = [WEB / f"{name}.js" for name in ("katex/katex.min", "base", *VIEWS)]
SHEETS = ("katex/katex.min", "report", "tables", "reading")
STYLES = [WEB / f"{name}.css" for name in SHEETS]
FONT = re.compile(r"src:url\((fonts/[\w-]+\.woff2)\)[^;}]*")
LOADER = jinja2.FunctionLoader(lambda path: Path(path).read_text())
PAGES = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, loader=LOADER)
# fields of members
HIDDEN = {"key", "carried_over", "undecided", "side_calls", "reasons", "grading_calls"}
PAGE_BYTES = 4_900_000  # maximum size of the page without its folder of texts


def data(
    runs: Sequence[Results], compared: Path | None = None, view: View | None = None
) -> dict[str, Any]:
    """Return the page's data without texts. `compared` is the folder of a comparison, and `view`
    belongs to a lab."""
    names = tables.labels(runs)
    if view:
        title = view.data["name"]
    elif compared:
        title = compared.name
    else:
        title = ", ".join(run.name for run in runs)
    return {
        "name": title,
        "runs": [_run(run, name) for run, name in zip(runs, names, strict=True)],
        "comparison": view.comparison if view else _comparison(runs, names, bool(compared)),
        "lab": view.data if view else None,
        "table": _table(compared) if compared else None,
        "most": MAX_POINTS,
        "good": GOOD,
    }


def _run(run: Results, name: str) -> dict[str, Any]:
    steps = run_table.steps_table(run.document)
    return {
        "name": name,
        "title": tables.title(run.document),
        "head": run.head.document,
        "steps": replace(steps, title="Steps").page(),
        "votes": votes.curve(run),
        "points": _points(run),
        "transitions": transitions_table.report(run).page(),
        "scores": scores_table.Report(run).page(),
        "problems": [_problem(problem) for problem in run.problems],
        "missing": run.missing,
    }


def _table(compared: Path) -> dict[str, Any]:
    """Return the table and the figures of the comparison in a folder."""
    figures = {}
    for path in sorted(compared.glob("*.png")):
        figures[path.stem] = _packed(path, "image/png")
    return {"name": compared.name, "text": table_of(compared), "figures": figures}


def table_of(compared: Path) -> str:
    """Read the table of the comparison in a folder. Raises UserError if the file can't be read."""
    return read_text(compared / "table.txt", "the table", "Run the comparison again")


def _packed(path: Path, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _points(run: Results) -> dict[str, Any] | None:
    proofs = run.document["metrics"].get("proofs")
    if proofs is None:
        return None
    table = tables.points_by_group(proofs)
    legend = [table.legend_end, *tables.lines_on_missing_grades(proofs), *tables.written_by(proofs)]
    return replace(table, legend_end=BETWEEN.join(legend)).page()


def _problem(problem: ProblemResult) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": cut(problem.name, 200),
        "statement": problem.statement,
        "answer": None if problem.answer is None else cut(problem.answer, TEXT),
    }
    if problem.graded_by:
        fields["graded_by"] = list(problem.graded_by)
    fields["steps"] = [_step(step) for step in problem.steps]
    return fields


def _step(step: StepResult) -> dict[str, Any]:
    fields: dict[str, Any] = {"step": step.step}
    if step.stage:
        fields["stage"] = step.stage
    fields["majority_answer"] = step.majority_answer
    fields["majority_correct"] = step.majority_correct
    fields["members"] = [_member(member) for member in step.members]
    return fields


def _member(member: MemberResult) -> dict[str, Any]:
    """Return a member as an object of the page. Fields that are None are omitted, to save space."""
    fields = msgspec.to_builtins(member) | {"doubt": ", ".join(member.doubts) or None}
    return {
        name: value for name, value in fields.items() if name not in HIDDEN and value is not None
    }


def _comparison(
    runs: Sequence[Results], names: Sequence[str], is_noted: bool
) -> dict[str, Any] | None:
    """Compare each result with the first, with notes on failures and on differences. Return None
    for a single result. If `is_noted`, omit differences: a comparison's table has its own notes,
    and a race's entries differ in problems."""
    if len(runs) < 2:
        return None
    notes: list[str] = []
    pairs: list[compare.Pair] = []
    for run, name in zip(runs[1:], names[1:], strict=True):
        try:
            pair = compare.pair(compare.result(runs[0]), compare.result(run), anyway=True)
        except UserError as error:
            notes.append(str(error))
            continue
        pairs.append(replace(pair, name=name))
        if not is_noted:
            notes += pair.notes
    table = compare.differences(pairs, names[0]).page() if pairs else None
    return {"table": table, "notes": list(dict.fromkeys(notes))}


def html(
    page_data: PageData,
    parts: Packed = (),
    live: float = 0,
    folder: str = "",
    view: View | None = None,
) -> Iterator[bytes]:
    """Yield the page in pieces. `page_data` is its data, and the folder named `folder` has the
    texts that `parts` lack. A page with `live` asks for newer data after so many seconds."""
    scripts = list(SCRIPTS)
    styles = list(STYLES)
    if view:
        scripts += view.scripts
        styles += view.styles
    scripts.append(WEB / "main.js")
    return rendered(WEB / "report.html", scripts, styles, page_data, parts, live=live, texts=folder)


def rendered(
    template: Path,
    scripts: Sequence[Path],
    styles: Sequence[Path],
    page_data: PageData,
    parts: Packed = (),
    **more: Any,
) -> Iterator[bytes]:
    """Yield a page in pieces. Only its own `scripts` and `styles` have the nonce that its policy
    demands."""
    pieces = PAGES.get_template(str(template)).generate(
        page=page_data,
        made=now(),
        data=texts.packed(page_data).decode(),
        parts=parts,
        scripts=[path.read_text() for path in scripts],
        style="".join(FONT.sub(_inside, path.read_text()) for path in styles),
        nonce=secrets.token_urlsafe(16),
        **more,
    )
    return (piece.encode(errors="replace") for piece in pieces)  # lone surrogates can't be encoded


def _inside(font: re.Match[str]) -> str:
    return f'src:url({_packed(KATEX / font[1], "font/woff2")}) format("woff2")'


def write(
    runs: Sequence[Results],
    path: Path,
    whole: bool = False,
    compared: Path | None = None,
    view: View | None = None,
) -> list[Path]:
    """Write the page and, unless it should be `whole`, move texts beyond PAGE_BYTES to a folder.
    Return the paths."""
    folder = path.with_name(f"{path.stem}.texts")
    shutil.rmtree(folder, ignore_errors=True)
    page_data = data(runs, compared, view)
    taken = sum(len(piece) for piece in html(page_data, view=view))
    parts = texts.Parts(folder, math.inf if whole else PAGE_BYTES - taken)
    for number, run in enumerate(runs):
        run.missing = 0
        with archive(run.path, run.head.experiment) as journals:
            for index, problem in enumerate(run.problems):
                tiers, missing = texts.of_problem(problem, journals)
                run.missing += missing
                parts.add(number, index, tiers)
            with_texts = transitions_table.report(run, journals)
        page_data["runs"][number] |= {"missing": run.missing, "transitions": with_texts.page()}
    inside = [item for tier in parts.inside.values() for item in tier.items()]
    has_folder = folder.exists()
    write_atomically(
        path, html(page_data, inside, folder=folder.name if has_folder else "", view=view)
    )
    return [path, folder] if has_folder else [path]
