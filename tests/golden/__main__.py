"""Write new golden files: `python -m tests.golden [CASE …]`. Stored journals stay, as they must
remain resumable."""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.golden.cases import CORE, LABS, Case
from tests.golden.running import JOURNALS, pack, pinned, run_case, write


def rewrite(case: Case) -> str:
    """Run one case and store its files."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        ran = run_case(case, Path(folder).resolve())
        texts = pinned(case, ran.texts)
        write(case, texts)
        if case.resumes and not (JOURNALS / f"{case.name}.tar.gz").exists():
            pack(case, Path(folder).resolve() / "results")
    return f"{case.name}: {len(texts)} files, {time.monotonic() - began:.1f} s"


def main() -> None:
    cases = {case.name: case for case in (*CORE, *LABS)}
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", choices=[[], *cases])
    args = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        for line in pool.map(rewrite, [cases[name] for name in args.names or cases]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
