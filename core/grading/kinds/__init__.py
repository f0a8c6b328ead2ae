r"""Find the kinds of answers. Each kind has one file here.

A kind is a class that derives from Kind (core/grading/kind.py). Nothing else has to be edited: a
kind is found by its `name`, which is the answer_type of problems. As an example, this file would
define the kind "truth", for statements that are true or false:

    from dataclasses import replace

    from core.base.errors import RowError
    from core.constants import BOXED
    from core.grading.kind import Cells, Kind
    from core.grading.markup import without_markup
    from core.types import Problem

    class Truth(Kind):
        name = "truth"
        forms = Kind.forms | {BOXED: "put True or False in \\boxed{}."}

        def value(self, text: str) -> str | None:
            word = without_markup(text).strip(".").lower()
            return word if word in ("true", "false") else None

        @classmethod
        def claims(cls, problem: Problem, cells: Cells) -> bool:
            return cls().value(problem.answer or "") is not None

        @classmethod
        def complete(cls, problem: Problem, cells: Cells) -> Problem:
            if not cls.claims(problem, cells):
                raise RowError("the answer is neither true nor false", "Correct it")
            return replace(problem, answer=cls().value(problem.answer or ""))

The methods answer these questions:
- How does a prompt ask for the answer? `form` and `forms`, and `opening` for a forced answer. If
  `forms` lacks LAST_NUMBER, answers are words, and ANSWER=number means "text".
- How is a reply read? `value` reads the content of a box, such as \text{True}. `stated` reads the
  words after "The answer is", by default like a box. `bare` reads a reply that is nothing but its
  answer. `read` replaces all of them, for example by tags.
- How are votes counted? `canonical`, by default the `value` of an answer. If answers of different
  forms may be equal, `is_equal` compares them, and `compares` is True.
- How is an answer graded? `score`, from 0 to 1, and `doubt`.
- Which rows of a problem set belong to this kind (`claims`), and how is a row checked
  (`complete`)? The first kind that claims a row gets it, in alphabetical order of the files. A
  problem's `details` are stored in results. They contain the other needs of a kind, such as the
  options of a choice or the scorer of a task.

tests/core/grading/test_kinds.py needs a row for each kind."""

import pkgutil
from functools import cache
from importlib import import_module

from core.base.errors import UserError
from core.grading.kind import Kind
from core.types import Problem


@cache
def kinds() -> dict[str, type[Kind]]:
    """Return all kinds by name."""
    by_name: dict[str, type[Kind]] = {}
    for module in pkgutil.iter_modules(__path__):
        contents = vars(import_module(f"{__name__}.{module.name}"))
        for kind in contents.values():
            if isinstance(kind, type) and issubclass(kind, Kind) and "name" in vars(kind):
                by_name[kind.name] = kind
    return by_name


def named(name: str) -> type[Kind]:
    """Return the kind with this name. Raises UserError for an unknown name."""
    if name not in kinds():
        raise UserError(f"the answer type {name!r:.80} is not one of {', '.join(kinds())}")
    return kinds()[name]


def kind_of(problem: Problem) -> Kind:
    """Return the kind of a problem's answer, bound to the problem. Raises UserError."""
    return named(problem.answer_type)(problem)
