"""Waits: the embedded engine continues inside thinking; prompts and replies are those of vLLM,
SGLang and others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from core import prompts
from core.base.thinking import split_thinking
from core.client.continued import LEFT_OUT, NO_THINKING, NOT_CONTINUED, whole
from core.client.reply import Reply
from core.engines.cards import Card
from core.engines.protocol import CANNOT, MARK, Server, untagged
from core.engines.queries import tail_of
from core.rsa import SampleConstants
from core.types import FORCED_ANSWER, Completion, Message, Sampling
from tests.fakes.http import Proxy, answer
from tests.fakes.moody import replied
from tests.helpers.asking import MESSAGES, ask

pytestmark = pytest.mark.usefixtures("hurried")
LONG = Sampling(max_tokens=900)


def test_thinking_that_ended_goes_on_and_every_reading_is_kept(
    engine: Server, tmp_path: Path
) -> None:
    plain, waited = ask(engine, tmp_path, [(5, LONG), (5, replace(LONG, waits=1))])
    assert waited.before_waits == [plain.answer] and waited.tokens_before_waits == [
        plain.completion_tokens
    ]
    assert (
        waited.thinking.startswith(f"{plain.thinking}\n\nWait")
        and "think>" not in waited.thinking + waited.answer
    )
    assert len(waited.thinking) > len(f"{plain.thinking}\n\nWait") and waited.not_waited is None
    assert plain.completion_tokens < waited.completion_tokens <= LONG.max_tokens
    assert waited.prompt_tokens > 2 * plain.prompt_tokens, (
        "the prompt is read again, with the thinking"
    )
    assert plain.key != waited.key and waited.seconds > plain.seconds


def test_more_waits_begin_where_fewer_ended(through: Server, proxy: Proxy, tmp_path: Path) -> None:
    (plain,) = ask(through, tmp_path, [(5, LONG)])
    (once,) = ask(through, tmp_path, [(5, replace(LONG, waits=1))])
    assert len(proxy.bodies) == 2 and not once.reused
    (twice,) = ask(through, tmp_path, [(5, replace(LONG, waits=2))])
    assert twice.before_waits == [plain.answer, once.answer] and len(proxy.bodies) == 3
    (again,) = ask(through, tmp_path, [(5, replace(LONG, waits=2))])
    assert again == twice and again.reused and len(proxy.bodies) == 3
    ask(through, tmp_path, [(5, replace(LONG, waits=1, wait_word="Hmm"))])
    assert len(proxy.bodies) == 4 and proxy.bodies[-1]["messages"][-1][
        "reasoning_content"
    ].endswith("\n\nHmm")


def test_the_cap_is_of_all_waits_together_and_what_hits_it_is_forced(
    engine: Server, tmp_path: Path
) -> None:
    (plain,) = ask(engine, tmp_path, [(5, LONG)])
    room = plain.completion_tokens + 3
    capped = Sampling(max_tokens=room, waits=3, answer_tokens=16)
    (got,) = ask(engine, tmp_path, [(5, capped)])
    assert got.truncated and got.forced is not None and got.forced.startswith(FORCED_ANSWER)
    assert got.before_waits == [plain.answer] and room < got.completion_tokens <= room + 16
    full = Sampling(max_tokens=plain.completion_tokens, waits=3)
    (got,) = ask(engine, tmp_path, [(5, full)])
    assert got.before_waits == [] and got.not_waited is None and got.answer == plain.answer


# What QED-Nano's kind of template makes of messages, and what others do: Qwen3's puts thinking
# before all that an assistant says last, and not all open it in the prompt.
QWEN = """{%- for message in messages %}
{%- if message.role == 'assistant' %}
{%- set content = message.content %}{%- set reasoning = '' %}
{%- if '</think>' in content %}
{%- set reasoning = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{- '<|im_start|>assistant\\n<think>\\n' + reasoning + '\\n</think>\\n\\n' + content + \
'<|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content.strip() + '<|im_end|>\\n' \
}}{%- endif %}
{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"""
OPENS = QWEN + "{{- '<think>\\n' }}{%- endif %}"
OPENS_NOT = QWEN + "{%- endif %}"
PLAIN = """{%- for m in messages %}{{- '[' + m.role + ']' + m.content }}{%- endfor %}
{%- if add_generation_prompt %}{{- '[assistant]' }}{%- endif %}"""
TEMPLATES = {"opens thinking": OPENS, "does not open it": OPENS_NOT, "knows no thinking": PLAIN}


def prompt_of(template: str, messages: Sequence[Message], begins: bool) -> str:
    got = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    return got.render(messages=list(messages), add_generation_prompt=begins)


def as_vllm(template: str, body: dict[str, Any]) -> str:
    """Continue a final message like transformers: a mark after its content shows the end of the
    prompt."""
    assert body["continue_final_message"] is True and body["add_generation_prompt"] is False
    *before, last = body["messages"]
    marked = prompt_of(
        template, [*before, last | {"content": last["content"] + "MARK "}], begins=False
    )
    assert last["content"].strip() in marked, "vLLM refuses it otherwise"
    return marked[: marked.rindex("MARK")]


def as_sglang(template: str, body: dict[str, Any]) -> str:
    """Append the assistant's last message to the prompt that begins its turn."""
    assert body["continue_final_message"] is True and body["messages"][-1]["role"] == "assistant"
    return prompt_of(template, body["messages"][:-1], begins=True) + str(
        body["messages"][-1]["content"]
    )


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_the_prompt_is_the_models_own_with_its_thinking_open(kind: str, template: str) -> None:
    tail = tail_of(prompt_of(template, [{"role": "user", "content": MARK}], begins=True))
    server = Server(kind, "u", "m", "w", tail=tail)
    body = server.dialect.left_open(server, MESSAGES, "so far\n\nWait")
    got = as_vllm(template, body) if kind == "vllm" else as_sglang(template, body)
    opening = "" if server.thinking else "<think>\n"
    assert got == prompt_of(template, MESSAGES, begins=True) + opening + "so far\n\nWait"


words = st.text("ab {}\\\n,.")


@given(words.filter(str.strip), words, words, st.sampled_from(["llama.cpp", "parser", "no parser"]))
def test_no_word_is_lost_however_a_server_separates_thinking(
    before: str, more: str, answered: str, how: str
) -> None:
    given_ = f"{untagged(before)}\n\nWait"
    content, reasoning = {
        "llama.cpp": (answered, given_ + more),  # all of it again, where it does not stream
        "parser": (answered, more),
        "no parser": (f"{more}</think>{answered}", ""),
    }[how]
    reply = Reply("m", content, reasoning, "stop", 1, 0, 1, {})
    got = split_thinking(*whole(reply, given_), cut_while_thinking=True)
    assert got == ((given_ + more).strip() if more or how != "parser" else given_, answered.strip())


FIRST = {"content": "\\boxed{1}", "reasoning_content": "so far"}
GOES_ON: dict[str, tuple[dict[str, Any], str, tuple[str, str]]] = {
    "by a parser": (
        {"content": "\\boxed{2}", "reasoning_content": ", no"},
        "stop",
        (", no", "\\boxed{2}"),
    ),
    "without one": ({"content": ", no\n</think>\n\\boxed{2}"}, "stop", (", no", "\\boxed{2}")),
    "closed at once": ({"content": "\\boxed{2}"}, "stop", ("", "\\boxed{2}")),
    "cut, by a parser": ({"content": "", "reasoning_content": ", no"}, "length", (", no", "")),
    "cut, without one": ({"content": ", no"}, "length", (", no", "")),
}


@pytest.mark.parametrize("answered", GOES_ON)
def test_a_reply_goes_on_with_the_thinking(
    engine: Server, proxy: Proxy, tmp_path: Path, answered: str
) -> None:
    message, reason, (more, text) = GOES_ON[answered]
    proxy.script = [replied(FIRST), replied(message, 34, finish_reason=reason)]
    through = replace(engine, base_url=proxy.url, kind="vllm")
    (got,) = ask(through, tmp_path, [(5, Sampling(max_tokens=50, waits=1))])
    assert (got.thinking, got.answer) == (f"so far\n\nWait{more}", text) and got.not_waited is None
    assert (got.prompt_tokens, got.completion_tokens, got.finish_reason) == (64, 24, reason)
    assert got.before_waits == ["\\boxed{1}"] and got.tokens_before_waits == [12]
    assert proxy.bodies[1]["max_tokens"] == 50 - 12 and proxy.bodies[1]["seed"] == 5


def one(engine: Server, proxy: Proxy, folder: Path, waits: int = 2, **changes: Any) -> Completion:
    through = replace(engine, base_url=proxy.url, **changes)
    (got,) = ask(through, folder, [(5, Sampling(max_tokens=50, waits=waits))])
    assert got.error is None and got.answer == "\\boxed{1}" and not proxy.script
    return got


def test_a_server_that_leaves_the_thinking_out_is_noted(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    """Such as an older llama.cpp, or a template that drops earlier thinking."""
    proxy.script = [replied(FIRST), replied({"content": "\\boxed{2}", "reasoning_content": "anew"})]
    got = one(engine, proxy, tmp_path)
    assert got.not_waited == LEFT_OUT and got.before_waits == [] and got.completion_tokens == 24
    assert one(engine, proxy, tmp_path) == got and len(proxy.bodies) == 2, (
        "it is kept, and asked no more"
    )


def test_a_refused_wait_is_noted_and_asked_again_by_the_next_run(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    busy = answer(503, {"error": {"message": "busy"}})
    proxy.script = [replied(FIRST), *[busy] * 9]
    got = one(engine, proxy, tmp_path, kind="vllm")
    assert got.not_waited == "refused busy"
    proxy.script = [answer(400, {"error": {"message": "the final message does not appear"}})]
    got = one(engine, proxy, tmp_path, kind="vllm")
    assert got.not_waited == "refused the final message does not appear"
    proxy.script = [replied({"content": ", no</think>\\boxed{1}"}, 34)] * 2
    assert len(one(engine, proxy, tmp_path, kind="vllm").before_waits) == 2, (
        "both waits are asked again"
    )


def test_an_unknown_server_waits_if_a_trial_or_its_card_says_that_it_goes_on(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    more = [replied({"content": ", no</think>\\boxed{1}"}, 34)] * 2
    proxy.script = [replied(FIRST), replied({"content": "It is \\boxed{42}."})]
    assert one(engine, proxy, tmp_path, kind="other").not_waited == NOT_CONTINUED
    refused = answer(400, {"error": {"message": "the last message must be the user's"}})
    proxy.script = [refused]
    assert one(engine, proxy, tmp_path, kind="other").not_waited == NOT_CONTINUED
    proxy.script = [*more]
    got = one(engine, proxy, tmp_path, kind="other", card=Card("mine", continues=True))
    assert got.not_waited is None and len(got.before_waits) == 2
    proxy.script = [replied(FIRST), replied({"content": "42}"}), *more]
    got = one(engine, proxy, tmp_path / "continued", kind="other")
    assert got.not_waited is None and len(got.before_waits) == 2, "it is tried once for both waits"


def test_what_cannot_wait_is_noted(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    proxy.script = [replied({"content": "\\boxed{1}"})]
    got = one(engine, proxy, tmp_path / "no thinking")
    assert got.not_waited == NO_THINKING and got.before_waits == [] and len(proxy.bodies) == 1
    proxy.script = [replied(FIRST)]
    assert (
        one(engine, proxy, tmp_path / "a card", card=Card("mine", continues=False)).not_waited
        == CANNOT
    )


def test_an_opened_answer_never_waits(through: Server, proxy: Proxy, tmp_path: Path) -> None:
    verdict = Sampling(max_tokens=1, opening=prompts.VERDICT, top_logprobs=5)
    plain, waiting = ask(through, tmp_path, [(5, verdict), (5, replace(verdict, waits=2))], limit=1)
    assert plain == waiting and len(proxy.bodies) == 1


def test_the_word_says_nothing_to_a_key_without_waits() -> None:
    assert Sampling.from_config(SampleConstants(WAIT_WORD="Hmm")) == Sampling.from_config(
        SampleConstants()
    )
    assert Sampling.from_config(
        SampleConstants(WAITS=1, WAIT_WORD="Hmm")
    ).continued == Sampling.from_config(SampleConstants())
