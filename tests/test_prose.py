"""Check the prose of the project against the rules of CONTRIBUTING.md: docstrings, messages, names
and documents.

`python tests/test_prose.py [PATH …]` lists the offences, those of the named files and folders only.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = ("core", "harness", "labs", "experiments", "scripts", "benchmarks")
# Texts that a model is asked with are results: they stay to the letter.
PROMPTS = re.compile(
    r"core/(rsa|prompts)\.py|harness/scaffolds/|labs/proofs/(rubric|defence|schemes|curate/)"
    r"|labs/star/(prompts|hints)"
    r"|labs/demo/"
)
NAMES = {"told", "said", "made", "purse", "door", "guise", "spool"}
WORDS = (
    r"whoever|nobody|lest|purses?|doors?|guises?|spools?|somebody else's|one's own|beside|behind"
    r"|thereof|"
    r"(?:is|are|was|were|be|being) told|tells? of|says? nothing|goes on|go on|going on|comes? to"
    r"|came to|"
    r"stands?(?!-)|stood|lies|has none|have none|is of|are of|such as are|of those|those of"
    r"|that of|the same of"
)
PRIVATE = re.compile(rf"\b({WORDS})\b", re.IGNORECASE)
BEGINNINGS = re.compile(
    r"(What|Those|That|Of|Where|Whether|Why|How|Its|Their|The same|Which|Who|Whose|When|As|By"
    r"|From)\b"
)
# begin docstrings of functions
VERBS = (ROOT / "tests" / "cases" / "verbs.txt").read_text(encoding="utf-8").split()
LONGEST = 25  # words of a sentence
SEMICOLON = re.compile(r"\w \w+[a-z)]; [a-z]+ \w")  # in prose, not in CSS

DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
READ = {*DOCUMENTED, ast.Expr, ast.Constant, ast.JoinedStr, ast.Name, ast.arg}
Offence = tuple[str, str]  # the place, and the offence


def private(text: str) -> list[str]:
    """List the private words of a text. Constants in capital letters are names, not words."""
    return [word for word in PRIVATE.findall(text) if not word.isupper()]


def files() -> list[Path]:
    """List the project's Python files outside tests."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def sentences(text: str) -> list[str]:
    """Split text into sentences, without code in backticks, doctests, links and tables."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(>>>|\.\.\.|\||<).*$|^ {4}.* = .*$", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "x", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    parts = re.split(r"(?<=[.!?:])\*{0,2}\s+|\n\s*\n|\n\s*[-*#\d]+\.?\s|\n\s*\w+: ", text)
    return [" ".join(part.split()) for part in parts if part and part.strip()]


@cache
def texts_of(
    source: str,
) -> tuple[list[tuple[int, str, str]], list[tuple[int, str]], list[tuple[int, str]]]:
    """List the docstrings, the messages and the names of a file."""
    nodes = [node for node in ast.walk(ast.parse(source)) if type(node) in READ]
    return list(docstrings(nodes)), list(messages(nodes)), list(names(nodes))


def docstrings(nodes: list[Any]) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind (module, class, function or property) and text of each docstring."""
    for node in nodes:
        if not isinstance(node, DOCUMENTED) or not (text := ast.get_docstring(node)):
            continue
        kind = {ast.Module: "module", ast.ClassDef: "class"}.get(type(node), "function")
        marks = {ast.unparse(each) for each in getattr(node, "decorator_list", ())}
        if any("property" in mark for mark in marks):
            kind = "property"
        yield node.body[0].lineno, kind, text


def messages(nodes: list[Any]) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string of four words or more that is no docstring."""
    inner = {
        id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
    }
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
        ):
            text = node.value
        else:
            continue
        if len(re.findall(r"[a-z]{2,} [a-z]", text)) >= 2:
            yield node.lineno, text


def names(nodes: list[Any]) -> Iterator[tuple[int, str]]:
    """Yield line and name of each variable, argument, function and class that the file defines."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, DOCUMENTED[1:]):
            yield node.lineno, node.name


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment."""
    for number, line in enumerate(source.splitlines(), 1):
        if found := re.search(r"(?:^|\s)# (.*)", line):
            yield number, found[1]


def offences(path: Path, source: str = "") -> list[Offence]:
    """List the offences of a file or its new `source`: those of its docstrings, messages, comments
    and names."""
    source = source or path.read_text(encoding="utf-8")
    where, (documented, said, named) = path.relative_to(ROOT).as_posix(), texts_of(source)
    found: list[Offence] = []
    for line, kind, text in documented:
        first = text.splitlines()[0]
        if BEGINNINGS.match(text) or (
            kind == "function" and text.split()[0].strip(".,:") not in VERBS
        ):
            found.append((f"{where}:{line}", f"beginning of a {kind}: {first}"))
        found += [(f"{where}:{line}", f"'{word}' in: {first}") for word in private(text)]
        if len(re.findall(r"\bwhat\b", text, re.IGNORECASE)) > 1:
            found.append((f"{where}:{line}", f"more than one 'what': {first}"))
        found += [
            (f"{where}:{line}", f"long: {part}")
            for part in sentences(text)
            if len(part.split()) > LONGEST
        ]
        found += [(f"{where}:{line}", f"semicolon: {first}")] * bool(SEMICOLON.search(text))
    for line, text in [*said, *comments(source)]:
        if not PROMPTS.search(where):
            found += [(f"{where}:{line}", f"'{word}' in: {text}") for word in private(text)]
            found += [(f"{where}:{line}", f"semicolon: {text}")] * bool(SEMICOLON.search(text))
    found += [(f"{where}:{line}", f"name: {name}") for line, name in named if name in NAMES]
    return found


def test_no_text_in_code_has_an_offence() -> None:
    assert [f"{place}: {offence}" for path in files() for place, offence in offences(path)] == []


def test_where_is_for_places() -> None:
    texts = [
        text for path in files() for _, _, text in texts_of(path.read_text(encoding="utf-8"))[0]
    ]
    assert sum("where" in text.lower().split() for text in texts) < len(texts) / 100


def test_new_text_of_the_old_kind_is_found() -> None:
    path = ROOT / "core" / "an_example.py"
    old = (
        "What is told of a run where nobody asked.",
        "Those of all problems.",
        "The name of a run, as it stands.",
        f"Return a value {'and more words ' * 12}.",
        "Return the name of a run; it is short.",
    )
    for text in old:
        assert offences(path, f'def f(told):\n    """{text}"""\n'), text
    assert not offences(path, 'def f(name):\n    """Return the name of a run."""\n')


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or [ROOT]
    shown = [
        each
        for path in files()
        if any(path.is_relative_to(one) for one in chosen)
        for each in offences(path)
    ]
    print(
        "\n".join(f"{place}: {offence}" for place, offence in shown),
        f"{len(shown)} offences",
        sep="\n",
    )
