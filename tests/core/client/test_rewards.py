"""Reward models: what is sent, which numbers are scores, and which responses are refused."""

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import RunFailed, UserError
from core.client import rewards
from core.client.failures import NoScore
from core.client.journal import Journal
from core.engines.cards import Card
from core.engines.protocol import Rewards, Server
from core.generate import Generator
from core.types import Completion, Message, Sampling
from tests.fakes import engines
from tests.fakes.engines import StandIn
from tests.helpers.asking import ask
from tests.helpers.rewards import MARK, RewardModel, worth

VLLM = Rewards("/pooling")
SGLANG = Rewards("/classify", takes_tokens=True, gives_logits=True)
SOLUTION: list[Message] = [
    {"role": "user", "content": "What is 1+1?"},
    {"role": "assistant", "content": "One and one.\n\nSo \\boxed{2}."},
]
REWARD = Sampling(reward="\n\n")


def scored(server: Server, folder: Path) -> Completion:
    (completion,) = ask(server, folder, [(0, REWARD)], messages=SOLUTION)
    return completion


def score_all(server: Server, folder: Path, texts: list[str]) -> None:
    """Ask one client for the scores of the texts, one after the other."""

    async def one_by_one() -> None:
        with Journal(folder / "test.jsonl") as journal:
            async with Generator(server, journal, 1, 60, stall=30) as generator:
                for text in texts:
                    await generator([{"role": "assistant", "content": text}], 0, REWARD)

    asyncio.run(one_by_one())


def with_mark(server: Server) -> Server:
    return replace(server, card=replace(server.card, step_mark=MARK))


def pooled(data: Any) -> dict[str, Any]:
    return {"model": "rm", "data": [{"index": 0, "object": "pooling", "data": data}]}


@pytest.mark.parametrize(
    ("text", "between", "steps"),
    [
        ("a\n\nb", "\n\n", "a<extra_0>b<extra_0>"),
        ("\n\n a \n\n\n\nb\nc\n\n", "\n\n", "a<extra_0>b\nc<extra_0>"),
        ("a\nb", "\n", "a<extra_0>b<extra_0>"),
        ("a<extra_0>\n\nb", "\n\n", "a<extra_0>b<extra_0>"),
    ],
)
def test_a_mark_follows_each_step(text: str, between: str, steps: str) -> None:
    sent = rewards.marked([{"role": "assistant", "content": text}], between, MARK)
    assert sent.messages[0]["content"] == steps and sent.steps == steps.count(MARK)
    sent = rewards.marked([{"role": "assistant", "content": text}], between, "")
    assert (sent.messages[0]["content"], sent.steps) == (text, 0)


@pytest.mark.parametrize(
    ("page", "steps", "endpoint", "scores"),
    [
        (pooled([0.25]), 0, VLLM, [0.25]),
        (pooled([-7.5]), 0, VLLM, [-7.5]),
        (pooled([0.9, 0.1]), 0, VLLM, [0.1]),
        (pooled([[0.9], [0.3], [0.4]]), 0, VLLM, [0.4]),  # a score for each token
        (pooled([[0.9, 0.1], [0.2, 0.8]]), 2, VLLM, [0.1, 0.8]),
        (pooled([[3], [4]]), 2, VLLM, [3.0, 4.0]),
        ({"embedding": [-1.5], "meta_info": {"prompt_tokens": 3}}, 0, SGLANG, [-1.5]),
        ({"embedding": [2.0, 2.0]}, 0, SGLANG, [0.5]),
        ({"embedding": [900.0, -900.0]}, 0, SGLANG, [0.0]),
    ],
)
def test_the_numbers_of_a_response_are_scores(
    page: dict[str, Any], steps: int, endpoint: Rewards, scores: list[float]
) -> None:
    assert rewards.reply_of(page, steps, endpoint).scores == pytest.approx(scores)


@pytest.mark.parametrize(
    ("page", "steps"),
    [
        (pooled([[0.9, 0.1]]), 2),
        (pooled([[0.9, 0.1]] * 3), 2),
        (pooled([0.5]), 1),
        (pooled([]), 2),
        (pooled([]), 0),
        (pooled("AAAAPw=="), 0),
        (pooled([None]), 0),
        (pooled([float("nan")]), 0),
        (pooled([float("inf")]), 0),
        (pooled([True]), 0),
        (pooled(["good"]), 0),
        (pooled([0.1, 0.2, 0.7]), 0),
        (pooled([1.5, 2.5]), 0),
        (pooled([[]]), 0),
        ({"data": []}, 0),
        ({"choices": [{"message": {"content": "8/10"}}]}, 0),
        ({}, 0),
    ],
)
def test_other_responses_have_no_scores(page: dict[str, Any], steps: int) -> None:
    with pytest.raises(NoScore):
        rewards.reply_of(page, steps, VLLM)


def test_vllm_gets_the_messages_and_its_tokens_are_read(tmp_path: Path) -> None:
    with closing(RewardModel()) as model:
        server = replace(model.probed(), card=Card(template={"fast": True}))
        completion = scored(server, tmp_path)
        assert model.bodies == [
            {
                "model": "default",
                "messages": SOLUTION,
                "add_generation_prompt": False,
                "chat_template_kwargs": {"fast": True},
            }
        ]
        text = SOLUTION[1]["content"]
        assert completion.scores == [worth(text)] and completion.model == "default"
        assert completion.counted == (len(text) // 4 + 9, 0, 0)
        assert not (completion.empty or completion.text or completion.error)
        assert scored(server, tmp_path).reused and len(model.bodies) == 1


@pytest.mark.parametrize("labels", [1, 2])
def test_sglang_gets_the_tokens_of_the_rendered_messages(tmp_path: Path, labels: int) -> None:
    with closing(RewardModel(is_sglang=True, labels=labels)) as model:
        completion = scored(model.probed(), tmp_path)
        assert [path for path, _ in model.seen][-2:] == ["/tokenize", "/classify"]
        assert model.bodies == [{"input_ids": list(json.dumps(SOLUTION).encode())}]
        assert completion.scores == pytest.approx([worth(SOLUTION[1]["content"])], abs=0.01)
        assert completion.counted == (len(SOLUTION[1]["content"]) // 4 + 9, 0, 0)


def test_a_process_model_scores_each_step(tmp_path: Path) -> None:
    with closing(RewardModel(mark=MARK)) as model:
        completion = scored(with_mark(model.probed()), tmp_path)
        assert model.scored == [f"One and one.{MARK}So \\boxed{{2}}.{MARK}"]
        beginnings = ["One and one.", f"One and one.{MARK}So \\boxed{{2}}."]
        assert completion.scores == pytest.approx([worth(text) for text in beginnings])


def test_the_card_and_the_weights_belong_to_the_journal_s_key(tmp_path: Path) -> None:
    for root, mark in (("/models/a", ""), ("/models/b", ""), ("/models/b", MARK)):
        with closing(RewardModel(mark, root=root)) as model:
            server = model.probed()
            completion = scored(with_mark(server) if mark else server, tmp_path)
            assert not completion.reused and len(model.bodies) == 1


def _text(page: dict[str, Any]) -> str:
    return "8 of 10 points"


def _nan(page: dict[str, Any]) -> str:
    page["data"][0]["data"] = [float("nan")]
    return json.dumps(page)


def _short(page: dict[str, Any]) -> dict[str, Any]:
    return pooled([[0.5, 0.5]])


@pytest.mark.parametrize("spoil", [_text, _nan, _short])
def test_a_scorer_without_any_score_ends_the_run(
    tmp_path: Path, hurried: None, spoil: Callable[[dict[str, Any]], Any]
) -> None:
    with closing(RewardModel(mark=MARK, spoil=spoil)) as model:
        server = with_mark(model.probed())
        with pytest.raises(RunFailed) as failure:
            score_all(server, tmp_path, [f"{n}.\n\nIt is {n}." for n in range(3)])
        assert model.url in str(failure.value) and "\n" not in str(failure.value)
        assert len(model.scored) == 2 * 2, "each text is tried twice"


def test_a_scorer_that_fails_seldom_leaves_a_solution_without_a_score(
    tmp_path: Path, hurried: None
) -> None:
    pages = iter([_nan, _nan])
    with closing(RewardModel(spoil=lambda page: next(pages, dict)(page))) as model:
        server = model.probed()
        completion = scored(server, tmp_path)
        assert completion.error and not completion.scores
        assert scored(server, tmp_path).scores, "the next run asks again"


def test_a_server_without_a_reward_model_is_named(tmp_path: Path, hurried: None) -> None:
    with (
        closing(StandIn(engines.vllm())) as chats,
        pytest.raises(UserError, match=f"{chats.url}.*pooling"),
    ):
        scored(chats.probed(), tmp_path)
