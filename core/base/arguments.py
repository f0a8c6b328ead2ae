"""Parse the arguments of a command, and report wrong ones in one line."""

import argparse
from typing import NoReturn

from core.base.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser for scripts/`prog` that raises UserError instead of ending the process. Use it in `errors.command`."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. For help: bash scripts/{self.prog} --help")
