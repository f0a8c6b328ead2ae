"""Parse the arguments of a command, and report invalid arguments in one line."""

import argparse
from typing import NoReturn

from core.base.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser for the arguments of scripts/`prog`. Unlike argparse, it raises UserError for an invalid argument."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. For help: bash scripts/{self.prog} --help")
