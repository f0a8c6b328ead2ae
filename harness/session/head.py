"""Begin the results document of a run with the facts that are known before its first request."""

from dataclasses import asdict
from typing import Any

from core import constants
from core.client.request import sampling_sent
from core.constants import BOXED
from core.engines import reasoning
from core.engines.protocol import Server
from core.types import Grader, Sampling, Scaffold
from harness.framing import Framing
from harness.problems.sets import ProblemSet
from harness.results import model, provenance, write
from harness.session.session import Session

SERVER_FIELDS = ("kind", "version", "origin", "context", "seeds")
SET_FIELDS = ("sha256", "source", "licence", "version", "revision")
# RUNS is omitted, so that each of several runs has the same document as a single run. OUT is its
# `experiment`.
OMITTED = {"RUNS", "OUT"}
# constants that are omitted if they have these values, so that earlier results stay equal
OMITTED_DEFAULTS = {"ANSWER": BOXED, "SHUFFLE": 0, "VERIFIER": "model"}
OMITTED_DEFAULTS |= {"BEAM": 1, "STEP_SCORES": "last"}
OMITTED_DEFAULTS |= dict.fromkeys(reasoning.NAMES, reasoning.OF_CARD)


def head_of(
    session: Session[Any], scaffold: Scaffold[Any], grader: Grader, sampling: Sampling
) -> dict[str, Any]:
    """Return the document of a run that begins, without metrics, warnings and problems. The
    session has the run's framing."""
    server = session.server
    chosen = session.problems
    framed = session.framing or Framing()
    engine = engine_of(server, sampling, session.limit)
    texts = provenance.collect(scaffold.prompts, chosen.asks_for_proofs) | framed.provenance
    document: dict[str, Any] = {
        "schema": model.SCHEMA,
        "experiment": session.name,
        "complete": False,
        "started": write.now(),
        "ended": None,
        "model": server.model_info(),
        "engine": engine,
        "problem_set": set_of(chosen) | {name: getattr(chosen, name) for name in SET_FIELDS},
        "config": _config_of(session, scaffold, framed),
        "grader": getattr(grader, "__name__", type(grader).__name__),
        "provenance": texts,
    }
    if prices := server.card.price:
        document["prices"] = asdict(prices)
    return document


def engine_of(server: Server, sampling: Sampling | None, limit: int) -> dict[str, Any]:
    """Return the fields of results that describe an engine, with its limit of requests in flight. A
    reward model has no `sampling`."""
    engine = {name: getattr(server, name) for name in SERVER_FIELDS}
    for name in ("exact", "templated"):
        if getattr(server, name) is False:
            engine[name] = False
    engine |= {"concurrency": limit, "why": server.why}
    if sampling:
        engine["sampling"] = sampling_sent(server, sampling)
    return engine


def scorer_of(server: Server, sampling: Sampling | None) -> dict[str, Any]:
    """Return the fields of results that describe the scorer. A reward model has no `sampling`."""
    scorer = {
        "model": server.model_info(),
        "engine": engine_of(server, sampling, server.limit),
    }
    if prices := server.card.price:
        scorer["prices"] = asdict(prices)
    return scorer


def set_of(chosen: ProblemSet) -> dict[str, Any]:
    """Return the name and the size of a problem set."""
    return {"name": chosen.name, "n": len(chosen.problems)}


def _config_of(session: Session[Any], scaffold: Scaffold[Any], framed: Framing) -> dict[str, Any]:
    """Return the constants of the run, without unused ones. ANSWER is the form that the card or
    the constant selects."""
    config = session.config
    unused = set(OMITTED)
    if not framed.provenance:
        unused |= constants.rules(constants.Framed).keys()
    values: dict[str, Any] = {}
    for name in constants.rules(scaffold.constants):
        value = getattr(config, name)
        if name not in unused and name != "ANSWER" and OMITTED_DEFAULTS.get(name) != value:
            values[name] = value
    way = session.server.card.answer_form(config)
    if way != BOXED:
        values["ANSWER"] = way
    return values
