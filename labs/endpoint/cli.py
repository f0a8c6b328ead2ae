"""Start the endpoint: choose the scaffolds to offer, find or start the model server, and serve.
scripts/serve_rsa.sh runs this module."""

import asyncio
import socket
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace

from core import constants
from core.base import signals
from core.base.errors import Parser, UserError, command
from core.base.files import results_dir
from core.base.terminal import say
from core.client.journal import Journal
from core.constants import OF_RUNS, Constants, rules
from core.engines import environment, reasoning
from core.engines.protocol import Server, is_local
from core.grading.child import stopping_children
from core.server import serving
from core.types import Scaffold
from harness.experiment_file import experiments_by_scaffold, scaffold_named
from harness.session import session
from harness.session.checks import asks_scorer, check_context
from harness.session.session import need_of
from labs.endpoint.answer import named
from labs.endpoint.app import bind, clients_key, serve
from labs.endpoint.chat import Offer, own

PORT = 30100
ABOUT = (
    "constants of requests (docs/constants.md), for the scaffolds that have them. SCAFFOLD=NAME "
    "offers only one"
)


def offered(words: Sequence[str] = ()) -> dict[str, Offer]:
    """Return all scaffolds by name, RSA first, or only the scaffold that SCAFFOLD=… in `words`
    names. NAME=value in `words` and the card's constants apply to the scaffolds with this constant.
    If they contradict a constant of another scaffold than the first, a note says that it is not
    served. Raises UserError for other faults."""
    only = named(words)
    names = [only] if only else sorted(experiments_by_scaffold(), key=lambda name: name != "rsa")
    scaffolds = {name: scaffold_named(name) for name in names}
    for word in words:
        if _name(word) in OF_RUNS:
            raise UserError(
                f"an endpoint has no constant {_name(word)!r}. docs/constants.md has all"
            )
    known: set[str] = set()
    for scaffold in scaffolds.values():
        known |= rules(scaffold.constants).keys()
    offers: dict[str, Offer] = {}
    for name, scaffold in scaffolds.items():
        foreign = known - rules(scaffold.constants).keys()
        given = [word for word in words if _name(word) not in foreign]
        try:
            offers[name] = Offer(name, scaffold, _defaults(scaffold, given))
        except UserError as error:
            if not offers:
                raise
            _check_values(scaffold, given)
            say(f"note: {name} is not served: {error}", sys.stderr)
    return offers


def _name(word: str) -> str:
    return word.partition("=")[0]


def _defaults(scaffold: Scaffold[Constants], words: Sequence[str]) -> Constants:
    """Read a scaffold's constants from the card and from `words`. Raises UserError."""
    of_card = environment.card().constants_of(scaffold.constants)
    not_of_requests = (*OF_RUNS, "SCAFFOLD")
    values = {name: value for name, value in of_card.items() if name not in not_of_requests}
    neutral = {"SHOTS": 0, "SYSTEM": "", "PROMPT": ""}
    return constants.read(scaffold.constants, neutral | values, words)


def _check_values(scaffold: Scaffold[Constants], words: Sequence[str]) -> None:
    """Raise UserError if one of `words` has no valid value by itself."""
    own_rules = rules(scaffold.constants)
    for word in words:
        name, _, value = word.partition("=")
        own_rules[name].read(name, value)


def options_of(argv: Sequence[str] | None) -> Namespace:
    """Read the arguments of the command. Raises UserError."""
    parser = Parser(
        prog="serve_rsa.sh",
        description="Offer RSA and other scaffolds as models to any chat client.",
    )
    add = parser.add_argument
    host = environment.hosting().BIND
    add("--host", default=host, help="address to serve on (default: BIND or 127.0.0.1)")
    about = f"port to serve on (default: {PORT}, 0: any free port)"
    add("--port", type=int, default=PORT, help=about)
    add("constants", nargs="*", metavar="NAME=value", help=ABOUT)
    about = "host name that clients may use (repeatable)"
    add("--allow-host", action="append", default=[], metavar="NAME", help=about)
    return parser.parse_intermixed_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until stopped. The model server is the one that a run would use."""
    with command():
        args = options_of(argv)
        signals.catch()
        offers = offered(args.constants)
        first = next(iter(offers.values()))
        if args.port == environment.hosting().PORT:
            raise UserError(
                f"port {args.port} belongs to the model server. Choose another --port, or set "
                "another PORT"
            )
        folder = results_dir()
        # Take the port first, because the engine may need minutes to start. Early clients wait.
        with (
            bind(args.host, args.port) as place,
            serving(need_of(first.scaffold, first.defaults)) as server,
        ):
            server = reasoning.configured(server, first.defaults)
            for name, offer in offers.items():
                check_context(server, offer.defaults)
                _check_one_model(offer.defaults)
                offers[name] = replace(offer, defaults=server.card.sampled(offer.defaults))
            with session.open_session(
                "serve_rsa", first.defaults, folder, server, is_private=True
            ) as opened:
                _announce(place, first, offers, server)
                hosts = (args.host, *args.allow_host)
                _serve_until_stopped(place, server, offers, opened.journal, hosts)


def _check_one_model(config: Constants) -> None:
    """Raise UserError for a scorer, because an endpoint has no second model."""
    if asks_scorer(config):
        raise UserError("an endpoint has one model. Omit VERIFIER=scorer and SCORE=reward")


def _announce(
    place: socket.socket, first: Offer, offers: Mapping[str, Offer], server: Server
) -> None:
    """Print the address and the models, and a note if everyone may use them."""
    host, port = place.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
    others = ", ".join(f"{name}/…" for name in offers if name != first.name)
    also = f" Other models: {others}." if others else ""
    say(
        f"{first.name}/{server.model} on {url}: {own(first.defaults)}.{also} Model "
        f"server: {server.model} ({server.kind} at {server.base_url}), because "
        f"{server.why}. Press Ctrl-C to stop."
    )
    if not is_local(url) and not clients_key(server):
        say(
            "note: everyone who can reach this address can use the model. Set API_KEY=… to require "
            "a key",
            sys.stderr,
        )


def _serve_until_stopped(
    place: socket.socket,
    server: Server,
    offers: Mapping[str, Offer],
    journal: Journal,
    hosts: Sequence[str],
) -> None:
    async def until_stopped() -> None:
        async with stopping_children():
            await serve(place, server, offers, journal, hosts)

    try:
        signals.run(until_stopped())
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
