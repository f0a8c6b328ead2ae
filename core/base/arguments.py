"""The arguments of a command: what is wrong with them is one line, as all that a user can put right."""

import argparse
from typing import NoReturn

from core.base.errors import UserError


class Parser(argparse.ArgumentParser):
    """Of scripts/`prog`. Parse within `errors.command`: raises UserError."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. For help: bash scripts/{self.prog} --help")
