"""Write the golden files anew: `python -m tests.golden [CASE …]`.

With --journals CHECKOUT, write the stored journals instead, by a working tree of the commit that must stay resumable.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.conftest import ROOT
from tests.golden.cases import CORE, LABS, Case
from tests.golden.running import FILES, pack, run_case, write


def rewrite(case: Case, journals: Path | None) -> str:
    """Run one case and store what it leaves behind."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = journals or ROOT
        ran = run_case(case, Path(folder).resolve(), root)
        if journals:
            pack(case, Path(folder).resolve() / "results")
        else:
            write(case, ran.texts)
    return f"{case.name}: {len(ran.texts)} files, {time.monotonic() - began:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE")
    parser.add_argument("--journals", type=Path, metavar="CHECKOUT")
    args = parser.parse_args()
    cases = [case for case in (*CORE, *LABS) if not args.names or case.name in args.names]
    if unknown := set(args.names) - {case.name for case in cases}:
        parser.error(f"no case is called {', '.join(sorted(unknown))}")
    if args.journals:
        cases = [case for case in cases if case.resumes]
    with ThreadPoolExecutor(2) as pool:
        for line in pool.map(partial(rewrite, journals=args.journals and args.journals.resolve()), cases):
            print(line, flush=True)
    if not args.names and not args.journals:
        for folder in sorted({path.name for path in FILES.iterdir()} - {case.name for case in cases}):
            print(f"{folder} belongs to no case any more: remove it")


if __name__ == "__main__":
    main()
