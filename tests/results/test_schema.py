"""The schema of results: what the models say."""

from core.results import schema


def test_the_file_is_what_the_models_say() -> None:
    assert schema.PATH.read_text(encoding="utf-8") == schema.text(), "write it anew: python -m core.results.schema"
