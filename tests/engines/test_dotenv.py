"""The .env file: what is written into one comes out of it, and nothing in it can break the reading."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engines.environment import dotenv

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=30)
KEYS = st.from_regex(r"[A-Za-z0-9_./+=-]{1,40}", fullmatch=True)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    for name, value in dotenv(text).items():
        assert name.isascii() and name.isidentifier() and isinstance(value, str)


@given(NAMES, PLAIN, st.sampled_from(["", "export ", "  export\t"]), st.sampled_from(["", "  # the key", " #'\""]))
def test_a_quoted_value_comes_out_as_it_went_in(name: str, value: str, before: str, behind: str) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    assert dotenv(f'{before}{name}="{escaped}"{behind}') == {name: value}
    if "'" not in value:
        assert dotenv(f"{before}{name} = '{value}'{behind}\r\n") == {name: value}


@given(st.dictionaries(NAMES, KEYS), st.sampled_from(["\n", "\r\n", "\n\n# a comment\n"]))
def test_keys_need_no_quotes(keys: dict[str, str], end: str) -> None:
    assert dotenv(end.join(f"{name}={key} # mine" for name, key in keys.items())) == keys


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=1\nA=2", {"A": "2"}),
        ("\ufeffA=1", {"A": "1"}),
        ("A=", {"A": ""}),
        ("A= # nothing", {"A": ""}),
        ("A=a#b", {"A": "a#b"}),
        ("A=a b # c", {"A": "a b"}),
        ("#A=1\n# B=2\n\n   \nC=3", {"C": "3"}),
        ('A="x\\ny"', {"A": "x\ny"}),
        ('A="no end', {"A": '"no end'}),
        ("A='it''s'", {"A": "'it''s'"}),
        ("1A=1\nA-B=2\n=3\nA\nset A=4", {}),
        ("A=$HOME", {"A": "$HOME"}),
    ],
)
def test_lines_are_read_as_elsewhere(text: str, found: dict[str, str]) -> None:
    assert dotenv(text) == found
