"""Show graded lines for report.sh: `bash scripts/report.sh FILE.graded.jsonl` (labs/proofs/scored.py reads them).

The page is one HTML file that needs no network. It contains the lines as packed JSON and shows texts as text nodes, so
that they can't run as code (core/report/page.py)."""

import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from core.base.errors import UserError
from core.base.files import write_atomically
from core.report import page, texts
from core.results.write import now
from core.types import GOOD, MAX_POINTS
from labs.proofs import stats
from labs.proofs.scored import Runs, read

WEB = Path(__file__).resolve().parent / "web"
SCRIPTS = (*(page.WEB / f"{name}.js" for name in ("base", "tables", "reading")), WEB / "graded.js")


def answers(args: Namespace, folder: Path) -> bool:
    """Print the statistics and write the page. Return False if no .jsonl file is named. Raises UserError."""
    files = [Path(name).expanduser() for name in args.results if name.endswith(".jsonl")]
    if not files:
        return False
    others = (args.live, args.anyway, args.figures is not None, args.jsonl is not None, args.inspect)
    if any(others) or len(files) < len(args.results):
        raise UserError("with FILE.jsonl, report.sh accepts only such files, --markdown and --out. Remove the others")
    runs = read(files)
    if args.markdown:
        print(stats.text(runs, markdown=True))
        return True
    out = args.out or files[0].with_suffix(".html")
    write_atomically(out, html(runs, files[0].stem))
    print(f"{stats.text(runs)}\n\nreport  {out} ({os.path.getsize(out) / 1e6:.1f} MB)")
    return True


def is_folder(folder: Path) -> bool:
    """Return False, since report.sh shows graded lines only by the names of their files."""
    return False


def html(runs: Runs, title: str) -> Iterator[bytes]:
    """Yield the page in pieces."""
    every = [(run, line) for run, lines in runs.items() for line in lines]
    rows = [asdict(line) | {"run": run, "tokens": line.run["output_tokens"]} for run, line in every]
    tables = [table.page() for table in stats.tables_of(runs)]
    known = {"title": title, "notes": stats.notes(runs), "tables": tables, "rows": rows, "runs": len(runs)}
    known |= {"most": MAX_POINTS, "good": GOOD}
    katex = (page.WEB / "katex" / "katex.min.js").read_text()
    scripts, css = (katex, "\n".join(path.read_text() for path in SCRIPTS)), page.style()
    pieces = page.template(WEB / "graded.html").generate(
        known=known,
        made=now(),
        data=texts.packed(known).decode(),
        scripts=scripts,
        style=css,
        policy=page.policy(scripts, css, "", "'none'"),
    )
    return (piece.encode(errors="replace") for piece in pieces)  # a lone surrogate can't be encoded
