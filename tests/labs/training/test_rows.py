"""Rows to train on: read or refused in one line, how often and in what order they go through, and
what a model is asked and answers; and what can't be trained. No torch here."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.shape import Shape
from labs.training import starts, to_gguf
from labs.training.chat import Chat
from labs.training.finetune import finetune, options_of
from labs.training.rows import Line, passes, read
from tests.labs.training import helpers as training
from tests.labs.training.models import edit, random_folder

GOOD = '{"instruction": "1+1?", "output": "2"}\n'
BAD_DATA = {
    "nothing": ("", ""),
    "torn": (GOOD + '{"instruction": "1', "line 2"),
    "a list": (GOOD + "\n[]\n", "line 3"),
    "no output": ('{"instruction": "1"}\n', "line 1"),
    "a list for input": ('{"instruction": "1", "input": [], "output": "2"}\n', "line 1"),
    "half a character": ('{"instruction": "\\ud800", "output": "2"}\n', "line 1"),
    "not a number": ('{"instruction": "1", "output": NaN}\n', "line 1"),
}


@pytest.mark.parametrize("what", BAD_DATA)
def test_data_that_cannot_be_trained_on_is_one_line_that_names_it(
    what: str, tmp_path: Path
) -> None:
    text, place = BAD_DATA[what]
    (tmp_path / "data.jsonl").write_text(text)
    with pytest.raises(UserError, match=rf"data\.jsonl.*{place}"):
        read(tmp_path / "data.jsonl")


@given(st.text(min_size=1), st.text(), st.text(min_size=1))
def test_what_json_can_hold_comes_back(
    tmp_path_factory: pytest.TempPathFactory, prompt: str, more: str, reply: str
) -> None:
    path = tmp_path_factory.mktemp("row") / "data.jsonl"
    path.write_text(
        json.dumps({"instruction": prompt, "input": more, "output": reply, "round": 3}) + "\n"
    )
    if prompt.strip() and reply.strip():
        (row,) = read(path)
        assert (row.prompt, row.output) == (f"{prompt}\n\n{more}" if more else prompt, reply)


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=40),
    st.floats(0.01, 5),
    st.integers(0, 2**40),
)
def test_every_row_goes_through_so_many_times(lengths: list[int], epochs: float, seed: int) -> None:
    orders = passes(lengths, epochs, None, seed)
    assert orders == passes(lengths, epochs, None, seed)
    assert all(len(set(order)) == len(order) for order in orders)
    counts = Counter(i for order in orders for i in order)
    assert all(int(epochs) <= counts[i] <= int(epochs) + 1 for i in range(len(lengths)))
    assert abs(counts.total() - epochs * len(lengths)) <= 1


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=40),
    st.integers(1, 5000),
    st.integers(0, 2**40),
)
def test_tokens_are_reached_and_passed_by_less_than_a_row(
    lengths: list[int], tokens: int, seed: int
) -> None:
    orders = passes(lengths, 3.0, tokens, seed)
    through = [lengths[i] for order in orders for i in order]
    assert sum(through) >= tokens > sum(through[:-1])
    counts = Counter(i for order in orders for i in order)
    assert max(counts.values()) - min(counts[i] for i in range(len(lengths))) <= 1


# What models are asked and answer


OPENED = "<|im_start|>user\n1?<|im_end|>\n<|im_start|>assistant\n<think>\n"
PLAIN = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}<|im_end|>{% endfor %}{% if "
    "add_generation_prompt %}[a]"
)


@pytest.mark.parametrize(
    ("reply", "asked", "answered"),
    [
        ("<think>\na\n</think>\n\nb", OPENED, "a\n</think>\n\nb"),
        ("a\n</think>\n\nb", OPENED, "a\n</think>\n\nb"),
        ("b", f"{OPENED}\n</think>\n\n", "b"),
        ("<think>\nnever ended", OPENED, "never ended"),
    ],
)
def test_thinking_that_the_template_opens_is_not_opened_twice(
    folder: Path, reply: str, asked: str, answered: str
) -> None:
    chat = Chat.of(folder)
    assert chat.end == "<|im_end|>" and chat.texts(Line("1?", reply)) == (asked, answered)


@pytest.mark.parametrize(
    ("tail", "reply", "asked", "answered"),
    [
        ("{% endif %}", "<think>\na\n</think>\n\nb", "[a]", "<think>\na\n</think>\n\nb"),
        ("{% endif %}", "a\n</think>\n\nb", "[a]", "<think>\na\n</think>\n\nb"),
        ("{% endif %}", "b", "[a]", "b"),
        # it knows no enable_thinking
        ("<think>\n{% endif %}", "b", "[a]<think>\n\n</think>\n\n", "b"),
        ("<think>\n{% endif %}", "a\n</think>\n\nb", "[a]<think>\n", "a\n</think>\n\nb"),
    ],
)
def test_other_templates(
    folder: Path, tmp_path: Path, tail: str, reply: str, asked: str, answered: str
) -> None:
    chat = Chat(PLAIN + tail.replace("<think>\n{", "<think>{{ '\\n' }}{"), "<|im_end|>")
    assert chat.texts(Line("1?", reply)) == (f"[user]1?<|im_end|>{asked}", answered)
    assert chat.texts(Line("1?", reply, system="Be brief."))[0].startswith(
        "[system]Be brief.<|im_end|>[user]1?"
    )


@pytest.mark.parametrize(
    "template", ["{{ raise('no') }}", "{% for", "{{ ''.__class__.__mro__ }}", "no content"]
)
def test_a_template_that_cannot_be_rendered_is_one_line(
    folder: Path, tmp_path: Path, template: str
) -> None:
    shutil.copytree(folder, tmp_path / "hf")
    (tmp_path / "hf" / "chat_template.jinja").write_text(template)
    with pytest.raises(UserError, match=str(tmp_path / "hf")):
        Chat.of(tmp_path / "hf")


# What finetune.sh refuses before it imports torch


def refused(*args: object) -> str:
    with pytest.raises(UserError) as raised:
        finetune(options_of([str(arg) for arg in args]))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_models_and_folders_that_cannot_be_used_are_one_line(folder: Path, tmp_path: Path) -> None:
    data, out = training.write(tmp_path / "data.jsonl", training.rows(2)), tmp_path / "out"
    small = ("--data", data, "--out", out, "--lora-rank", "0", "--model")
    whole = ("--data", data, "--out", out, "--model")
    assert "--speed" in refused(*small, EMBEDDED_GGUF, "--speed", "1")
    for option, value in (("--epochs", "nan"), ("--rate", "0"), ("--tokens", "-1")):
        assert option in refused(*small, EMBEDDED_GGUF, option, value)
    assert "16" in refused(*whole, EMBEDDED_GGUF)  # LoRA's rank, of a GGUF file
    assert "config.json" in refused(*whole, tmp_path)
    assert starts.FETCH in refused(*whole, "Qwen/Qwen2.5-0.5B")  # a name of the hub is no GGUF file
    assert starts.FETCH in refused(*small, tmp_path / "none.gguf")
    assert str(data) in refused(*small, data)
    assert str(tmp_path / "none") in refused(
        "--model", folder, "--data", tmp_path / "none", "--out", out
    )
    assert starts.CONFIG in refused(*whole, folder, "--adapter", tmp_path)
    assert "none" in refused("--data", data, "--out", tmp_path / "none" / "out", "--model", folder)
    out.mkdir()
    assert str(out) in refused(*small, EMBEDDED_GGUF)


def test_pickled_weights_quantized_files_and_other_architectures_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    data = training.write(tmp_path / "data.jsonl", training.rows(2))
    rest = ("--data", data, "--out", tmp_path / "out", "--lora-rank", "0", "--model")
    to_gguf.convert(folder, tmp_path / "q8.gguf", "q8_0")
    assert "Q8_0" in refused(*rest, tmp_path / "q8.gguf")
    shape = Shape(
        layers=1, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=64, vocab=900, tied=True
    )
    to_gguf.convert(
        random_folder(tmp_path / "qwen2", "Qwen2ForCausalLM", shape), tmp_path / "qwen2.gguf", "f32"
    )
    assert "(qwen2, F32)" in refused(*rest, tmp_path / "qwen2.gguf")
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "model.safetensors").rename(other / "pytorch_model.bin")
    assert str(other) in refused(*rest, other)
    edit(
        other / "config.json",
        {"architectures": ["MambaForCausalLM"], "auto_map": {"AutoModel": "code.Model"}},
    )
    assert "MambaForCausalLM" in refused(*rest, other)
