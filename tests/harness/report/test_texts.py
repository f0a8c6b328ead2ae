"""Texts from journals: every prompt as it was sent, whatever texts it contains."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert

from core.client.journal import Archive, Journal, content_key
from core.types import Completion, Message
from harness.report import texts
from harness.results.model import ProblemResult
from tests.helpers import documents

LONG = "So it goes on, line by line, until the sum of the digits is found.\n" * 3 + "So."


def sent(content: str) -> list[Message]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]


def reply(name: str, **changes: str) -> Completion:
    text = f"{name}: {LONG}"
    completion = Completion(content_key(name), 1, answer=text, finish_reason="stop")
    return replace(completion, **changes)  # type: ignore[arg-type]


def kept(folder: Path, *records: tuple[Completion, list[Message]]) -> Path:
    with Journal(folder / "a.jsonl") as journal:
        for completion, messages in records:
            journal.put(completion, messages)
    return folder


def member(
    completion: Completion, *parents: int, checks: tuple[Completion, ...] = (), again: bool = False
) -> object:
    calls = [documents.cost(key=check.key) for check in checks]
    more = {"carried_over": True} if again else {}
    return documents.member(parents=parents, key=completion.key, side_calls=calls, **more)


def problem(*steps: list[object]) -> ProblemResult:
    rows = [documents.step(t, members) for t, members in enumerate(steps)]  # type: ignore[arg-type]
    return convert(documents.problem("p", rows), ProblemResult)


def test_prompts_of_members_and_side_calls_are_whole_and_hold_no_text_twice(tmp_path: Path) -> None:
    first, second = reply("first", thinking=LONG[::-1]), reply("second", forced=f"forced: {LONG}")
    merged, review = reply("merged"), reply("review")
    merging = sent(f"Merge.\n\n1:\n{first.answer}\n\n2:\n{second.text}\n\n3:\n{first.thinking}")
    reviewing = sent(f"Review {merged.answer} with {first.answer}.")
    folder = kept(
        tmp_path, (first, sent("1?")), (second, sent("2?")), (merged, merging), (review, reviewing)
    )
    run = problem([member(first), member(second)], [member(merged, 0, 1, checks=(review,))])
    with Archive(folder) as journals:
        tiers, missing = texts.of_problem(run, journals)
    assert missing == 0 and tiers["a"]["0,1"]["prompt"][1] == {"role": "user", "content": ["2?"]}
    prompt = tiers["b"]["1,0"]["prompt"][1]["content"]  # in "b", for it shows thinking
    parts = [(piece["of"], piece["part"]) for piece in prompt if isinstance(piece, dict)]
    assert parts == [("0,0", "answer"), ("0,1", "forced"), ("0,0", "thinking")]
    (call,) = tiers["b"]["1,0"]["side_calls"]
    one, other = ({"of": of, "part": "answer"} for of in ("1,0", "0,0"))
    assert call["text"] == review.answer and call["prompt"][1]["content"] == [
        "Review ",
        one,
        " with ",
        other,
        ".",
    ]


def test_a_carried_over_member_has_its_first_prompt(tmp_path: Path) -> None:
    first, merged = reply("first"), reply("merged")
    folder = kept(tmp_path, (first, sent("?")), (merged, sent(f"Improve {first.answer}")))
    run = problem([member(first)], [member(merged, 0)], [member(merged, 0, again=True)])
    with Archive(folder) as journals:
        tiers, _ = texts.of_problem(run, journals)
    assert tiers["a"]["2,0"]["prompt"] == tiers["a"]["1,0"]["prompt"]


def test_a_text_in_no_journal_is_missing(tmp_path: Path) -> None:
    first, gone = reply("first"), reply("gone")
    folder = kept(tmp_path, (first, sent("?")))
    run = problem([member(first, checks=(gone,)), member(gone)], [member(reply("other"), 0, 1, 99)])
    with Archive(folder) as journals:
        tiers, missing = texts.of_problem(run, journals)
    assert missing == 2 and list(tiers["a"]) == ["0,0"] and tiers["a"]["0,0"]["prompt"]
    assert tiers["b"]["0,0"] == {"side_calls": [{"text": "(not in the journal)"}]}


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.sampled_from(["a", "ab", "ba", " ", "\ud800", "é\n"]), max_size=30).map("".join),
    st.data(),
)
def test_pieces_make_the_prompt_whole_again(content: str, data: st.DataObject) -> None:
    shown = data.draw(st.lists(st.text("ab é", min_size=1, max_size=4), max_size=4))
    sources: list[texts.Source] = [
        ({"of": f"0,{j}", "part": "answer"}, text) for j, text in enumerate(shown)
    ]
    pieces = texts._pieces(content, sources)
    assert (
        "".join(
            piece if isinstance(piece, str) else shown[int(piece["of"][2:])] for piece in pieces
        )
        == content
    )
