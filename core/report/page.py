"""The report: one HTML file that needs no network, from results and journal alone.

Figures and members are packed into the page (gzipped JSON), and so are the texts of a small run. Of a larger one,
thinking lies beside the page, a file for each problem that is loaded when someone opens it; so do answers where even
they are too much (core/report/texts.py). What a model wrote is data to the page and nothing else: it goes in as packed
JSON, comes out as text nodes, and the Content-Security-Policy lets nothing run but the scripts of core/report/web.
"""

import base64
import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jinja2

from core.base import stats
from core.base.errors import UserError, one_line
from core.base.files import write_atomically
from core.base.terminal import cut
from core.report import compare, tables, texts
from core.report.labels import Named, labels
from core.results import read as stored
from core.results import write as results
from core.results.data import archive
from core.results.read import Head, MemberResult, ProblemResult
from core.types import GOOD, MAX_POINTS

WEB = Path(__file__).resolve().parent / "web"
SCRIPTS = ("base", "charts", "map", "overview", "lineage", "reading", "compare", "search", "tables", "rounds", "main")
PAGE_BYTES = 4_900_000  # what goes into the page itself; what does not fit lies beside it


@dataclass
class Run:
    """A results file, and what its journals lack. `missing`: completions that no journal holds; `disagreement`: where
    journals differ, in a line."""

    name: str
    path: Path
    head: Head
    problems: list[ProblemResult]
    missing: int = 0
    disagreement: str = ""

    @cached_property
    def document(self) -> dict[str, Any]:
        """The head under the file's name: an experiment may have several results."""
        return self.head.document | {"experiment": self.name}

    @property
    def title(self) -> str:
        return tables.title(self.document)

    @property
    def table(self) -> str:
        return tables.steps_table(self.document).body()


def read(path: Path) -> Run:
    """The results in `path`. Raises UserError where they can't be read or are none of this project's."""
    head, problems = stored.read(path)
    return Run(one_line(path.stem, 80), path, head, list(problems))


# The page


def data(runs: Sequence[Run], table: str = "", rounds: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the page knows before anyone opens a text; `table`: of a comparison at equal budgets, if they are one;
    `rounds`: what labs/star/report.py says of runs in rounds, if they are of those."""
    names = labels([Named(run.name, run.head.experiment, run.head.config) for run in runs], 80)
    compared = _between_rounds(runs, names, rounds) if rounds else _comparison(runs, names)
    return {
        "made": results.now(),
        "runs": [
            {
                "name": name,
                "title": run.title,
                "head": run.head.document,
                "problems": [_problem(problem) for problem in run.problems],
                "missing": run.missing,
            }
            for run, name in zip(runs, names, strict=True)
        ],
        "comparison": compared,
        "rounds": rounds,
        "table": table,
        "most": MAX_POINTS,
        "good": GOOD,
    }


def _problem(problem: ProblemResult) -> dict[str, Any]:
    return {
        "id": cut(problem.name, 200),
        "statement": problem.statement,
        "answer": None if problem.answer is None else cut(problem.answer, stored.TEXT),
        **({"graded_by": list(problem.graded_by)} if problem.graded_by else {}),
        "steps": [
            {
                "step": step.step,
                **({"stage": step.stage} if step.stage else {}),
                "majority_answer": step.majority_answer,
                "majority_correct": step.majority_correct,
                "members": [_member(member) for member in step.members],
            }
            for step in problem.steps
        ],
    }


def _member(member: MemberResult) -> dict[str, Any]:
    """A member as an object of the page. A field that is None is left out: there are many members."""
    unforced, cost = member.unforced, member.cost
    fields = {
        "answer": member.answer,
        "correct": member.correct,
        "grade": member.grade,
        "worth": member.points and member.points.worth,
        "ungraded": member.points and member.points.ungraded,
        "grades": (member.points and member.points.grades) or None,
        "left_out": (member.points and member.points.left_out) or None,
        "doubt": ", ".join(member.doubts) or None,
        "group": member.group,
        "parents": member.parents,
        "finish_reason": cost.finish_reason,
        "completion_tokens": cost.completion_tokens,
        "prompt_tokens": cost.prompt_tokens,
        "cached_tokens": cost.cached_tokens,
        "seconds": cost.seconds,
        "unforced": unforced and {"answer": unforced.answer, "correct": unforced.correct},
        "before_waits": [{"answer": each.answer, "correct": each.correct} for each in member.before_waits] or None,
        "error": cost.error,
        "notes": member.notes or None,
        "self_score": member.self_score,
        "verdicts": member.verdicts,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _comparison(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Any] | None:
    """Each result against the first, where they can be compared; else a note that says why not. None: there is one."""
    if len(runs) < 2:
        return None
    notes: list[str] = []
    pairs: list[dict[str, Any]] = []
    try:
        first, *others = [compare.read(str(run.path), run.path.parent) for run in runs]
    except UserError as error:
        return {"first": names[0], "pairs": pairs, "notes": [str(error)]}
    for other, name in zip(others, names[1:], strict=True):
        try:
            found = compare.pair(first, other, anyway=True)
        except UserError as error:
            notes.append(str(error))
            continue
        notes += found.notes
        pairs.append(_pair(name, found, found.metrics))
    _correct(pairs)
    return {"first": names[0], "pairs": pairs, "notes": notes}


def _between_rounds(runs: Sequence[Run], names: Sequence[str], rounds: dict[str, Any]) -> dict[str, Any] | None:
    """Each evaluation at temperature 0 against that of round 0 of the same run; None where there is none but that. The
    weights differ on purpose, and of one sample the vote is the sample. `groups`: the numbers of those of a run."""
    notes: list[str] = []
    pairs: list[dict[str, Any]] = []
    groups = [[of["results"] for of in each["rounds"] if of["results"] is not None] for each in rounds["runs"]]
    groups = [
        group for group, each in zip(groups, rounds["runs"], strict=True) if each["rounds"][0]["results"] in group
    ]
    for first, *others in groups:
        start = compare.read(str(runs[first].path), runs[first].path.parent)
        for other in others:
            path = runs[other].path
            try:
                found = compare.pair(start, compare.read(str(path), path.parent), anyway=True, is_trained=True)
            except UserError as error:
                notes.append(str(error))
                continue
            notes += found.notes
            pairs.append(_pair(names[other], found, compare.METRICS[:1]))
    _correct(pairs)
    return {"first": "round 0 of its run", "pairs": pairs, "notes": notes, "groups": groups} if pairs else None


def _pair(name: str, found: compare.Pair, metrics: Iterable[str]) -> dict[str, Any]:
    told = [{"name": metric, **vars(found.metrics[metric])} for metric in metrics]
    return {"name": name, "metrics": told, "tokens": found.tokens.to_json() if found.tokens else None}


def _correct(pairs: Sequence[dict[str, Any]]) -> None:
    """Give every p-value of `pairs` what it is corrected for their number."""
    compared = [metric for pair in pairs for metric in pair["metrics"]]
    for metric, corrected in zip(compared, stats.holm([metric["p"] for metric in compared]), strict=True):
        metric["p_holm"] = corrected


@cache
def template(path: Path = WEB / "report.html") -> jinja2.Template:
    loader = jinja2.FileSystemLoader(path.parent)
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, loader=loader).get_template(path.name)


@cache
def scripts() -> tuple[str, str]:
    """The scripts of the page, in order: KaTeX, and ours in one."""
    return (WEB / "katex" / "katex.min.js").read_text(), "\n".join((WEB / f"{n}.js").read_text() for n in SCRIPTS)


@cache
def style() -> str:
    """KaTeX's style sheet with its fonts inside, and ours."""

    def inside(found: re.Match[str]) -> str:
        font = base64.b64encode((WEB / "katex" / "fonts" / found[1]).read_bytes()).decode()
        return f'src:url(data:font/woff2;base64,{font}) format("woff2")'

    katex = (WEB / "katex" / "katex.min.css").read_text()
    return re.sub(r"src:url\(fonts/([\w-]+\.woff2)\)[^;}]*", inside, katex) + (WEB / "report.css").read_text()


@cache
def policy(inline: tuple[str, ...], css: str, extra: str, connect: str) -> str:
    """The Content-Security-Policy: these very scripts and styles, pictures and fonts from the page itself, no more."""

    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    allowed = " ".join([*map(hashed, inline), extra]).strip()
    return (
        f"default-src 'none'; script-src {allowed}; style-src {hashed(css)}; font-src data:; img-src data: blob:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def html(
    runs: Sequence[Run],
    known: dict[str, Any],
    parts: Iterable[tuple[str, str]] = (),
    live: float = 0,
    beside: str = "",
    each: int = 1,
) -> Iterator[bytes]:
    """The page, piece by piece. `known`: the data of `runs`; `parts`: ids and packed texts to put inside; `live`:
    seconds between looks at the server for newer results; `beside`: the folder with the parts that are not inside,
    `each` so many problems in a file."""
    inline, css = scripts(), style()
    pieces = template().generate(
        runs=runs,
        rounds=known["rounds"],
        made=known["made"],
        data=texts.packed(known).decode(),
        parts=parts,
        scripts=inline,
        style=css,
        live=live,
        beside=beside,
        each=each,
        policy=policy(inline, css, "'self' file:" if beside else "", "'self'" if live else "'none'"),
    )
    return (piece.encode(errors="replace") for piece in pieces)  # halves of surrogate pairs can't be encoded


def write(
    runs: Sequence[Run],
    path: Path,
    everything: bool = False,
    table: str = "",
    rounds: dict[str, Any] | None = None,
) -> list[Path]:
    """Write the page to `path`; what came of it: the page, and the folder beside it where texts lie there. `table`,
    `rounds`: as in `data`.

    Texts that would make the page larger than PAGE_BYTES go beside it, thinking first; `everything` puts all inside.
    """
    beside = path.with_name(f"{path.stem}.texts")
    parts = texts.Parts(path.parent)
    for r, run in enumerate(runs):
        run.missing = 0
        with archive(run.path, run.head.experiment) as journals:
            for n, problem in enumerate(run.problems):
                found = texts.of_problem(problem, journals)
                run.missing += found.missing
                parts.add(r, n, found)
            run.disagreement = journals.disagreement() if journals.differing else ""
    known = data(runs, table, rounds)
    room = PAGE_BYTES - sum(len(piece) for piece in html(runs, known))
    inside, outside = parts.placed(room, everything)
    shutil.rmtree(beside, ignore_errors=True)
    each = parts.write(outside, beside)
    write_atomically(path, html(runs, known, parts.read(inside), beside=beside.name if outside else "", each=each))
    return [path, beside] if outside else [path]
