"""SGLang's own argument parser, without torch, CUDA and the rest: what it imports beyond a few small packages is stood
in for. Run by tests/engines/test_sglang_flags.py with an interpreter that has the wheel:

    python sglang_parser.py <command lines as JSON      prints the parsed values, a list of objects
"""

import abc
import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import types
from typing import Any
from unittest.mock import MagicMock

REAL = ("sglang", "msgspec", "typing_extensions", "pydantic", "pydantic_core", "annotated_types", "typing_inspection",
        "numpy", "packaging", "orjson", "psutil", "yaml")  # fmt: skip


class AnyClass(abc.ABCMeta):
    """Classes of absent packages: they can be inherited from, called, indexed and joined."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, key: Any) -> Any:
        return cls


class Instance(metaclass=AnyClass):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class Absent(types.ModuleType):
    """A package that is not there, and everything in it: names with a capital are classes, others modules, which can
    also be called, as decorators above all."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "99.0.0"
        if name.startswith("__"):
            raise AttributeError(name)
        found = AnyClass(name, (Instance,), {}) if name.lstrip("_")[:1].isupper() else Absent(f"{self.__name__}.{name}")
        setattr(self, name, found)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else Absent("result")

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iter__(self) -> Any:
        return iter(())


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.split(".")[0]
        if top in REAL or top in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return Absent(spec.name)

    def exec_module(self, module: Any) -> None: ...


def parser() -> argparse.ArgumentParser:
    spec = importlib.util.find_spec("sglang")
    assert spec and spec.submodule_search_locations
    package = types.ModuleType("sglang")  # without its __init__, which patches transformers
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["sglang"] = package
    sys.meta_path.insert(0, Finder())
    from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found]

    made = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(made)
    return made


def main() -> None:
    made = parser()
    kinds = {option: type(action).__name__ for action in made._actions for option in action.option_strings}
    read = []
    for args in json.load(sys.stdin):
        values = vars(made.parse_args(args))
        read.append({name: value for name, value in values.items() if isinstance(value, (str, int, float))})
        read[-1]["deprecated"] = ",".join(a for a in args if "deprecated" in kinds.get(a, "").lower())
    json.dump(read, sys.stdout)


if __name__ == "__main__":
    main()
