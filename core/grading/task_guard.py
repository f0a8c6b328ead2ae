"""Take the rights of a process that scores untrusted answers (task_process.py).

Scorers of Reasoning Gym call `eval` and sympy's parser, which evaluates Python. Three layers
prevent harm. First, `eval` becomes ast.literal_eval, and the parser accepts only calls of sympy's
classes. Second, a hook of Python refuses to write files, start programs, open connections and so
on. Third, the kernel refuses to write files, and limits the number of open files."""

import ast
import builtins
import os
import resource
import sys
from functools import cache
from typing import Any

# Events of sys.addaudithook that only compute or read. Every other event is refused.
_HARMLESS = {
    "builtins.id",
    "code.__new__",
    "compile",
    "exec",
    "import",
    "marshal.load",
    "marshal.loads",
    "object.__delattr__",
    "object.__getattr__",
    "object.__setattr__",
    "open",
    "os.listdir",
    "os.scandir",
    "sys._getframe",
    "sys.excepthook",
    "sys.unraisablehook",
}
_READ_ONLY = {None, "r", "rb", "rt"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OPEN_FILES = 64

# nodes of an expression that sympy's parser makes of a formula
_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.expr_context,
)
# functions in formulas, besides sympy's classes such as Symbol and sin
_OF_PYTHON = ("abs", "max", "min", "pow", "round", "sum")
_OF_SYMPY = ("sqrt", "cbrt", "root", "real_root")
_TAKE_TEXT = {"Symbol", "Function", "Integer", "Float", "Rational"}


def protect() -> None:
    """Take the rights of this process, which can't get them back."""
    _replace_evaluation()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    sys.addaudithook(_refuse)


def _refuse(event: str, details: tuple[Any, ...]) -> None:
    """Raise PermissionError for an event that acts on the outside."""
    if event not in _HARMLESS:
        raise PermissionError(event)
    if event == "open":
        _, mode, flags = details
        if mode not in _READ_ONLY or (isinstance(flags, int) and flags & _WRITING):
            raise PermissionError(event)


def _replace_evaluation() -> None:
    from sympy.parsing import sympy_parser

    names()
    sympy_parser.eval_expr = formula
    for name, module in sys.modules.items():
        if name.startswith("reasoning_gym.algorithmic.") or name.endswith(".n_queens"):
            vars(module)["eval"] = ast.literal_eval


def formula(code: str, local_dict: dict[str, Any], global_dict: dict[str, Any]) -> Any:
    """Evaluate the `code` that sympy's parser has made of a formula, with the names in
    `local_dict`, sympy's classes and a few functions. This replaces sympy's eval_expr. Raises
    ValueError if the code is no formula."""
    tree = ast.parse(code, mode="eval")
    texts = set[ast.AST]()
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ValueError(f"no formula: {type(node).__name__}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            texts.update(node.args if node.func.id in _TAKE_TEXT else ())
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts:
            raise ValueError("no formula: a text")
    return eval(compile(tree, "<formula>", "eval"), names(), local_dict)


@cache
def names() -> dict[str, Any]:
    """Return the names that formulas may use, with their objects."""
    import sympy

    by_name: dict[str, Any] = {"__builtins__": {}}
    for name in _OF_PYTHON:
        by_name[name] = getattr(builtins, name)
    for name, thing in vars(sympy).items():
        is_class = isinstance(thing, type) and issubclass(thing, sympy.Basic)
        if is_class or isinstance(thing, sympy.Basic) or name in _OF_SYMPY:
            by_name[name] = thing
    return by_name
