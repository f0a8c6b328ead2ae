"""Merge runs of one experiment, made on several machines perhaps: bash scripts/merge.sh mean A B C

What comes of it is a results file like any other (core/results/merge.py), under the experiment's name with the way of
merging in front: mean-02_rsa_basic.
"""

from collections.abc import Sequence

from core.base import terminal
from core.base.arguments import Parser
from core.base.errors import UserError, command
from core.base.files import results_dir
from core.report import tables
from core.results import merge
from core.results.find import path_of
from core.results.points import MERGES

ABOUT = (
    "Merge runs of one experiment that differ in SEED: mean, best (max) or worst (min) of each problem's runs, with "
    "intervals over problems, and mean and standard deviation over runs beside them."
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="merge.sh", description=ABOUT)
    parser.add_argument("by", choices=list(MERGES), help="what is taken of the runs of each problem")
    parser.add_argument("results", nargs="+", help="names of results, or paths of .json files; merged ones too")
    with command():
        args = parser.parse_args(argv)
        if len(args.results) < 2:
            raise UserError("give two or more results to merge, such as: mean a/02_rsa_basic.json b/02_rsa_basic.json")
        folder = results_dir()
        paths = [path_of(name, folder) for name in args.results]
        path, document = merge.merge(paths, f"{args.by}-{merge.experiment_of(paths[0])}", folder, args.by)
        table, width = tables.steps_table(document), terminal.columns()
        print(f"{table.text(width)}\n\n{terminal.wrapped(table.legend(width))}")
        if proofs := document["metrics"].get("proofs"):
            print("\n".join(["", tables.points_table(proofs), *tables.lacking(proofs)]))
        if waits := tables.waits_table(document):
            print(f"\n{waits}")
        for warning in document["warnings"]:
            print(terminal.wrapped(f"note: {warning}", "  "))
        print(f"results {path}")


if __name__ == "__main__":
    main()
