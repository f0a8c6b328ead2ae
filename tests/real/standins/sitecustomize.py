"""Replace modules that SGLang imports but that lack a build for CPUs, by empty ones with any
attribute.

Python reads this file at its start, if PYTHONPATH has its folder. SGLang's own code for CPUs does
all computing."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

MADE_UP = ("torchvision", "torchaudio", "sgl_kernel", "cutlass")


class Anything:
    """An object that can be called and has any attribute."""

    def __init__(self, *given: object, **named: object) -> None:
        pass

    def __call__(self, *given: object, **named: object) -> object:
        # a decorator changes nothing
        return given[0] if len(given) == 1 and callable(given[0]) else Anything()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Module(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 - what it is declared as

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in MADE_UP or _is_for_transformers():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _is_for_transformers() -> bool:
    """Return whether transformers imports the module: it works without."""
    frame = sys._getframe(2)
    while frame.f_back and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return "/transformers/" in frame.f_code.co_filename


sys.meta_path.insert(0, Finder())
