"""Write core/results/schema.json from the models: `python -m core.results.schema`."""

import json
from pathlib import Path
from typing import Any

from msgspec.json import schema_components

from core.results import model
from core.results.model import SCHEMA, Head, Part

PATH = Path(__file__).with_name("schema.json")
TITLE = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"qed-rsa results, schema {SCHEMA}"}


def schema() -> dict[str, Any]:
    """Return the JSON schema of the files that are written: the models with their fields `also` and `always`."""
    parts = [each for each in vars(model).values() if isinstance(each, type) and issubclass(each, Part)]
    also = [(part, *each) for part in parts for base in part.mro()[::-1] for each in _own(base, "also", {}).items()]
    kinds, found = schema_components([*(kind for *_, kind in also), *parts], ref_template="#/$defs/{name}")
    for (part, name, _), kind in zip(also, kinds, strict=False):
        found[part.__name__]["properties"][name] = kind
    for part in parts:
        of = found[part.__name__]
        always = {name for base in part.mro() for name in _own(base, "always", ())}
        of["required"] = sorted(always.union(of["required"]))
        of["description"] = " ".join(of["description"].split())
        for kind in of["properties"].values():
            kind.pop("default", None)  # of the reader
    written = json.dumps(found)
    used = {name: found[name] for name in sorted(found) if f'"#/$defs/{name}"' in written}
    return {**TITLE, **found[Head.__name__], **TITLE, "$defs": used}


def _own(base: type, name: str, none: Any) -> Any:
    return vars(base).get(name, none)


def text() -> str:
    """Return the schema as schema.json holds it, with one line for each property."""
    return _laid_out(schema()) + "\n"


def _laid_out(value: Any, name: str = "", pad: str = "\n") -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    is_list = name in ("", "$defs", "properties")
    inner = (
        f"{json.dumps(key)}: {json.dumps(each) if name == 'properties' else _laid_out(each, key, pad + ' ' * is_list)}"
        for key, each in value.items()
    )
    return f"{{{pad} {f',{pad} '.join(inner)}{pad}}}" if is_list else f"{{{', '.join(inner)}}}"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
