"""RSA with the settings of its paper's code."""

from core import constants
from core.scaffolds import experiment_file, rsa_paper


def test_its_settings_are_those_of_the_papers_code() -> None:
    whole = constants.read(rsa_paper.Constants, experiment_file.load("16_rsa_paper").namespace)
    assert (whole.N, whole.K, whole.T + 1, whole.CARRY, whole.ORDER) == (16, 4, 10, "full", "random")
    assert (whole.TEMPERATURE, whole.TOP_P, whole.TOP_K, whole.MIN_P) == (1.0, 1.0, 0, 0.0)
    assert (whole.MAX_TOKENS, whole.ANSWER_TOKENS) == (8192, 0)
