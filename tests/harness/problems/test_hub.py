"""Problem sets from the hub: a hub on this machine that the real hub client talks to, in a process
of its own."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.base.files import DATA
from harness.problems import sets
from harness.problems.hub import files_of, split_of
from harness.problems.published import (
    AIME_2024,
    AIME_2025,
    HMMT_2025,
    IMO_PROOFBENCH,
    OLYMPIADBENCH,
    PROOFBENCH,
    SVAMP,
    on_hub,
)
from tests.helpers.problems import Hub, parquet, printed_by

OLD, NEW = "a" * 40, "b" * 40  # commits


def rows(n: int, says: str = "statement") -> list[dict[str, Any]]:
    return [{"problem_idx": i, "problem": f"{says} {i}", "answer": str(i)} for i in range(1, n + 1)]


def aime() -> list[dict[str, Any]]:
    key = json.loads((DATA / "aime_2025_key.json").read_text())["answers"]
    return [
        {"problem_idx": i, "problem": f"statement {i}", "answer": a}
        for i, a in enumerate(key.values(), 1)
    ]


def proofs(part: str, count: int) -> list[dict[str, Any]]:
    """As lm-provers/IMOProofBench has them; where there is no short answer, it has a blank."""
    return [
        {
            "question_id": f"{part}-{i:03d}",
            "problem": f"prove {part} {i}",
            "solution": f"since {i}",
            "answer": " ",
            "grading_guidelines": f"(Partial)\n1. said {i}",
        }
        for i in range(1, count + 1)
    ]


def schemes(split: str, count: int) -> list[dict[str, Any]]:
    """As lm-provers/ProofBench has them."""
    return [
        {
            "problem_id": f"{split}-{i}",
            "problem": f"prove {i}",
            "solution": "so",
            "grading_scheme": f"7 points for {i}",
        }
        for i in range(count)
    ]


def svamp(numbers: Iterable[int], answer: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [
        {
            "ID": f"chal-{i}",
            "Body": f"Ann has {i} pens",
            "Question": "How many?",
            "Answer": answer(i),
        }
        for i in numbers
    ]


def olympiad() -> list[dict[str, Any]]:
    """As Hothan/OlympiadBench has them: lists of answers, and a context for some problems."""
    return [
        {
            "id": i,
            "question": f"question {i}?",
            "final_answer": [str(i), "0"] if i == 2 else [str(i)],
            "context": "Let x be 3." if i == 3 else None,
            "is_multiple_answer": i == 2,
            "answer_type": "Numerical",
            "unit": None,
        }
        for i in range(1, 675)
    ]


def lines(content: list[dict[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, content)).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("served")

    def table(content: list[dict[str, Any]]) -> bytes:
        return parquet(folder / "table.parquet", content).read_bytes()

    one = "data/train-00000-of-00001.parquet"
    fake = Hub(
        {
            "mine/two": {
                OLD: {"test.jsonl": lines(rows(2, "old")), "train.jsonl": lines(rows(3))},
                NEW: {"test.jsonl": lines(rows(2, "new")), "train.jsonl": lines(rows(3))},
            },
            "mine/sharded": {
                NEW: {
                    f"data/test-0000{i}-of-00002.parquet": table(rows(4)[2 * i :][:2])
                    for i in (0, 1)
                }
            },
            "mine/wrong": {NEW: {"train.csv": b"text,label\nx,1\n"}},
            "mine/empty": {NEW: {"train.csv": b""}},
            "mine/pictures": {NEW: {"a.png": b"x"}},
            "mine/spoiled": {NEW: {"train.parquet": b"PAR1"}},
            AIME_2025.repo: {NEW: {one: table(aime())}},
            AIME_2024.repo: {AIME_2024.revision: {one: table(rows(29))}},
            HMMT_2025.repo: {
                HMMT_2025.revision: {one: table([*rows(29), rows(30)[29] | {"answer": "π"}])}
            },
            SVAMP.repo: {
                SVAMP.revision: {
                    "train.json": json.dumps(svamp(range(1000, 300, -1), str)).encode(),
                    "test.json": json.dumps(svamp(range(1, 301), lambda i: f"{i}.0")).encode(),
                }
            },
            OLYMPIADBENCH.repo: {
                OLYMPIADBENCH.revision: {OLYMPIADBENCH.files[""]: table(olympiad())}
            },
            IMO_PROOFBENCH.repo: {
                IMO_PROOFBENCH.revision: {
                    one: table(proofs("PB-Basic", 30) + proofs("PB-Advanced", 30))
                }
            },
            PROOFBENCH.repo: {
                PROOFBENCH.revision: {
                    file: table(schemes(split, count))
                    for (split, file), count in zip(PROOFBENCH.files.items(), (70, 75), strict=True)
                }
            },
        },
        {"license": "apache-2.0"},
    )
    yield fake
    fake.close()


PROGRAM = """
import json, sys
from core.base.errors import UserError, one_line
from harness.problems import hub, sets
for name in sys.argv[1:]:
    try:
        found = sets.load(name)
        loaded = {"name": found.name, "problems": [p.statement for p in found.problems], \
"source": found.source}
        loaded |= {"parts": [p.split for p in found.problems], "is_proofs": found.asks_for_proofs}
        loaded |= {"answers": [p.answer for p in found.problems], "sha256": found.sha256}
        loaded |= {"types": [p.answer_type for p in found.problems], "id": found.problems[0].id}
        loaded |= {"licence": found.licence, "version": found.version, "revision": found.revision}
    except UserError as error:
        loaded = {"error": str(error)}
    print(json.dumps(loaded))
"""


# what becomes of each set, by the address of the hub and the folder of its cache
load = partial(printed_by, PROGRAM)
KNOWN = ("aime_2025", "hmmt_2025", "svamp", "svamp:train", "svamp:test", "olympiadbench")
PROOFS = (
    "imo_proofbench",
    "imo_proofbench:Advanced",
    "proofbench",
    "proofbench:other",
    "proofbench:25",
)
WRONG = {
    "hub:mine/none": "mine/none",
    "hub:mine/two@gone:test": "mine/two",
    "hub:mine/two": "hub:mine/two:test",
    "hub:mine/two:validation": "'validation' (it has test, train)",
    "hub:mine/pictures": ".parquet, .jsonl, .csv, .tsv, .json",
    "hub:mine/wrong": 'train.csv: no column is named "problem"',
    "hub:mine/empty": "train.csv",
    "hub:mine/spoiled": "train.parquet",
    "aime_2024": "29 problems",
}


@pytest.fixture(scope="module")
def loaded(served: Hub, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What becomes of these sets, by name."""
    names = (*KNOWN, *PROOFS, *WRONG)
    return dict(zip(names, load(served.root, tmp_path_factory.mktemp("home"), *names), strict=True))


def test_any_set_of_served_at_one_commit_that_is_recorded(served: Hub, tmp_path: Path) -> None:
    names = ("hub:mine/two:test", f"hub:mine/two@{OLD}:test", "hub:mine/sharded")
    newest, old, sharded = load(served.root, tmp_path, *names)
    assert newest["problems"] == ["new 1", "new 2"] and newest["revision"] == NEW
    assert newest["name"] == "mine/two:test" and newest["source"] == f"hub mine/two at {NEW}"
    assert newest["licence"] == "apache-2.0" and newest["version"] is None
    assert old["problems"] == ["old 1", "old 2"] and old["revision"] == OLD
    assert (
        sharded["problems"] == [f"statement {i}" for i in (1, 2, 3, 4)]
        and sharded["name"] == "mine/sharded"
    )
    asked = len(served.asked)
    for offline in ({}, {"HF_HUB_OFFLINE": "1"}):  # no hub at its address, and none to be asked
        again = load("http://127.0.0.1:9", tmp_path, *names, **offline)
        assert [each | {"licence": "apache-2.0"} for each in again] == [newest, old, sharded]
    assert len(served.asked) == asked


def test_sets_that_are_known_by_name(loaded: dict[str, Any]) -> None:
    aime_2025, hmmt, whole, train, test, olympiads = (loaded[name] for name in KNOWN)
    assert (
        len(aime_2025["problems"]) == 30
        and aime_2025["revision"] == NEW
        and aime_2025["version"] == "unknown"
    )
    assert (
        aime_2025["source"] == f"hub MathArena/aime_2025 at {NEW}"
        and aime_2025["licence"] == "CC BY-NC-SA 4.0"
    )
    assert (
        len(hmmt["problems"]) == 30
        and hmmt["revision"] == HMMT_2025.revision
        and hmmt["version"] is None
    )
    assert (
        whole["answers"] == [str(i) for i in range(1, 1001)]
        and whole["problems"][0] == "Ann has 1 pens. How many?"
    )
    assert train["answers"] == whole["answers"][300:] and test["answers"] == whole["answers"][:300]
    assert olympiads["problems"][1:3] == ["question 2?", "Let x be 3.\n\nquestion 3?"]
    assert olympiads["answers"][:3] == ["1", "2, 0", "3"]
    assert set(olympiads["types"]) == {"math"}


def test_a_copy_of_word_problems_of_another_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "COPIES", tmp_path)
    (tmp_path / "svamp.json").write_text(json.dumps(svamp(range(999), str)))
    with pytest.raises(UserError, match=r"svamp.json has 999"):
        sets.load("svamp")
    (tmp_path / "svamp.json").write_text(json.dumps(svamp(range(1000), float)))
    with pytest.raises(UserError, match="svamp has no part 'test'"):
        sets.load("svamp:test")


@pytest.mark.parametrize(("name", "words"), WRONG.items())
def test_what_is_wrong_at_served_is_told_in_a_line(
    name: str, words: str, loaded: dict[str, Any]
) -> None:
    error = loaded[name]["error"]
    assert words in error and "\n" not in error


def test_sets_of_proofs_say_of_each_problem_what_part_it_is_of(loaded: dict[str, Any]) -> None:
    imo, advanced, whole, other, nothing = (loaded[name] for name in PROOFS)
    assert imo["is_proofs"] and imo["parts"] == ["Basic"] * 30 + ["Advanced"] * 30
    assert (imo["licence"], imo["version"], imo["revision"]) == (
        "CC BY 4.0",
        "unknown",
        IMO_PROOFBENCH.revision,
    )
    assert (
        advanced["name"] == "imo_proofbench:Advanced"
        and advanced["problems"] == imo["problems"][30:]
    )
    assert whole["is_proofs"] and whole["parts"] == ["24_25"] * 70 + ["other"] * 75
    assert (whole["licence"], whole["version"], whole["revision"]) == (
        "MIT",
        None,
        PROOFBENCH.revision,
    )
    assert other["problems"] == whole["problems"][70:]
    assert "24_25, other" in nothing["error"]


def test_without_a_hub_the_one_file_is_named_and_where_to_put_it(tmp_path: Path) -> None:
    names = [*sets.PUBLISHED, "hub:mine/two:test"]
    for name, loaded in zip(
        names, load("http://127.0.0.1:9", tmp_path, *names, HF_HUB_OFFLINE="1"), strict=True
    ):
        assert "HF_HUB_OFFLINE" in loaded["error"] and "\n" not in loaded["error"]
        if name in sets.PUBLISHED:
            assert sets.PUBLISHED[name].address in loaded["error"]
            assert (
                f"data/sets/{name}.parquet" in loaded["error"]
                and "PROBLEMS=path/to/file.json" in loaded["error"]
            )


def test_a_copy_in_its_place_is_taken_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "COPIES", tmp_path)
    parquet(tmp_path / "aime_2025.parquet", aime())
    found = sets.load("aime_2025")
    assert (
        found.name == "aime_2025"
        and found.source == "file aime_2025.parquet"
        and found.revision is None
    )
    assert found.problems[15].id == "aime_2025_II_1" and found.licence == "CC BY-NC-SA 4.0"
    assert found.problems[15].columns == aime()[15] and found.problems[15].answer_type == "integer"
    for wrong in (aime()[1:], [aime()[0] | {"answer": 1}, *aime()[1:]]):
        parquet(tmp_path / "aime_2025.parquet", wrong)
        with pytest.raises(UserError, match=r"aime_2025.parquet .* aime_2025_I_1") as raised:
            sets.load("aime_2025")
        assert str(tmp_path / "aime_2025.parquet") in str(raised.value)
        assert sets.ONLINE not in str(raised.value), "the network is not to blame for a local file"
    (tmp_path / "hmmt_2025.csv").write_text("problem,answer\nx?,1\n")
    with pytest.raises(UserError, match=r"hmmt_2025.csv .* 30"):
        sets.load("hmmt_2025")


KEEP = """
import json, sys
from pathlib import Path
from core.base.errors import UserError
from harness.problems import sets
sets.COPIES = Path(sys.argv[1])
try:
    print(json.dumps({"kept": sets.keep("aime_2025")}))
except UserError as error:
    print(json.dumps({"error": str(error)}))
"""


def test_aime_is_fetched_once_and_pinned_and_another_file_is_refused(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, repo, [file] = tmp_path / "sets", AIME_2025.repo, AIME_2025.files.values()
    copy, source = copies / "aime_2025.parquet", f"hub {repo} at {NEW}"

    def keep(root: str, home: str) -> dict[str, Any]:
        return printed_by(KEEP, root, tmp_path / home, str(copies))[0]

    assert keep(served.root, "one") == {"kept": f"aime_2025: {source}"}
    original = copy.read_bytes()
    assert original == served.held[repo][NEW][file]
    assert keep("http://127.0.0.1:9", "none") == {"kept": f"aime_2025: {source}"}, (
        "the hub is not asked again"
    )
    monkeypatch.setattr(sets, "COPIES", copies)
    found = sets.load("aime_2025")
    assert (found.source, found.revision) == (source, NEW)

    # the key's answers, other statements
    parquet(copy, [row | {"problem": f"{row['problem']}."} for row in aime()])
    with pytest.raises(UserError, match=f"{copy} .*{NEW}"):
        sets.load("aime_2025")
    (copies / "FETCHED.json").rename(tmp_path / "pins")
    assert sets.load("aime_2025").source == "file aime_2025.parquet", "a user's own file"
    (tmp_path / "pins").rename(copies / "FETCHED.json")
    another = copy.read_bytes()
    copy.unlink()
    moved = Hub({repo: {NEW: {file: original}, OLD: {file: another}}}, {})
    assert keep(moved.root, "two") == {"kept": f"aime_2025: {source}"}, (
        "the pinned commit, not the newest"
    )
    copy.unlink()
    moved.held[repo][NEW][file] = another
    assert NEW in keep(moved.root, "three")["error"] and not copy.exists()
    moved.close()
    (copies / "FETCHED.json").write_text("{")
    with pytest.raises(UserError, match=r"FETCHED\.json"):
        sets.load("aime_2025")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("hub:a/b", ("a/b", "", "")),
        ("hub:a/b:test", ("a/b", "", "test")),
        ("hub:a-1/b.c_d@refs/pr/1:main/test", ("a-1/b.c_d", "refs/pr/1", "main/test")),
        (f"hub:a/b@{OLD}", ("a/b", OLD, "")),
    ],
)
def test_the_address_of_a_set_on_served(text: str, parts: tuple[str, ...]) -> None:
    found = on_hub(text)
    assert (found.repo, found.revision, *found.splits) == parts


@pytest.mark.parametrize(
    "text", ["hub:", "hub:b", "hub:a/b:", "hub:a/b@:x", "hub:a/b/c", "hub:../b", "hub:a/b test"]
)
def test_another_address_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="hub:owner/name@revision:split"):
        sets.load(text)


SPLITS = {
    "data/train-00000-of-00001.parquet": "train", (
        "data/test-00000-of-00001-0f1f1c4b268a23e8.parquet"
    ): (
        "test"
    ),
    "main/test-00000-of-00001.parquet": "main/test", "data/AIME2024-00000-of-00001.parquet": (
        "AIME2024"
    ),
    "test.jsonl": "test", "default/test/0000.parquet": "test", "main/val/0000.parquet": (
        "main/validation"
    ),
    "mine_dev.csv": "validation", "aime_2024_problems.parquet": "train", "constraints.jsonl": (
        "train"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "split"), SPLITS.items())
def test_the_split_of_a_file(name: str, split: str) -> None:
    assert split_of(name) == split


def test_the_files_of_a_split() -> None:
    names = [
        "main/test-0-of-1.parquet",
        "other/test-0-of-1.parquet",
        "main/train-0-of-1.parquet",
        "test.csv",
    ]
    assert files_of(names, "main/test", "a/b") == names[:1]
    assert files_of(names, "train", "a/b") == names[2:3]
    with pytest.raises(UserError, match="main/test, main/train, other/test"):
        files_of(names, "test", "a/b")
    with pytest.raises(UserError, match="1 of the 2 files"):
        files_of(["data/test-00000-of-00002.parquet"], "", "a/b")
    assert files_of([*names, "data/test-0-of-1.parquet"], "test", "a/b") == [
        "data/test-0-of-1.parquet"
    ]
    assert files_of(["b.jsonl", "a.jsonl", "dataset_infos.json", ".x.jsonl"], "", "a/b") == [
        "a.jsonl",
        "b.jsonl",
    ]
