"""The page of constants has those of the labs' commands, and no section of what is gone."""

from core.scaffolds import experiment_file
from labs.proofs.curate.tool import CurateConstants
from labs.proofs.grade.cli import GradeConstants
from tests.test_constants import own_constants, read_page

COMMANDS = {"grade.sh": GradeConstants(), "schemes.sh and filter.sh": CurateConstants()}


def test_the_page_of_constants_has_those_of_the_commands_and_no_others() -> None:
    page = read_page()
    assert {name: page.pop(name) for name in COMMANDS} == {name: own_constants(of) for name, of in COMMANDS.items()}
    assert page.keys() <= {"Of every experiment", *(path.stem for path in experiment_file.paths())}
