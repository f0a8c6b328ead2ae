"""The report: one HTML file that needs no network, from results and journal alone.

Figures and rows of all members are packed into the page (gzipped JSON), and so are the texts of a small run. Of a
larger one, thinking lies beside the page, a file for each problem that is loaded when someone opens it; so do answers
where even they are too much. What a model wrote is data to the page and nothing else: it goes in as packed JSON, comes
out as text nodes, and the Content-Security-Policy lets nothing run but the scripts of core/report/web.
"""

import base64
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from core import prompts, stats
from core.constants import Carrying
from core.errors import UserError, one_line
from core.files import amount, write_atomically
from core.generate.generator import KEY_VERSION
from core.generate.journal import Archive, Records, content_key, from_record
from core.grading.answers import Groups
from core.report import compare, tables
from core.results import read as stored
from core.results import write as results
from core.results.metrics import UNDECIDED
from core.results.spool import Spool
from core.scaffolds import rsa_paper
from core.scaffolds.rsa import Aggregate
from core.types import Completion, Message, Sampling, carried

WEB = Path(__file__).resolve().parent / "web"
SCRIPTS = ("base", "charts", "map", "overview", "lineage", "reading", "compare", "search", "main")
PAGE_BYTES = 4_900_000  # what goes into the page itself; what does not fit lies beside it
SHOWN = 2000  # characters of an answer in the lists; its text has all of it
# The fields of a member's row, in the order in which main.js names them too; only scored members have the last two.
ANSWER, CORRECT, DOUBT, FINISH, TOKENS, SECONDS, PARENTS, PROMPT = range(8)
CACHED, UNFORCED, ERROR, NOTES, GROUP, SCORE, VERDICTS = range(8, 15)
TIERS = ("a", "b")  # of a problem's texts: answers and prompts; thinking


@dataclass
class Run:
    """A results file as the page takes it. `problems`: rows of members, as main.js names their fields."""

    name: str
    path: Path
    head: dict[str, Any]
    problems: list[dict[str, Any]] = field(default_factory=list)
    keys: list[list[list[dict[str, Any]]]] = field(default_factory=list)  # by problem, step and member: where texts are
    missing: int = 0  # completions that no journal holds
    disagreement: str = ""  # where journals differ, in a line

    @property
    def document(self) -> dict[str, Any]:
        """The head under the file's name: an experiment may have several results."""
        return self.head | {"experiment": self.name}

    @property
    def title(self) -> str:
        return tables.title(self.document)

    @property
    def table(self) -> str:
        return tables.table(self.head)


def read(path: Path) -> Run:
    """The results in `path`. Raises UserError where they can't be read or are none of this project's."""
    try:
        head, problems = stored.read(path)
        if head["schema"] != 1:
            raise UserError(f"results {path} have schema {head['schema']!r:.40}; this version reads 1")
        run = Run(one_line(path.stem, 80), path, _head(head))
        for problem in problems:
            steps = [_checked(step) for step in problem["steps"]]
            run.keys.append([[_keys(m) for m in step["members"]] for step in steps])
            statement = problem.get("statement")
            run.problems.append(
                {
                    "id": _text(problem["id"], 200),
                    "statement": None if statement is None else _text(statement, 100_000),
                    "answer": _text(problem["answer"]),
                    "steps": [_step(step) for step in steps],
                }
            )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path} is not a results file of this project ({type(error).__name__}: {error})") from None
    return run


# What a results file says, checked on the way in: it may come from anyone.


def _text(value: Any, most: int = SHOWN) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value if len(value) <= most else value[: most - 1] + "…"


def _maybe(value: Any) -> str | None:
    return None if value is None else _text(value)


def _estimate(told: Any) -> dict[str, Any]:
    value = told["value"]
    return {
        "value": None if value is None else amount(value, 1),
        **{bound: amount(told[bound], 1) for bound in ("low", "high")},
        "n": int(amount(told["n"])),
    }


COUNTS = ("step", "completions", "problems")
SHARES = ("truncated", "forced", "doubtful", "failed", "identical")


def _tokens(value: Any) -> int | None:
    """None where the server did not tell."""
    return None if value is None else int(amount(value))


def _head(head: dict[str, Any]) -> dict[str, Any]:
    metrics = head["metrics"]
    steps = [
        {name: int(amount(step[name])) for name in (*COUNTS, *SHARES)}
        | {name: _tokens(step[name]) for name in ("completion_tokens", "verification_tokens")}
        | {"uncounted": int(amount(step.get("uncounted", 0)))}
        | {name: int(amount(step.get(name, 0))) for name in UNDECIDED}
        | {name: _estimate(step[name]) for name in ("mean_accuracy", "majority_accuracy")}
        | {"pass_at_k": {str(int(k)): _estimate(e) for k, e in step["pass_at_k"].items()}}
        | {"generation_seconds": amount(step["generation_seconds"])}
        for step in metrics["steps"]
    ]
    found: dict[str, Any] = {
        "steps": steps,
        "tokens": {kind: _tokens(metrics["tokens"][kind]) for kind in ("prompt", "cached", "completion")},
        "seconds": amount(metrics["seconds"]),
    }
    if checked := metrics.get("verification"):
        auc = checked["auc"]
        found["verification"] = {side: int(amount(checked[side])) for side in ("right", "wrong")}
        found["verification"]["auc"] = None if auc is None else amount(auc, 1)
    plain = {
        part: {_text(key, 60): _plain(value) for key, value in head[part].items()}
        for part in ("model", "engine", "problem_set", "config", "provenance")
    }
    for part, key in (("model", "name"), ("engine", "kind"), ("problem_set", "name"), ("problem_set", "sha256")):
        _text(plain[part][key])
    amount(plain["problem_set"]["n"])
    return plain | {
        "experiment": _text(head["experiment"], 100),
        "complete": head["complete"] is True,
        "started": _text(head["started"], 40),
        "ended": _text(head["ended"], 40),
        "warnings": [_text(warning) for warning in head["warnings"]],
        "metrics": found,
    }


def _plain(value: Any) -> Any:
    """A number, a truth value or a text; of anything else, its JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return _text(value) if isinstance(value, str) else json.dumps(value)[:SHOWN]


def _checked(step: dict[str, Any]) -> dict[str, Any]:
    if not step["members"]:
        raise ValueError("a population without members")
    return step


def _step(step: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": int(amount(step["step"])),
        "majority": _maybe(step["majority_answer"]),
        "right": amount(step["majority_correct"], 1),
        "m": [_member(m, group) for m, group in zip(step["members"], _groups(step["members"]), strict=True)],
    }


def _groups(members: Sequence[dict[str, Any]]) -> list[int | None]:
    """Which members say the same, the largest group being number 0. Results of earlier versions do not tell; there,
    answers of one spelling do."""
    if all("group" in m for m in members):
        return [None if m["group"] is None else int(amount(m["group"])) for m in members]
    answers = [_maybe(m["answer"]) for m in members]
    ranks = {name: rank for rank, name in enumerate(Groups(tuple(answers), {}).counts)}
    return [None if answer is None else ranks[answer] for answer in answers]


def _member(m: dict[str, Any], group: int | None) -> list[Any]:
    unforced = m.get("unforced")
    doubts = [_maybe(m["doubt"]), "undecided" if m.get("undecided") is True else None]
    row: list[Any] = [
        _maybe(m["answer"]),
        int(m["correct"] is True),
        ", ".join(dict.fromkeys(filter(None, doubts))) or None,
        _maybe(m["finish_reason"]),
        _tokens(m["completion_tokens"]),
        amount(m["seconds"]),
        [int(amount(j)) for j in m["parents"]],
        _tokens(m["prompt_tokens"]),
        _tokens(m["cached_tokens"]),
        None if unforced is None else [_maybe(unforced["answer"]), int(unforced["correct"] is True)],
        _maybe(m.get("error")),
        [_text(note, 100) for note in m["notes"]] if m.get("notes") else None,
        group,
    ]
    if "verdicts" in m:
        row.append(None if m["score"] is None else amount(m["score"], 1))
        row.append([None if verdict is None else amount(verdict, 1) for verdict in m["verdicts"]])
    return row


def _keys(m: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": _key(m["key"]),
        "seed": m["seed"] if isinstance(m["seed"], int) else 0,
        "parents": [int(amount(j)) for j in m["parents"]],
        "checks": [_key(check["key"]) for check in m.get("checks", [])],
    }


def _key(value: Any) -> str:
    if not re.fullmatch(r"[0-9a-f]{32}", _text(value)):
        raise ValueError(f"{value!r:.40} is no journal key")
    return str(value)


# Texts


def texts(run: Run, number: int, archive: Archive) -> dict[str, dict[str, Any]]:
    """The texts of problem `number`, by tier, then by "step,member": of tier "a" answer (a), forced answer (f) and
    prompt (p), of tier "b" thinking (t) and verifications (v). A prompt comes in pieces; one that is a number stands
    for the answer of that member of the step before."""
    tiers: dict[str, dict[str, Any]] = {tier: {} for tier in TIERS}
    carry = {name: value for name, value in run.head["config"].items() if name in ("CARRY", "CARRY_TOKENS")}
    config = Carrying(**carry)  # a scaffold that carries nothing has no such constant
    statement = run.problems[number]["statement"]
    earlier: list[Completion | None] = []
    for t, step in enumerate(run.keys[number]):
        made = [_completion(archive, m["key"]) for m in step]
        for i, (m, one) in enumerate(zip(step, made, strict=True)):
            if one is None:
                run.missing += 1
                continue
            answer: dict[str, Any] = {"a": one.answer}
            more: dict[str, Any] = {}
            if one.forced is not None:
                answer["f"] = one.forced
            if one.thinking:
                more["t"] = one.thinking
            if m["checks"]:
                checks = [_completion(archive, key) for key in m["checks"]]
                more["v"] = [f"{c.thinking}\n\n{c.text}".strip() if c else "(not in the journal)" for c in checks]
            if statement is not None and (pieces := _prompt(statement, m, earlier, config, run.head)):
                is_short = all(isinstance(piece, int) or len(piece) < SHOWN for piece in pieces)
                (answer if is_short else more)["p"] = pieces
            tiers["a"][f"{t},{i}"] = answer
            if more:
                tiers["b"][f"{t},{i}"] = more
        earlier = made
    return tiers


def _completion(archive: Records, key: str) -> Completion | None:
    kept = archive.get(key)
    try:
        return None if kept is None else from_record(key, kept)
    except ValueError:  # whole, and no completion
        return None


def _prompt(
    statement: str, m: dict[str, Any], earlier: Sequence[Completion | None], config: Carrying, head: dict[str, Any]
) -> list[str | int] | None:
    """The request of a member in pieces, in which a parent's number stands for its answer. It is put together anew from
    what it was made of, and None where the journal's key says that something else was sent: a scaffold has prompts of
    its own. Keys of a server of an unknown kind hold its address and can't be checked; RSA's prompts are known."""
    parents: list[int] = m["parents"]
    sources = [earlier[j] if j < len(earlier) else None for j in parents]
    texts = [carried(source, config).strip() for source in sources if source is not None]
    if len(texts) < len(parents):
        return None

    def messages(aggregate: Aggregate, shown: Sequence[str]) -> list[Message]:
        return aggregate(statement, shown) if shown else prompts.solve(statement)

    def is_sent(aggregate: Aggregate) -> bool:
        asked = [KEY_VERSION, head["model"]["name"], messages(aggregate, texts), _sampling(head["config"]), m["seed"]]
        return m["key"] in (content_key(asked), content_key([*asked, _told(head)]))

    is_known = head["engine"]["kind"] == "other" and ("T" in head["config"] or not parents)
    usual = rsa_paper.aggregate if head["experiment"] == "16_rsa_paper" else prompts.aggregate
    found = next(filter(is_sent, (prompts.aggregate, rsa_paper.aggregate)), usual if is_known else None)
    if found is None:
        return None
    marked = messages(found, [f"\0{n}\0" for n in range(len(parents))])[0]["content"]
    pieces: list[str | int] = []
    for n, piece in enumerate(re.split("\0([0-9]+)\0", marked)):
        if n % 2 == 0:
            pieces.append(piece)
            continue
        source, text = sources[int(piece)], texts[int(piece)]
        pieces.append(parents[int(piece)] if source and text == source.text.strip() else text)
    return pieces


def _told(head: dict[str, Any]) -> Any:
    """What keys hold of a server beside the name of its model."""
    try:
        return json.loads(head["model"].get("told"))
    except (TypeError, ValueError):  # results made before keys held it
        return None


def _sampling(config: dict[str, Any]) -> dict[str, Any]:
    """How a solution was drawn, as its key has it."""
    names = {name.upper(): name for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens", "answer_tokens")}
    return vars(Sampling(**{field: config[name] for name, field in names.items() if name in config}))


def journals(run: Run) -> Archive:
    """The journals beside a results file, or beside its folder (where a comparison keeps those of its runs)."""
    beside = run.path.parent / "journal"
    if beside.is_dir():
        return Archive(beside, run.head["experiment"])
    return Archive(run.path.parent.parent / "journal", run.path.parent.name)


def packed(value: Any) -> bytes:
    """JSON, gzipped, in base64: no character of it means anything to HTML."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(text, 6, mtime=0))


# The page


def data(runs: Sequence[Run]) -> dict[str, Any]:
    """What the page knows before anyone opens a text."""
    return {
        "made": results.now(),
        "runs": [
            {
                "name": run.name,
                "title": run.title,
                "head": run.head,
                "problems": run.problems,
                "missing": run.missing,
            }
            for run in runs
        ],
        "comparison": _comparison(runs) if len(runs) > 1 else None,
    }


def _comparison(runs: Sequence[Run]) -> dict[str, Any]:
    """Each result against the first, where they can be compared; else a note that says why not."""
    first, *others = [compare.read(str(run.path), run.path.parent) for run in runs]
    notes: list[str] = []
    pairs: list[dict[str, Any]] = []
    for other in others:
        try:
            pair = compare.pair(first, other, anyway=True)
        except UserError as error:
            notes.append(str(error))
            continue
        notes += pair.notes
        metrics = [{"name": name, **vars(paired)} for name, paired in pair.metrics.items()]
        tokens = pair.tokens.to_json() if pair.tokens else None
        pairs.append({"name": other.name, "metrics": metrics, "tokens": tokens})
    compared = [metric for told in pairs for metric in told["metrics"]]
    for metric, corrected in zip(compared, stats.holm([metric["p"] for metric in compared]), strict=True):
        metric["p_holm"] = corrected
    return {"first": first.name, "pairs": pairs, "notes": notes}


def scripts() -> list[str]:
    """The scripts of the page, in order: KaTeX, and ours in one."""
    return [(WEB / "katex" / "katex.min.js").read_text(), "\n".join((WEB / f"{n}.js").read_text() for n in SCRIPTS)]


def style() -> str:
    """KaTeX's style sheet with its fonts inside, and ours."""

    def inside(found: re.Match[str]) -> str:
        font = base64.b64encode((WEB / "katex" / "fonts" / found[1]).read_bytes()).decode()
        return f'src:url(data:font/woff2;base64,{font}) format("woff2")'

    katex = (WEB / "katex" / "katex.min.css").read_text()
    return re.sub(r"src:url\(fonts/([\w-]+\.woff2)\)[^;}]*", inside, katex) + (WEB / "report.css").read_text()


def policy(inline: Iterable[str], css: str, extra: str, connect: str) -> str:
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
) -> Iterator[bytes]:
    """The page, piece by piece. `known`: the data of `runs`; `parts`: ids and packed texts to put inside; `live`:
    seconds between looks at the server for newer results; `beside`: the folder with the parts that are not inside."""
    inline, css = scripts(), style()
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, loader=jinja2.FileSystemLoader(WEB)
    )
    pieces = environment.get_template("report.html").generate(
        runs=runs,
        made=known["made"],
        data=packed(known).decode(),
        parts=parts,
        scripts=inline,
        style=css,
        live=live,
        beside=beside,
        policy=policy(inline, css, "'self' file:" if beside else "", "'self'" if live else "'none'"),
    )
    return (piece.encode(errors="replace") for piece in pieces)  # halves of surrogate pairs can't be encoded


def write(runs: Sequence[Run], path: Path, everything: bool = False) -> list[Path]:
    """Write the page to `path`; what came of it: the page, and the folder beside it where texts lie there.

    Texts that would make the page larger than PAGE_BYTES go beside it, thinking first; `everything` puts all inside.
    """
    beside = path.with_name(f"{path.stem}.texts")
    spool = Spool(path.parent)
    ids: dict[str, list[str]] = {tier: [] for tier in TIERS}
    numbers: dict[str, int] = {}
    sizes = dict.fromkeys(TIERS, 0)
    for r, run in enumerate(runs):
        run.missing = 0
        with journals(run) as archive:
            for n in range(len(run.problems)):
                for tier, kept in texts(run, n, archive).items():
                    if kept:
                        text, id = packed(kept), f"p{r}-{n}-{tier}"
                        ids[tier].append(id)
                        numbers[id] = spool.add(text)
                        sizes[tier] += len(text) + 60
            run.disagreement = archive.disagreement() if archive.differing else ""
    known = data(runs)
    room = PAGE_BYTES - sum(len(piece) for piece in html(runs, known))
    inside: list[str] = []
    outside: list[str] = []
    for tier in TIERS:
        fits = everything or sizes[tier] <= room
        (inside if fits else outside).extend(ids[tier])
        room -= sizes[tier]
    parts = ((id, spool[numbers[id]].decode()) for id in inside)
    shutil.rmtree(beside, ignore_errors=True)
    for id in outside:
        write_atomically(beside / f"{id}.js", b'part("%s","%s")\n' % (id.encode(), spool[numbers[id]]))
    write_atomically(path, html(runs, known, parts, beside=beside.name if outside else ""))
    return [path, beside] if outside else [path]
