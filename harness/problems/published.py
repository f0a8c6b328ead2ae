"""Define the published problem sets. Their files are on the Hugging Face hub."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.base.errors import UserError
from core.base.files import DATA
from core.types import Problem

# the known ids and answers of AIME 2025, and the revision to fetch
KEY = DATA / "aime_2025_key.json"
# Our ids by MathArena's problem_idx: 1 to 15 belong to paper I, 16 to 30 to paper II.
IDS = {str(n): f"aime_2025_I_{n}" for n in range(1, 16)}
IDS |= {str(n): f"aime_2025_II_{n - 15}" for n in range(16, 31)}
UNKNOWN = "unknown"  # the version of a set whose hash is not known
TRAIN = {"": "data/train-00000-of-00001.parquet"}  # many data sets have only this file


@dataclass(frozen=True)
class Published:
    """A set of `rows` problems (0: unknown) in the data set `repo`, at the commit `revision` ("":
    the newest commit).

    `files` maps the split of a file's problems ("" for no split) to the file's path. If `files` is
    empty, the files of `splits` are read (hub.split_of). `licence` is None if the card names no
    licence. `versions` maps ProblemSet.sha256 to the name of a known version. For other hashes,
    results call the version "unknown".

    Revisions and file names are from public code that uses them (2026-11). The hub itself was not
    checked."""

    name: str
    repo: str
    rows: int
    licence: str | None
    files: Mapping[str, str] = field(default_factory=dict)
    splits: tuple[str, ...] = ("train",)
    revision: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        """Return the problems with this project's ids and splits."""
        return problems

    def fault(self, problems: tuple[Problem, ...]) -> str:
        """Return the reason why these problems are not the published set, or ""."""
        if self.rows not in (0, len(problems)):
            return f"has {len(problems)} problems, not {self.rows}"
        return ""

    def version(self, sha256: str) -> str | None:
        """Return the version with this hash, else UNKNOWN. If no version of the set is known,
        return None."""
        if not self.versions:
            return None
        return self.versions.get(sha256, UNKNOWN)

    @property
    def address(self) -> str:
        """The web address of the set's only file, or else of the data set's page."""
        page = f"https://huggingface.co/datasets/{self.repo}"
        if "" not in self.files:
            return page
        return f"{page}/resolve/{self.revision}/{self.files['']}"


def on_hub(address: str) -> Published:
    """Return the set at an address like hub:owner/name[@revision][:split]. Raises UserError if it
    is malformed."""
    match = re.fullmatch(r"hub:([\w-][\w.-]*/[\w-][\w.-]*)(?:@([^:\s]+))?(?::([^\s:]+))?", address)
    if not match:
        raise UserError(
            f"problem set {address!r:.200} is not like hub:owner/name or "
            "hub:owner/name@revision:split"
        )
    repo, revision, split = match.groups("")
    name = f"{repo}:{split}" if split else repo
    return Published(name, repo, 0, None, splits=(split,), revision=revision)


class Keyed(Published):
    """A problem set whose ids and reference answers must be the ids and answers in KEY."""

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        return tuple(replace(problem, id=IDS.get(problem.id, problem.id)) for problem in problems)

    def fault(self, problems: tuple[Problem, ...]) -> str:
        key = json.loads(KEY.read_text(encoding="utf-8"))["answers"]
        answers = {problem.id: problem.answer for problem in problems}
        wanted = {id_: str(answer) for id_, answer in key.items()}
        ids = answers.keys() | wanted.keys()
        wrong = sorted(id_ for id_ in ids if answers.get(id_) != wanted.get(id_))
        if not wrong:
            return ""
        return f"differs from data/{KEY.name} in the answers of {', '.join(wrong[:3])}"


class ProofBench(Published):
    """A problem set whose ids name the part of a problem, such as PB-Basic-001 and
    PB-Advanced-001."""

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        settled: list[Problem] = []
        for problem in problems:
            _, _, rest = problem.id.partition("-")
            settled.append(replace(problem, split=rest.partition("-")[0]))
        return tuple(settled)


class WordProblems(Published):
    """A problem set whose ids may end with a number ("chal-12"), which orders the problems."""

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        settled: list[Problem] = []
        for problem in sorted(problems, key=_number_of):
            split = str(problem.columns.get("split") or "")
            settled.append(replace(problem, split=split))
        return tuple(settled)


def _number_of(problem: Problem) -> int:
    """Return the number at the end of a problem's id, or 0."""
    match = re.search(r"[0-9]{1,9}\Z", problem.id)
    return int(match[0]) if match else 0


# AIME 2024 and AIME 2025 (papers I and II): answers are whole numbers from 0 to 999.
AIME_2024 = Published(
    name="aime_2024",
    repo="HuggingFaceH4/aime_2024",
    rows=30,
    # the card names no licence (its source, AI-MO/aimo-validation-aime, is Apache 2.0)
    licence=None,
    files=TRAIN,
    revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
)
AIME_2025 = Keyed(
    name="aime_2025",
    repo="MathArena/aime_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    revision=json.loads(KEY.read_text(encoding="utf-8"))["revision"],
    # The hash of the copy that the tests read. It was not compared with the hub's copy.
    versions={"0ee9b2d74e151dce85dce03f4dd02ca14b66631d573cac5a4cb2bdac1c2da840": "as tested"},
)
# HMMT, February 2025: answers are numbers or expressions.
# MathArena's data set. The RSA paper's code reads data/hmmt25/test.parquet instead. This file is on
# GitHub, but in no known data set of the hub. PROBLEMS=path/to/test.parquet can read it, because it
# has verl's columns.
HMMT_2025 = Published(
    name="hmmt_2025",
    repo="MathArena/hmmt_feb_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    revision="6fdc4277120810ff75aa22d2d5489b91f7a262a1",
)
# MATH-500 (Lightman et al. 2023, arXiv 2305.20050): answers are LaTeX.
MATH500 = Published(
    name="math500",
    repo="HuggingFaceH4/MATH-500",
    rows=500,
    licence=None,  # the card was not checked (its source, openai/prm800k, is MIT)
    files={"": "test.jsonl"},
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
)
# OlympiadBench (He et al. 2024, arXiv 2402.14008): the open-ended English competition problems of
# mathematics without images. Revision, file and rows are from public code, the licence is from a
# stored copy of the card. The file itself was not read.
OLYMPIADBENCH = Published(
    name="olympiadbench",
    repo="Hothan/OlympiadBench",
    rows=674,
    licence="Apache 2.0",
    files={"": "OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet"},
    revision="91184b52131e7fc9455fef848035173aea8cc01a",
)
# GSM8K (test split) and SVAMP: word problems from grade school, whose answers are numbers.
# columns.py reads their references: "#### 1,234" is 1234, 35.0 is 35, and SVAMP's Body precedes its
# Question.
GSM8K = WordProblems(
    name="gsm8k",
    repo="openai/gsm8k",
    rows=1319,
    licence="MIT",
    files={"": "main/test-00000-of-00001.parquet"},
    revision="740312add88f781978c0658806c59bc2815b9866",
    # of test.jsonl
    versions={"35687a202d792cde3af46b7b06f73a5c95609ce66de720236d3fee6b41924c72": "as published"},
)
SVAMP = WordProblems(
    name="svamp",
    repo="ChilleD/SVAMP",
    rows=1000,
    licence="MIT",
    # The project's own SVAMP.json has the same 1,000 problems in one file, without splits.
    files={"train": "train.json", "test": "test.json"},
    revision="5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef",
    # of SVAMP.json
    versions={"a38cb41ee1ecc830cb28a4fe4501790d7d7c67db2f0d66fe342669c8b0cadad6": "as published"},
)
# IMO-Bench (Luong et al. 2025, arXiv 2511.01846): 400 problems with short answers, and 60 with
# proofs. QED-Nano's authors have a copy, whose commit and file name are unknown. Version 2
# (February 2026) corrected answers. Results name the version by these hashes of answerbench_v2.csv
# (google-deepmind/superhuman, 275877a9…).
ANSWERBENCH = Published(
    name="imo_answerbench",
    repo="lm-provers/IMOBench-FinalAnswer",
    rows=400,
    licence="CC BY 4.0",
    versions={
        "3b6b61a6a804b23b997e567feb7112bc6f7d2b897071e62cd4d2370b55188cb3": "v2",
        # A quote is missing in the file (rows.py), so that lenient readers take "Algebra" for an
        # answer.
        "0396e46f2cc484ffbac0a151672adc86cdacfa287d119bc36a0ff27e1fb7d4bd": (
            "v2, imo-bench-algebra-036 broken"
        ),
    },
)
IMO_PROOFBENCH = ProofBench(
    name="imo_proofbench",
    repo="lm-provers/IMOProofBench",
    rows=60,
    licence="CC BY 4.0",
    files=TRAIN,
    revision="4b02dfebc3a956682398ce5847d56d0e820a758d",
    # From proofbench_v2.csv (google-deepmind/superhuman, sha256 aa8b813d…). It was not compared
    # with the hub's copy.
    versions={"08d7521a4c3946a8dd5d956165cdd4cccb56952a661cb05647aaedc3a9a141b4": "v2"},
)
# ProofBench (Ma et al. 2025): olympiad problems with grading schemes for proofs.
PROOFBENCH = Published(
    name="proofbench",
    repo="lm-provers/ProofBench",
    rows=145,
    # the licence of wenjiema02/ProofBench, the source (this copy's card was not checked)
    licence="MIT",
    files={split: f"data/{split}-00000-of-00001.parquet" for split in ("24_25", "other")},
    revision="c9ef8ca58c1711c4e3f1415755fc1a5286610c61",
)
# OpenR1-Math-220k (Open R1, 2025), with problems for STaR's training. Some problems have no answer.
OPENR1 = Published(
    name="openr1",
    repo="open-r1/OpenR1-Math-220k",
    rows=0,  # not checked (the page says 93.7k and 131k)
    licence="Apache 2.0",
    splits=("train", "extended/train"),  # the subsets default (in data/) and extended
    revision="e4e141ec9dea9f8326f4d347be56105859b2bd68",
)
# Sets with multiple choice. Revisions, files and rows are from public code, and the licences are
# from stored copies of the cards. The files themselves were not read.
# GPQA Diamond (Rein et al. 2023, arXiv 2311.12022). It is gated: its readers agree not to reveal
# examples in plain text online. So it is never bundled.
GPQA_DIAMOND = Published(
    name="gpqa_diamond",
    repo="Idavidrein/gpqa",
    rows=198,
    licence="CC BY 4.0",
    files={"": "gpqa_diamond.csv"},
    revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
)
# MMLU-Pro (Wang et al. 2024, arXiv 2406.01574), test split: up to 10 options.
MMLU_PRO = Published(
    name="mmlu_pro",
    repo="TIGER-Lab/MMLU-Pro",
    rows=12032,
    licence="MIT",
    files={"": "data/test-00000-of-00001.parquet"},
    revision="b189ec765aa7ed75c8acfea42df31fdae71f97be",
)
# AQuA (Ling et al. 2017, arXiv 1705.04146), test split: options like "A)21".
AQUA = Published(
    name="aqua",
    repo="deepmind/aqua_rat",
    rows=254,
    licence="Apache 2.0",
    files={"": "raw/test-00000-of-00001.parquet"},
    revision="33301c6a050c96af81f63cad5562cb5363e88971",
)
ANSWERED = (GSM8K, MATH500, SVAMP, AIME_2024, AIME_2025, HMMT_2025, ANSWERBENCH, OLYMPIADBENCH)
CHOICES = (GPQA_DIAMOND, MMLU_PRO, AQUA)
PROOFS = (IMO_PROOFBENCH, PROOFBENCH)
PUBLISHED = {published.name: published for published in (*ANSWERED, *CHOICES, *PROOFS)}
