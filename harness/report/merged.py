"""Merge runs of one experiment, from one or more machines: `bash scripts/merge.sh mean A B C`.

The result is a results file named by the merge and the experiment, for example mean-02_rsa_basic.
"""

from collections.abc import Sequence

from core.base.errors import Parser, command
from core.base.files import results_dir
from core.base.terminal import heartbeat, wrapped
from harness.report import run_table
from harness.results.find import path_of
from harness.results.merge import merge
from harness.results.over_runs import MERGES

ABOUT = (
    "Merge runs that differ only in SEED. Each problem gets the mean, best (max) or worst (min) of "
    "its runs."
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="merge.sh", description=ABOUT)
    parser.add_argument("by", choices=list(MERGES), help="how to merge the runs of a problem")
    parser.add_argument("first", help="name of results of a single run, or path of a .json file")
    parser.add_argument("others", nargs="+", help="names or paths of the results of its other runs")
    with command():
        args = parser.parse_args(argv)
        folder = results_dir()
        paths = [path_of(name, folder) for name in (args.first, *args.others)]
        with heartbeat("merging results"):
            path, document = merge(paths, "", folder, args.by)
        notes = [wrapped(f"note: {warning}", "  ") for warning in document["warnings"]]
        print("\n".join([run_table.text(document, has_legend=False), *notes, f"results {path}"]))


if __name__ == "__main__":
    main()
