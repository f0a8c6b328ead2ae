"""Rows to train on: read or refused in one line, how often and in what order they go through, and what a model is asked
and answers; and what can't be trained. No torch here."""

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from core.engines.embedded_model import EMBEDDED_GGUF
from labs.training import to_hf
from labs.training.chat import Chat
from labs.training.finetune import finetune, options_of
from labs.training.rows import Row, passes, read
from tests.labs.training import helpers as training
from tests.labs.training.models import edit

GOOD = '{"instruction": "1+1?", "output": "2"}\n'
BAD_DATA = {
    "nothing": ("", "holds no rows"),
    "blank lines": ("\n  \n", "holds no rows"),
    "torn": (GOOD + '{"instruction": "1', "line 2 is not valid JSON"),
    "a list": (GOOD + "\n[]\n", "line 3 does not hold an object"),
    "no output": ('{"instruction": "1"}\n', "line 1 has no output"),
    "blank instruction": ('{"instruction": " ", "output": "2"}\n', "line 1 has no instruction"),
    "a number": ('{"instruction": "1", "output": 2}\n', "line 1: output is no text"),
    "a list for input": ('{"instruction": "1", "input": [], "output": "2"}\n', "line 1: input is no text"),
    "half a character": ('{"instruction": "\\ud800", "output": "2"}\n', "line 1: instruction holds half a character"),
    "not a number": ('{"instruction": "1", "output": NaN}\n', "line 1 is not valid JSON"),
}


@pytest.mark.parametrize("what", BAD_DATA)
def test_data_that_cannot_be_trained_on_is_one_line_that_names_it(what: str, tmp_path: Path) -> None:
    text, message = BAD_DATA[what]
    (tmp_path / "data.jsonl").write_text(text)
    with pytest.raises(UserError) as raised:
        read(tmp_path / "data.jsonl")
    assert message in str(raised.value) and "data.jsonl" in str(raised.value)


@given(st.text())
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "data.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(UserError):
        assert all(row.asked.strip() and row.said.strip() for row in read(path))


@given(st.text(min_size=1), st.text(), st.text(min_size=1))
def test_what_json_can_hold_comes_back(
    tmp_path_factory: pytest.TempPathFactory, asked: str, more: str, said: str
) -> None:
    path = tmp_path_factory.mktemp("row") / "data.jsonl"
    path.write_text(json.dumps({"instruction": asked, "input": more, "output": said, "round": 3}) + "\n")
    if asked.strip() and said.strip():
        assert read(path) == [Row(f"{asked}\n\n{more}" if more else asked, said)]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.floats(0.01, 5), st.integers(0, 2**40))
def test_every_row_goes_through_so_many_times(lengths: list[int], epochs: float, seed: int) -> None:
    orders = passes(lengths, epochs, None, seed)
    assert orders == passes(lengths, epochs, None, seed)
    assert all(len(set(order)) == len(order) for order in orders)
    counts = Counter(i for order in orders for i in order)
    assert all(int(epochs) <= counts[i] <= int(epochs) + 1 for i in range(len(lengths)))
    assert abs(counts.total() - epochs * len(lengths)) <= 1


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(1, 5000), st.integers(0, 2**40))
def test_tokens_are_reached_and_passed_by_less_than_a_row(lengths: list[int], tokens: int, seed: int) -> None:
    orders = passes(lengths, 3.0, tokens, seed)
    through = [lengths[i] for order in orders for i in order]
    assert sum(through) >= tokens > sum(through[:-1])
    counts = Counter(i for order in orders for i in order)
    assert max(counts.values()) - min(counts[i] for i in range(len(lengths))) <= 1


# What models are asked and answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("chat") / "hf"
    to_hf.convert(EMBEDDED_GGUF, out)
    return out


OPENED = "<|im_start|>user\n1?<|im_end|>\n<|im_start|>assistant\n<think>\n"
PLAIN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}[a]"


@pytest.mark.parametrize(
    ("said", "asked", "answered"),
    [
        ("<think>\na\n</think>\n\nb", OPENED, "a\n</think>\n\nb"),
        ("a\n</think>\n\nb", OPENED, "a\n</think>\n\nb"),
        ("b", f"{OPENED}\n</think>\n\n", "b"),
        ("<think>\nnever ended", OPENED, "never ended"),
    ],
)
def test_thinking_that_the_template_opens_is_not_opened_twice(
    folder: Path, said: str, asked: str, answered: str
) -> None:
    chat = Chat.of(folder)
    assert chat.end == "<|im_end|>" and chat.texts(Row("1?", said)) == (asked, answered)


@pytest.mark.parametrize(
    ("tail", "said", "asked", "answered"),
    [
        ("{% endif %}", "<think>\na\n</think>\n\nb", "[a]", "<think>\na\n</think>\n\nb"),
        ("{% endif %}", "a\n</think>\n\nb", "[a]", "<think>\na\n</think>\n\nb"),
        ("{% endif %}", "b", "[a]", "b"),
        ("<think>\n{% endif %}", "b", "[a]<think>\n\n</think>\n\n", "b"),  # it knows no enable_thinking
        ("<think>\n{% endif %}", "a\n</think>\n\nb", "[a]<think>\n", "a\n</think>\n\nb"),
    ],
)
def test_other_templates(folder: Path, tmp_path: Path, tail: str, said: str, asked: str, answered: str) -> None:
    chat = Chat(PLAIN + tail.replace("<think>\n{", "<think>{{ '\\n' }}{"), "<|im_end|>")
    assert chat.texts(Row("1?", said)) == (f"[user]1?<|im_end|>{asked}", answered)


@pytest.mark.parametrize("template", ["{{ raise('no') }}", "{% for", "{{ ''.__class__.__mro__ }}", "no content"])
def test_a_template_that_cannot_be_rendered_is_one_line(tmp_path: Path, template: str) -> None:
    to_hf.convert(EMBEDDED_GGUF, tmp_path / "hf")
    (tmp_path / "hf" / "chat_template.jinja").write_text(template)
    with pytest.raises(UserError, match="can't be rendered"):
        Chat.of(tmp_path / "hf")


# What finetune.py refuses before it imports torch


def refused(*args: object) -> str:
    with pytest.raises(UserError) as raised:
        finetune(options_of([str(arg) for arg in args]))
    return str(raised.value)


def test_options_and_models_that_cannot_be_trained_are_one_line(folder: Path, tmp_path: Path) -> None:
    data = training.write(tmp_path / "data.jsonl", training.rows(2))
    small = ("--model", EMBEDDED_GGUF, "--data", data, "--out", tmp_path / "out")
    whole = ("--model", folder, "--data", data, "--out", tmp_path / "out")
    for options, message in (
        ((*small, "--lora-rank", "16"), "is a GGUF file, of which all weights are trained: LoRA rank 0, not 16"),
        ((*small, "--lora-rank", "0", "--adapter", folder), "--adapter goes with a --lora-rank"),
        ((*small, "--lora-rank", "-1"), "--lora-rank -1 is not from 0"),
        ((*small, "--epochs", "0"), "--epochs 0.0 is not from 0.01"),
        ((*small, "--epochs", "nan"), "--epochs nan is not from 0.01"),
        ((*small, "--rate", "2"), "--rate 2.0 is not from 1e-08"),
        ((*small, "--tokens", "0"), "--tokens 0 is not from 1"),
        ((*small, "--seed", "-1"), "--seed -1 is not from 0"),
        ((*small, "--speed", "1"), "unrecognized arguments: --speed 1"),
        (("--model", tmp_path, "--data", data, "--out", tmp_path / "out"), "config.json can't be read"),
        (("--model", data, "--data", data, "--out", tmp_path / "out", "--lora-rank", "0"), "is cut off or damaged"),
        (("--model", folder, "--data", tmp_path / "none", "--out", tmp_path / "out"), "none can't be read"),
        ((*whole, "--adapter", tmp_path), "adapter_config.json can't be read"),
    ):
        assert message in refused(*options), options
    (tmp_path / "out").mkdir()
    assert "out exists. Remove it" in refused(*small, "--lora-rank", "0")
    assert "does not exist. Make it" in refused(*small[:-1], tmp_path / "none" / "out", "--lora-rank", "0")


def test_pickled_weights_and_adapters_are_refused(tmp_path: Path) -> None:
    data = training.write(tmp_path / "data.jsonl", training.rows(2))
    to_hf.convert(EMBEDDED_GGUF, tmp_path / "hf")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 16, "lora_alpha": 32}))
    (adapter / "adapter_model.bin").write_bytes(b"\x80\x04.")
    whole = ("--model", tmp_path / "hf", "--data", data, "--out", tmp_path / "out")
    assert "holds no adapter_model.safetensors, and pickled weights" in refused(*whole, "--adapter", adapter)
    (tmp_path / "hf" / "model.safetensors").rename(tmp_path / "hf" / "pytorch_model.bin")
    assert "holds no safetensors, and pickled weights are never read" in refused(*whole)


def test_a_quantized_file_and_another_architecture_are_refused(folder: Path, tmp_path: Path) -> None:
    from labs.training import to_gguf

    data = training.write(tmp_path / "data.jsonl", training.rows(2))
    to_gguf.convert(folder, tmp_path / "q8.gguf", "q8_0")
    rest = ("--data", data, "--out", tmp_path / "out", "--lora-rank", "0")
    assert "q8.gguf is quantized (Q8_0) and can't be trained" in refused("--model", tmp_path / "q8.gguf", *rest)
    writer = gguf.GGUFWriter(tmp_path / "llama.gguf", "llama")
    for add in ("context_length", "embedding_length", "block_count", "feed_forward_length", "head_count"):
        getattr(writer, f"add_{add}")(8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "of architecture llama; of GGUF files only qwen3" in refused("--model", tmp_path / "llama.gguf", *rest)
    other = tmp_path / "other"
    to_hf.convert(EMBEDDED_GGUF, other)
    edit(other / "config.json", {"architectures": ["MambaForCausalLM"], "auto_map": {"AutoModel": "code.Model"}})
    assert "is of ['MambaForCausalLM'], not of a Qwen2ForCausalLM or Qwen3" in refused("--model", other, *rest)
