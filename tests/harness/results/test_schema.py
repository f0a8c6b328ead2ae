"""The schema of results, and the models that read them."""

import pytest
from msgspec import structs

from harness.results import model
from tests.helpers.documents import SCHEMA, VALIDATOR

PARTS = {"Head": SCHEMA} | SCHEMA["$defs"]
MODELS = {
    each
    for each in vars(model).values()
    if isinstance(each, type) and issubclass(each, model.Record)
}
NOT_IN_SCHEMA = {model.Record, model.Grading}  # Grading is flattened as it is read


def test_the_schema_is_valid() -> None:
    VALIDATOR.check_schema(SCHEMA)


@pytest.mark.parametrize("part", sorted(MODELS - NOT_IN_SCHEMA, key=str))
def test_what_a_model_reads_is_in_the_schema_and_what_it_requires_is_always_written(
    part: type[model.Record],
) -> None:
    stated, fields = PARTS[part.__name__], structs.fields(part)
    assert {each.encode_name for each in fields} <= stated["properties"].keys()
    assert {each.encode_name for each in fields if each.required} <= set(stated["required"])
