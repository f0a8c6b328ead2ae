"""Hostile input and its checks, for the short tests and the long ones of the fault suite."""

import asyncio
import contextlib
import io
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from core.base.errors import LONGEST_LINE, UserError, command
from core.client.journal import Journal
from core.engines import attach
from core.generate import Generator
from core.types import Sampling
from harness.plan import lengths
from harness.problems import sets
from harness.report import compare, page
from harness.report.data import Results, load
from harness.results.merge import merge
from tests.conftest import ended, start
from tests.fakes.http import HttpFake, Request, answer
from tests.fakes.moody import events
from tests.helpers.documents import VALIDATOR


def error_line(error: UserError) -> str:
    """Return the line of `error` that a user sees, after a check that it is one short line."""
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), contextlib.suppress(SystemExit), command():
        raise error
    line = shown.getvalue()
    assert line.startswith("error: ") and line.endswith("\n") and len(line) < LONGEST_LINE + 20
    assert is_harmless(line) and line.count("\n") == 1
    return line


def is_harmless(text: str) -> bool:
    """Return whether `text` has no control characters and can be encoded."""
    return all(c.isprintable() or c in "\r\n" for c in text)


# with halves of surrogate pairs and control characters
CHARACTERS = st.characters(exclude_categories=())
TEXTS = st.one_of(
    st.text(CHARACTERS, max_size=20),
    st.sampled_from(
        [
            "",
            " ",
            "\x1b[2J",
            "\x00",
            "\u202e",
            "\ud800",
            "nan",
            "1",
            "-1",
            "x" * 5000,
            "a\nb",
            "$\\frac{",
        ]
    ),
)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from(
        [0, -1, 10**16, 10**400, -(10**400), 1e308, math.nan, math.inf, -math.inf, 0.5, 2**63]
    ),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
# Bytes that no writer of JSON makes.
BYTES = [
    b"",
    b"\xef\xbb\xbf",
    b"\xff\xfe[\x00]\x00",
    b"\x00" * 4096,
    b"[" * 200_000,
    b'{"problem":' * 100_000,
    b"[" + b"[]," * 100_000 + b"1]",
    b"[" + b"9" * 100_000 + b"]",
    b"[NaN, Infinity, -Infinity, 1e999]",
    b'{"schema": 1e999}',
    b'["\\ud800"]',
    b'"' + b"x" * 5_000_000,
    b"\n" * 100_000 + b"\x1b[2J",
]


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def spoiled(content: bytes) -> st.SearchStrategy[bytes]:
    """Draw `content` with some bytes overwritten, or cut off."""
    places = st.integers(0, max(0, len(content) - 1))

    def overwritten(changes: list[tuple[int, bytes]]) -> bytes:
        changed = bytearray(content)
        for place, patch in changes:
            changed[place : place + len(patch)] = patch
        return bytes(changed)

    patch = st.binary(min_size=1, max_size=4) | st.sampled_from(
        [b"0", b"7", b"a", b'"', b"{", b"}", b"\n", b","]
    )
    patches = st.lists(st.tuples(places, patch), min_size=1, max_size=4)
    return st.one_of(patches.map(overwritten), places.map(lambda end: content[:end]))


GOOD_ROWS = [
    {"id": "a", "problem": "What is 6 times 7?", "answer": 42},
    {"problem": "Half?", "answer": "\\frac12"},
]
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "problem": st.one_of(st.just("What is 6 times 7?"), VALUES),
        "answer": st.one_of(st.sampled_from([42, "042", "\\frac{1}{2}", "9" * 2000]), VALUES),
        "id": st.one_of(st.sampled_from(["a", 1, "1"]), VALUES),
        "answer_type": st.one_of(st.sampled_from(["integer", "math", "proof"]), VALUES),
        **dict.fromkeys(("solution", "grading_guidelines", "grading_scheme", "split"), VALUES),
    },
)


def lines(rows: Sequence[Any]) -> bytes:
    return b"\n".join(dumped(row) for row in rows)


PROBLEM_FILES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(BYTES),
    VALUES.map(dumped),
    st.lists(ROWS | VALUES, max_size=4).flatmap(
        lambda rows: st.sampled_from([dumped(rows), lines(rows)])
    ),
    st.lists(ROWS, min_size=1, max_size=3).map(dumped),
    spoiled(dumped(GOOD_ROWS)),
    spoiled(lines(GOOD_ROWS)),
)


def load_problems(path: Path) -> str | None:
    """Load a problem file and check its problems; return the error line if it is refused."""
    try:
        found = sets.load(str(path))
    except UserError as error:
        return error_line(error)
    assert (
        found.problems
        and len({p.id for p in found.problems}) == len(found.problems)
        and len(found.sha256) == 64
    )
    for p in found.problems:
        assert p.statement.strip() and p.answer_type in ("integer", "math", "proof")
        assert p.is_proof if p.answer is None else p.answer.strip()
        for text in (
            p.id,
            p.statement,
            p.answer or "",
            p.solution,
            p.guidelines,
            p.grading_scheme,
            p.split,
        ):
            text.encode()
    return None


def check_problem_file(folder: Path, content: bytes) -> None:
    for suffix in (".json", ".jsonl", ".csv"):
        path = folder / f"hostile{suffix}"
        path.write_bytes(content)
        line = load_problems(path)
        assert line is None or path.name in line


ODD_TEXTS = [
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e5",
    "0x10",
    "１６",
    "1_6",
    " 16 ",
    "16\n",
    "9" * 5000,
    "-" + "9" * 5000,
    "True",
    "None",
    "",
    "1.0",
    "16.5",
    "+16",
    "--16",
    "1e-400",
    "٣",
    "\ud800",
    "\x1b[2J",
    "9" * 30,
]


Place = tuple[str | int, ...]  # the keys and indices that lead to a value in a document


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Yield the place of every value in a document."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield (*here, key)
        yield from places(each, (*here, key))


def mutated(
    draw: Callable[[Any], Any], whole: dict[str, Any], everywhere: Sequence[Place]
) -> dict[str, Any]:
    """Return `whole` with a few of its values, at places of `everywhere`, deleted, exchanged or
    wrapped."""
    document: dict[str, Any] = json.loads(json.dumps(whole))
    depth = draw(st.integers(1, 9))  # evenly over depths: most values are fields of members
    chosen = [place for place in everywhere if len(place) == depth] or everywhere
    for place in draw(
        st.lists(st.sampled_from(chosen) | st.sampled_from(everywhere), min_size=1, max_size=3)
    ):
        holder: Any = document
        # an earlier change may have taken this place away
        with contextlib.suppress(KeyError, IndexError, TypeError):
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = draw(st.just([holder[place[-1]]]) | VALUES | VALUES)
            if draw(st.integers(0, 3)) == 0:
                del holder[place[-1]]
    return document


def check_results_file(folder: Path, good: dict[str, Any], content: bytes) -> None:
    """Check all readers of results on `content`, with the `good` document in the same folder."""
    name, model = good["experiment"], good["model"]["name"]
    (folder / "good.json").write_bytes(dumped(good | {"config": good["config"] | {"SEED": 7}}))
    bad = folder / "hostile.json"
    bad.write_bytes(content)
    for pair in (("good", "hostile"), ("hostile", "good"), ("hostile", "hostile")):
        try:
            read = [compare.result(load(each, folder)) for each in pair]
            shown = compare.table(read, anyway=True)
        except UserError as error:
            assert "hostile" in error_line(error)
        else:
            assert is_harmless(shown)
            assert all(
                math.isfinite(value) for each in read for of in each.final.values() for value in of
            )
    for take in (
        lambda: page.data([Results(bad)]),
        lambda: merge([folder / "good.json", bad], "merged", folder),
    ):
        try:
            take()
        except UserError as error:
            assert "hostile" in error_line(error)
    for each in (folder / "good.json", *folder.glob("merged.*json")):
        each.unlink()
    if found := lengths.measured(folder, model, name):
        assert is_harmless(found.source)
        assert all(
            math.isfinite(x) and x >= 0 for x in (found.prompt, found.answer, *found.solutions[0])
        )
    bad.unlink()


ESCAPES = "\x1b[2J\x1b[31m\x1b]0;title\x07\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\\x1b]52;c;aGk=\x07\r\b\x00\x7f\x9b2J"
HTML = "<script>alert(1)</script><img src=x onerror=alert(2)></table><!--"
RIGHT = "\\boxed{42}"


@dataclass(frozen=True)
class Case:
    """One answer of a hostile model to a problem with the answer 42. `right`: whether it states
    that; None: either."""

    name: str
    message: dict[str, Any]
    right: bool | None
    answer_type: str = "integer"
    finish_reason: Any = "stop"
    more: dict[str, Any] = field(default_factory=dict)  # other fields than the choices, or for them


def case_of(name: str, content: str, right: bool | None, **more: Any) -> Case:
    return Case(name, {"content": content}, right, **more)


def cases(size: int) -> list[Case]:
    """Return answers of about `size` characters each."""
    found = [
        case_of("one character", "x" * size, False),
        case_of("one character, then the box", "x" * size + RIGHT, True),
        case_of("open braces", "{" * size + RIGHT, True),
        case_of("closed braces", "}" * size + RIGHT, True),
        case_of("open boxes", "\\boxed{" * (size // 7) + RIGHT, True),
        case_of(
            "boxes that all close", "\\boxed{" * (size // 16) + "42" + "}" * (size // 16), False
        ),
        case_of("five boxes around it", "\\boxed{" * 5 + "42" + "}" * 5, True),
        case_of("a very long box", "\\boxed{" + "4" * size + "}", False),
        case_of("a very long box, then the box", "\\boxed{" + "4" * size + "}" + RIGHT, True),
        case_of("boxes side by side", "\\boxed{7}" * (size // 9) + RIGHT, True),
        case_of("backslashes", "\\" * (size // 2 * 2) + RIGHT, None),
        case_of("spaces in a box's name", ("\\boxed" + " " * 50) * (size // 56) + RIGHT, True),
        case_of("digits in no box", "\\boxed " + "4" * size + " " + RIGHT, True),
        case_of("thinking tags", "<think>" * (size // 7) + RIGHT, False),
        case_of("thinking tags, closed", "<think>" * (size // 7) + "</think>" + RIGHT, True),
        case_of("closing tags", "</think>" + "</think>" * (size // 8) + RIGHT, True),
        case_of("newlines and tabs", "\n\t\r\x0b\x0c\u2028" * (size // 6) + RIGHT, True),
        case_of("escapes", ESCAPES * (size // len(ESCAPES)) + RIGHT + ESCAPES, True),
        case_of("escapes in the box", "\\boxed{\x1b[31m42\x1b[0m}", False),
        case_of("newlines in the box", "\\boxed{\n\t42\n}", True),
        case_of("HTML", HTML * (size // len(HTML)) + RIGHT, True),
        case_of("HTML in the box", "\\boxed{<b>42</b>}", False),
        case_of("writing from right to left", "\u202e\u2066" + RIGHT + "\u202c", True),
        case_of("halves of pairs", "\ud800\udc00\udfff" + RIGHT + "\ud800", True),
        case_of("NULs", "\x00" * size + RIGHT, True),
        case_of("nothing", "", False),
        case_of("cut off after the box", RIGHT + "x" * size, None, finish_reason="length"),
        Case("no content", {"content": None}, False),
        Case(
            "reasoning and box",
            {"content": RIGHT, "reasoning_content": ESCAPES * (size // len(ESCAPES))},
            True,
        ),
    ]
    inner = [
        "9" * 900,
        "+".join("x" * 400),
        "(" * 450 + ")" * 450,
        "\\frac{" * 150,
        "a b " * 240,
        "1.1" * 300,
    ]
    inner.append("\x1b" * 500)
    found += [case_of(f"box {i}", f"\\boxed{{{text}}}", False) for i, text in enumerate(inner)]
    found += [
        case_of("math: right", "{" * size + RIGHT, True, answer_type="math"),
        case_of("math: equal", "\\boxed{\\frac{84}{2}}", True, answer_type="math"),
        case_of("math: escapes", f"\\boxed{{{ESCAPES}}}", False, answer_type="math"),
        *(
            case_of(f"math: box {i}", f"\\boxed{{{text}}}", False, answer_type="math")
            for i, text in enumerate(inner)
        ),
    ]
    return found


ODD: list[Any] = [
    5,
    -1.5,
    True,
    "x",
    [],
    [1],
    {},
    {"a": 1},
    math.nan,
    1e308,
    10**400,
    10**4000,
    -(10**20),
    "\ud800",
    ESCAPES,
]


def odd_shapes() -> list[Case]:
    """Return replies that are no chat completions, or have a field of another type."""
    message = {"content": RIGHT}
    found = [
        Case(f"{name} {value!r:.20}", message | {name: value}, None)
        for value in ODD
        for name in FIELDS
    ]
    found += [Case(f"finish {value!r:.20}", message, None, finish_reason=value) for value in ODD]
    for value in ODD:
        usages = [
            {name: value}
            for name in ("prompt_tokens", "completion_tokens", "prompt_tokens_details")
        ]
        usages.append({"prompt_tokens_details": {"cached_tokens": value}})
        tops = [{name: value} for name in ("usage", "choices", "object", "id", "error", "logprobs")]
        found += [
            Case(f"{more!r:.60}", message, None, more=more)
            for more in (*tops, *({"usage": u} for u in usages))
        ]
    return found


FIELDS = ("content", "reasoning_content", "reasoning", "role", "tool_calls", "refusal")
EXPLOSION = case_of("math: a tower of powers", "\\boxed{9^{9^{9^9}}}", False, answer_type="math")


class HostileServer(HttpFake):
    """A server that answers problem "case i" with `cases[i]`, or all with `refusal`: status and
    message."""

    def __init__(
        self, cases: Sequence[Case], model: str = "hostile", refusal: tuple[int, str] | None = None
    ) -> None:
        self.cases, self._model, self._refusal = cases, model, refusal
        super().__init__()

    def get(self, request: Request) -> None:
        if request.path != "/v1/models":
            return super().get(request)
        models = [{"id": self._model, "object": "model", "owned_by": "x"}]
        answer(200, dumped({"object": "list", "data": models}))(request)

    def post(self, request: Request, body: bytes) -> None:
        if self._refusal:
            status, message = self._refusal
            answer(
                status, dumped({"error": {"message": message, "type": ESCAPES, "code": ESCAPES}})
            )(request)
            return
        numbers = re.findall(r"case (\d+) of hostile output", body.decode())
        if not numbers:  # the trial of seeds
            answer(400, dumped({"error": "no case"}))(request)
            return
        (number,) = numbers
        case = self.cases[int(number)]
        head = {"id": "x", "object": "chat.completion", "created": 0, "model": self._model}
        tail = {
            "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
        } | case.more
        if json.loads(body).get("stream") and int(number) % 2:  # every other answer is streamed
            answer(200, streamed(head, case, tail), "text/event-stream")(request)
            return
        choice = {
            "finish_reason": case.finish_reason,
            "message": {"role": "assistant"} | case.message,
        }
        answer(200, dumped(head | {"choices": [choice]} | tail))(request)

    def problems(self, path: Path) -> Path:
        rows = [
            {
                "id": f"{i} {case.name}",
                "problem": f"case {i} of hostile output",
                "answer_type": case.answer_type,
            }
            for i, case in enumerate(self.cases)
        ]
        path.write_bytes(dumped([row | {"answer": "42"} for row in rows]))
        return path


def check_run(
    folder: Path, experiment: str, cases: Sequence[Case], *overrides: str, memory: int
) -> dict[str, Any]:
    """Run `experiment` on a server that answers with `cases`, check memory (bytes), output and
    grades."""
    model = f"hostile {ESCAPES} {HTML} $\\frac{{ \u202e"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(HostileServer(cases, model)) as server:
        path = server.problems(folder / "cases.json")
        args = (f"PROBLEMS={path}", *overrides)
        process, peak = start(experiment, *args, BASE_URL=server.url, RESULTS_DIR=str(folder)), 0
        while process.poll() is None:  # its output fits into the pipes
            with contextlib.suppress(OSError):
                if found := re.search(
                    r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text()
                ):
                    peak = 1024 * int(found[1])
            time.sleep(0.05)
        status, out, err = ended(process)
    assert status == 0, err[-2000:]
    assert is_harmless(out) and is_harmless(err)
    assert 0 < peak < memory, f"{peak / 1e6:.0f} MB"
    written = (folder / f"{experiment}.json").read_bytes()
    assert written.isascii() and all(byte >= 32 or byte == 10 for byte in written)
    document: dict[str, Any] = json.loads(written)
    VALIDATOR.validate(document)
    assert (
        document["complete"]
        and document["model"]["name"] == model
        and len(document["problems"]) == len(cases)
    )
    for case, problem in zip(cases, document["problems"], strict=True):
        for step in problem["steps"]:
            if case.right is not None:
                assert {member["correct"] for member in step["members"]} == {case.right}, (
                    case.name,
                    step["members"][0],
                )
    assert (folder / f"{experiment}.png").read_bytes()[:4] == b"\x89PNG"
    return document


async def check_shapes(folder: Path, cases: Sequence[Case]) -> None:
    """Check that a reply of any shape becomes a completion that can be kept and counted."""
    sampling = Sampling(max_tokens=100)
    with (
        contextlib.closing(HostileServer(cases)) as here,
        Journal(folder / "shapes.jsonl") as journal,
    ):
        server = attach.probe(here.url, "a test")
        assert server
        async with Generator(server, journal, 32, 60.0) as generator:

            async def check(i: int, case: Case) -> None:
                asked = {"role": "user", "content": f"case {i} of hostile output"}
                reply = await generator([asked], i, sampling)
                assert all(isinstance(text, str) for text in (reply.thinking, reply.answer)), (
                    case.name
                )
                assert reply.finish_reason is None or isinstance(reply.finish_reason, str), (
                    case.name
                )
                for count in (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens):
                    assert type(count) is int and 0 <= count < 10**15, case.name
                (reply.thinking + reply.answer).encode()
                if reply.error:
                    assert len(reply.error) < 1000, case.name
                else:
                    again = await generator([asked], i, sampling)
                    assert again == reply and again.reused, case.name

            await asyncio.gather(*(check(i, case) for i, case in enumerate(cases)))


def streamed(head: dict[str, Any], case: Case, tail: dict[str, Any]) -> bytes:
    """Return a reply in three chunks; a text is cut in its middle."""
    halves: list[dict[str, Any]] = [{}, {}]
    for name, value in case.message.items():
        cut = len(value) // 2 if isinstance(value, str) else 0
        halves[0][name], halves[1][name] = (value[:cut], value[cut:]) if cut else (value, None)
    chunks = [head | {"choices": [{"delta": half, "finish_reason": None}]} for half in halves]
    chunks.append(head | {"choices": [{"delta": {}, "finish_reason": case.finish_reason}]} | tail)
    return events(chunks)
