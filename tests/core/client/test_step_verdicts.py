"""Chat models that answer each step with a word: what is sent, and which probabilities are
scores."""

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from core.base.errors import RunFailed
from core.client.journal import Journal
from core.client.logprobs import word_share
from core.client.step_verdicts import conversations
from core.engines.cards import Card
from core.engines.protocol import Server
from core.generate import Generator
from core.types import TOP_LOGPROBS, Completion, Message, Sampling
from tests.helpers.asking import ask
from tests.helpers.rewards import VERDICTS, VerdictModel, worth_of

PROBLEM = "What is 1+1?"
SOLUTION: list[Message] = [
    {"role": "user", "content": PROBLEM},
    {"role": "assistant", "content": "One and one.\n\n\n\n It is two.\n\nSo \\boxed{2}.\n\n"},
]
REWARD = Sampling(reward="\n\n")
# Written out, as the models' makers show them
FIRST: list[Message] = [{"role": "user", "content": "What is 1+1? One and one."}]
SECOND: list[Message] = [
    *FIRST,
    {"role": "assistant", "content": "+"},
    {"role": "user", "content": "It is two."},
]
THIRD: list[Message] = [
    *SECOND,
    {"role": "assistant", "content": "+"},
    {"role": "user", "content": "So \\boxed{2}."},
]


def with_verdicts(server: Server) -> Server:
    return replace(server, card=Card(step_verdicts=VERDICTS))


def scored(server: Server, folder: Path, messages: list[Message] = SOLUTION) -> Completion:
    (completion,) = ask(with_verdicts(server), folder, [(0, REWARD)], messages=messages)
    return completion


def test_each_step_is_a_turn_after_the_problem() -> None:
    assert conversations(SOLUTION, "\n\n", "+") == [FIRST, SECOND, THIRD]
    empty: list[Message] = [SOLUTION[0], {"role": "assistant", "content": " \n\n"}]
    assert conversations(empty, "\n\n", "+") == [[{"role": "user", "content": f"{PROBLEM} "}]]


def test_one_token_is_asked_for_each_step_in_order(tmp_path: Path) -> None:
    with closing(VerdictModel()) as model:
        completion = scored(model.probed(), tmp_path)
        assert [body["messages"] for body in model.asked] == [FIRST, SECOND, THIRD]
        for body in model.asked:
            assert (body["max_tokens"], body["top_logprobs"]) == (1, TOP_LOGPROBS)
            assert (body["temperature"], body["top_p"], body["min_p"]) == (1.0, 1.0, 0.0)
        expected = [worth_of(turns) for turns in (FIRST, SECOND, THIRD)]
        assert completion.scores == pytest.approx(expected)
        assert completion.counted[2] == 3 and (completion.counted[0] or 0) > 3
        assert not (completion.text or completion.error or completion.truncated)
        assert scored(model.probed(), tmp_path).reused and len(model.asked) == 3


def test_other_verdicts_are_asked_again(tmp_path: Path) -> None:
    with closing(VerdictModel()) as model:
        server = model.probed()
        keys = set()
        for words in (("+", "-"), ("-", "+")):
            card = Card(step_verdicts=words)
            (completion,) = ask(
                replace(server, card=card), tmp_path, [(0, REWARD)], messages=SOLUTION
            )
            keys.add(completion.key)
        assert len(keys) == 2 and len(model.asked) == 6


def test_a_step_without_either_word_leaves_the_solution_without_a_score(
    tmp_path: Path, hurried: None
) -> None:
    with closing(VerdictModel(silent="two")) as model:
        completion = scored(model.probed(), tmp_path)
        assert not completion.scores and "'+' or '-'" in str(completion.error)
        assert [len(body["messages"]) for body in model.asked] == [1, 3, 3], "tried twice"
        assert not scored(model.probed(), tmp_path).reused, "the next run asks again"


def test_a_model_without_the_words_ends_the_run(tmp_path: Path, hurried: None) -> None:
    with closing(VerdictModel(silent="?")) as model:
        server = with_verdicts(model.probed())
        with pytest.raises(RunFailed, match=f"{model.url}.*step_verdicts"):
            asyncio.run(score_two(server, tmp_path))


async def score_two(server: Server, folder: Path) -> None:
    """Ask one client for the scores of the solution to two problems."""
    with Journal(folder / "test.jsonl") as journal:
        async with Generator(server, journal, 1, 60, stall=30) as generator:
            for problem in ("How much is 1+1?", "What is 2?"):
                question = {"role": "user", "content": problem}
                await generator([question, SOLUTION[1]], 0, REWARD)


@pytest.mark.parametrize(
    ("logprobs", "share"),
    [
        ({"+": -1.0, "-": -1.0, "x": -0.1}, 0.5),
        ({"+": -1.0, " +": -1.0, "-": -1.0}, 2 / 3),
        ({"+": -3.0}, 1.0),
        ({"-": -3.0}, 0.0),
        ({"+": 0.5, "-": -1e9}, 1.0),
        ({"++": -1.0}, None),
        ({}, None),
    ],
)
def test_a_share_is_normalised_over_both_words(
    logprobs: dict[str, float], share: float | None
) -> None:
    assert word_share(logprobs, "+", "-") == (None if share is None else pytest.approx(share))
