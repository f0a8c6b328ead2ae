"""What a grader needs on a cluster, by its card: `python -m core.engines.graders_need CARD` prints the address of its
model, or the engine that serves it. A card that is unknown, or whose key is missing, is told in one line: before
anything is submitted."""

import sys
from collections.abc import Sequence

from core.base.errors import UserError, command
from core.engines import environment
from core.engines.start import check_is_served


def main(argv: Sequence[str]) -> None:
    with command():
        if len(argv) != 1 or not argv[0]:
            raise UserError("name the card of the grader: GRADER=card")
        with environment.choosing(argv[0]):
            environment.key()
            if not environment.base_url():
                check_is_served(environment.card(), environment.engine())
            print(environment.base_url() or environment.engine())


if __name__ == "__main__":
    main(sys.argv[1:])
