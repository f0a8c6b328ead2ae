"""SHOTS, SYSTEM and PROMPT: the messages that a server receives, the results, and bad input."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import prompts
from core.base.errors import UserError
from core.engines import cards
from core.engines.need import Need
from core.engines.protocol import Server
from core.rsa import RSA, RsaConstants
from core.types import Message, Problem
from harness import framing
from harness.run import solve_sync
from harness.session.checks import ROOM, check_context
from tests.fakes.model import PROBLEM, PROOF
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import TWO, load

BOX = "The final answer is \\boxed{%s}."
OURS = json.loads(framing.OURS.read_text(encoding="utf-8"))
ROWS = [{"statement": "How much is 2+2?", "solution": "2 + 2 = 4.", "answer": 4}]


def asked(server: ScriptedServer) -> list[list[Message]]:
    return [json.loads(body)["messages"] for body in server.asked]


def given(**constants: Any) -> framing.Framing:
    return framing.from_config(RsaConstants(**constants), cards.NONE, [PROBLEM])


def file_of(folder: Path, *rows: dict[str, Any]) -> str:
    path = folder / "shots.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


def test_shots_are_turns_before_each_problem_and_worked_aggregations_before_candidates(
    server: ScriptedServer, results: Path
) -> None:
    solve_sync(RSA, TWO[:1], N=3, K=3, T=1, SHOTS=4, SYSTEM="Be brief.")
    system, *turns, last = asked(server)[0]
    assert system == {"role": "system", "content": "Be brief."} and [last] == prompts.solve(
        Problem("", "What is 1+1?", "")
    )
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 4
    for row, question, reply in zip(OURS, turns[::2], turns[1::2], strict=False):
        assert [question] == prompts.solve(Problem("", row["problem"], None))
        assert reply["content"] == f"{row['solution']}\n\n{BOX % row['answer']}"
    system, *turns, last = asked(server)[-1]
    assert (
        system["content"] == "Be brief."
        and "Below are 3 candidate" in last["content"]
        and len(turns) == 4
    )
    for row, question, reply in zip(OURS, turns[::2], turns[1::2], strict=False):
        wrong = [f"{each['solution']}\n\n{BOX % each['answer']}" for each in row["candidates"]]
        assert [question] == prompts.aggregate(Problem("", row["problem"], None), wrong)
        assert reply["content"].endswith(BOX % row["answer"])


def test_a_shot_of_a_choice_ends_with_its_letter(tmp_path: Path) -> None:
    row = {"problem": "6*7?", "choices": ["40", "42"], "answer": 1, "solution": "6*7 is 42."}
    (shot,) = given(SHOTS=file_of(tmp_path, row)).shots
    assert shot.problem.statement == "6*7?\n\nA. 40\nB. 42"
    assert shot.reply.endswith(r"The final answer is \boxed{B}.")


def test_results_record_only_what_is_used_and_a_changed_shot_is_another_request(
    server: ScriptedServer, results: Path, tmp_path: Path
) -> None:
    solve_sync(RSA, TWO, N=2, K=2, T=0, name="plain")
    plain, count = load(results, "plain"), len(server.asked)
    assert not {"SHOTS", "SYSTEM", "PROMPT"} & plain["config"].keys()
    assert not {
        name for name in plain["provenance"] if name.startswith(("shots", "system", "prompt_"))
    }
    assert all(len(messages) == 1 for messages in asked(server))
    hashes = set()
    for words in ("2 + 2 = 4.", "Two and two are 4."):
        solve_sync(
            RSA,
            TWO,
            N=2,
            K=2,
            T=0,
            SHOTS=file_of(tmp_path, ROWS[0] | {"solution": words}),
            name="shown",
        )
        document = load(results, "shown")
        hashes.add(document["provenance"]["shots_sha256"])
        assert document["provenance"]["shots"] == 1 and document["config"]["SHOTS"].endswith(
            "shots.jsonl"
        )
    assert len(hashes) == 2 and len(server.asked) == 3 * count, (
        "the journal's key contains the messages"
    )


def test_a_prompts_file_has_a_part_for_solving_and_one_for_aggregation(
    server: ScriptedServer, results: Path, tmp_path: Path
) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text(
        "Q: {problem} \\boxed{}\n[aggregate]\nQ: {problem}\n\n{candidates}\nBest \\boxed{}:\n",
        encoding="utf-8",
    )
    solve_sync(RSA, TWO[:1], N=2, K=2, T=1, SHOTS=1, PROMPT=str(path))
    first, last = asked(server)[0], asked(server)[-1]
    assert [first[0]["content"], first[-1]["content"]] == [
        f"Q: {OURS[0]['problem']} \\boxed{{}}",
        "Q: What is 1+1? \\boxed{}",
    ]
    assert last[-1]["content"].startswith("Q: What is 1+1?\n\nCandidate 1:\n")
    assert load(results, "rsa")["provenance"].keys() >= {"prompt_sha256", "shots_sha256"}
    path.write_text("Q: {problem} \\boxed{}", encoding="utf-8")
    framed = given(PROMPT=path).frame(prompts.aggregate(PROBLEM, ["{problem}", "b"]))
    assert framed == prompts.aggregate(PROBLEM, ["{problem}", "b"]), (
        "the built-in prompt aggregates"
    )


def test_other_requests_stay_as_they_are() -> None:
    verify = prompts.verify(PROBLEM, "42")
    assert given(SHOTS=8, SYSTEM="Be brief.").frame(verify) is verify
    assert given().frame(solving := prompts.solve(PROBLEM)) is solving


def test_the_command_line_wins_over_the_card(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('shots = 2\nsystem = "Be brief."\n', encoding="utf-8")
    card = cards.read(tmp_path / "mine.toml")
    of = framing.from_config(RsaConstants(), card, [PROBLEM])
    assert (len(of.shots), of.system) == (2, "Be brief.")
    assert framing.from_config(RsaConstants(SHOTS="0", SYSTEM=""), card) == framing.Framing()
    assert (
        framing.from_config(RsaConstants(SHOTS="3"), card).description
        == "3 worked examples, a system message"
    )
    assert framing.from_config(RsaConstants(), card, [PROOF]) == framing.Framing(system="Be brief.")


@pytest.mark.parametrize(
    ("constant", "value", "text"),
    [
        ("SHOTS", "9", ""),
        ("SHOTS", "nowhere.json", ""),
        ("SHOTS", "no_answer.jsonl", json.dumps(ROWS[0] | {"answer": None})),
        ("SHOTS", "no_solution.jsonl", json.dumps({"problem": "1+1?", "answer": 2})),
        ("SHOTS", "no_text.jsonl", json.dumps(ROWS[0] | {"candidates": [{"solution": "5"}]})),
        ("SHOTS", "of_the_set.jsonl", json.dumps(TWO[0] | {"solution": "It is 2."})),
        ("SYSTEM", "nowhere.txt", ""),
        ("PROMPT", "nowhere.txt", ""),
        ("PROMPT", "no_place.txt", "Solve it."),
        ("PROMPT", "no_heading.txt", "{problem} {candidates}"),
        ("PROMPT", "no_candidates.txt", "{problem}\n[aggregate]\n{problem}"),
    ],
)
def test_bad_input_is_one_line_before_any_request(
    server: ScriptedServer, results: Path, tmp_path: Path, constant: str, value: str, text: str
) -> None:
    path = tmp_path / value
    if text:
        path.write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(UserError) as raised:
        solve_sync(RSA, TWO, N=2, K=2, T=1, **{constant: str(path) if text else value})
    assert all(word in str(raised.value) for word in (constant, value)) and "\n" not in str(
        raised.value
    )
    assert not server.asked


def test_shots_have_answers_so_proofs_refuse_them() -> None:
    with pytest.raises(UserError, match="SHOTS"):
        framing.from_config(RsaConstants(SHOTS="1"), cards.NONE, [PROOF])


@pytest.mark.parametrize("kind", ["other", "llama.cpp"])
def test_a_context_too_short_for_the_shots_is_refused(kind: str) -> None:
    tokens = given(SHOTS=8).tokens
    server = Server(kind, "http://127.0.0.1:1/v1", "m", "x", context=ROOM + tokens)
    with pytest.raises(UserError, match="SHOTS"):
        check_context(server, RsaConstants(SHOTS="8", MAX_TOKENS=1))
    check_context(replace(server, context=ROOM + tokens + 1), RsaConstants(SHOTS="8", MAX_TOKENS=1))
    assert Need(3, 100, 10, tokens).context == Need(3, 100, 10).context + tokens
