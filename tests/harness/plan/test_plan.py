"""The planner, compared with arithmetic by hand, a simulated schedule and real results; any GPU
file; bad input."""

import contextlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import makespan
from core import constants
from core.base.errors import UserError
from core.constants import Constants
from core.engines import gpus
from core.engines.cards import Card
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.dialects.sglang import DIALECT as SGLANG
from core.engines.gpus import Gpu
from core.engines.protocol import Server
from core.engines.shape import QED_NANO, Shape
from core.rsa import BASELINE, RSA
from core.types import ELICITED_TOKENS, Bounded
from harness import experiment_file
from harness.plan import estimate
from harness.plan import plan as cli
from harness.plan.estimate import Sums, hours
from harness.plan.lengths import ASSUMED, FEWEST, measured
from harness.plan.subject import OnGpu, Subject
from harness.plan.work import loads_of
from harness.scaffolds.rsa_verified import RSA_VERIFIED
from tests.conftest import run
from tests.helpers import documents
from tests.helpers.machine import QED_NANO_CONFIG


def rsa(*overrides: str, name: str = "02_rsa_basic") -> Constants:
    found = experiment_file.load(name)
    config: Constants = constants.read(found.planned.constants, found.namespace, list(overrides))
    return config


def place(gpu: Gpu = gpus.DEFAULT, kv: str = "bf16") -> OnGpu:
    return OnGpu(SGLANG, gpu, "here", kv, QED_NANO, "figures")


def planned(gpu: str, kv: str, *overrides: str, count: int = 30) -> estimate.Plan:
    return estimate.Plan(rsa(*overrides), count, ASSUMED, place(gpus.named(gpu), kv), RSA)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without nvidia-smi, whatever the tests run on."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], results: Path) -> Callable[..., str]:
    """Return a function that runs plan.sh with arguments and returns its output."""

    def output(*args: str) -> str:
        cli.main(args)
        return capsys.readouterr().out

    return output


def line(out: str, name: str) -> str:
    return next(
        each.removeprefix(name).strip() for each in out.splitlines() if each.startswith(name)
    )


def test_the_parameters_of_qed_nano_are_those_of_its_tensors() -> None:
    # q k v o, norms of q and k
    layer = [(4096, 2560), (1024, 2560), (1024, 2560), (2560, 4096), (128,), (128,)]
    layer += [(9728, 2560), (9728, 2560), (2560, 9728), (2560,), (2560,)]  # gate up down, two norms
    parameters = 36 * sum(math.prod(shape) for shape in layer) + 151936 * 2560 + 2560
    assert QED_NANO.parameters == parameters == 4_022_468_096
    assert QED_NANO.kv_bytes("bf16") == 147_456 and QED_NANO.kv_bytes("fp8") == 73_728


def test_an_untied_output_embedding_is_counted_but_only_one_is_read_in_a_step(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(QED_NANO_CONFIG | {"tie_word_embeddings": False})
    )
    untied = Shape.from_config(tmp_path / "config.json")
    assert untied.parameters == QED_NANO.parameters + 151936 * 2560
    assert untied.step_parameters == QED_NANO.step_parameters


@pytest.mark.parametrize(
    "change", [{"num_hidden_layers": 0}, {"num_experts": 128}, {"quantization_config": {"bits": 4}}]
)
def test_a_config_without_a_plan_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QED_NANO_CONFIG | change))
    with pytest.raises(UserError, match="config.json"):
        Shape.from_config(tmp_path / "config.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(whole=JSON, field=st.sampled_from([*QED_NANO_CONFIG]), value=JSON, other=st.booleans())
def test_any_json_gives_a_shape_or_a_users_error(
    whole: Any, field: str, value: Any, other: bool, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(whole if other else QED_NANO_CONFIG | {field: value}))
    with contextlib.suppress(UserError):
        assert Shape.from_config(path).parameters > 0


def normal(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


def cut_log_normal(median: float, sigma: float, cap: float, power: int) -> float:
    """E[min(L, cap)^power] of a log-normal L, in closed form."""
    mu, edge = math.log(median), (math.log(cap) - math.log(median)) / sigma
    below = math.exp(power * mu + (power * sigma) ** 2 / 2) * normal(edge - power * sigma)
    return below + cap**power * (1 - normal(edge))


def longest_of(n: int, median: float, sigma: float, cap: float) -> float:
    """E[max of n] of the same, as the integral of 1 - F(x)^n."""
    points = range(1, int(cap), 4)
    return 4 * sum(1 - normal((math.log(x) - math.log(median)) / sigma) ** n for x in points)


def shown(plan: estimate.Plan, scaffold: Bounded = RSA) -> str:
    on = place(plan.machine.gpu, plan.machine.kv)
    return cli.run(
        plan.config, plan.count, ASSUMED, Subject("m", "QED-Nano", Card(), on), scaffold, 0.4
    )


# Bytes of memory, the share for weights and cache, bytes/s, FLOP/s; bytes of a token in the cache;
# requests that the server decodes together, as core/engines/dialects settle.
BY_HAND = [
    ("RTX 4090", "bf16", 25_757_220_864, 0.853, 1.008e12, 165.2e12, 147_456, 16),
    ("RTX 4090", "fp8", 25_757_220_864, 0.853, 1.008e12, 165.2e12, 73_728, 33),
    ("H100", "bf16", 85_520_809_984, 0.928, 3.35e12, 989.4e12, 147_456, 87),
    ("H100", "fp8", 85_520_809_984, 0.928, 3.35e12, 989.4e12, 73_728, 175),
]


@pytest.mark.parametrize("are_at_cap", [False, True], ids=["assumed lengths", "at the cap"])
@pytest.mark.parametrize("row", BY_HAND, ids=lambda row: f"{row[0]} {row[1]}")
def test_hours_of_02_agree_with_arithmetic_by_hand(
    row: tuple[str, str, float, float, float, float, int, int], are_at_cap: bool
) -> None:
    name, kv, memory, fraction, bandwidth, flops, kv_bytes, sent = row
    weights, cap, median, sigma = 2 * 4_022_468_096, 16384, 6400, 0.8
    cache = ((memory - 2**29) * fraction - weights) / kv_bytes
    mean, square = (cut_log_normal(median, sigma, cap, power) for power in (1, 2))
    cut = 1 - normal(math.log(cap / median) / sigma)
    written = mean + cut * 64  # and the forced answers
    slowest = longest_of(8, median, sigma, cap)
    if are_at_cap:
        mean, square, cut, written, slowest = cap, cap**2, 1.0, cap + 64, cap
    hours = []
    for share, peak, fill in ((0.85, 0.7, 0.95), (0.6, 0.4, 0.7)):
        work = path = 0.0
        for prompt, generations, steps in ((200, 240, 1), (200 + 3 * 700, 1200, 5)):
            context = prompt + square / mean / 2
            requests = min(fill * cache / context, sent)
            step = (weights + requests * context * kv_bytes) / (share * bandwidth)
            arithmetic = requests * (weights + 4 * 36 * 4096 * context) / (peak * flops)
            assert arithmetic < step, "so bandwidth binds here"
            # 3,633,509,376 parameters in the layers
            read = [
                p * (2 * 3_633_509_376 + 2 * 36 * 4096 * p) / (peak * flops)
                for p in (prompt, prompt + cap)
            ]
            work += generations * (written / requests * step + read[0] + cut * read[1])
            alone = (weights + context * kv_bytes) / (share * bandwidth)
            path += steps * slowest * (alone if share == 0.85 else step)
        hours.append(max(work, path) / 3600 if share == 0.85 else (work + path) / 3600)
    plan = planned(name, kv)
    assert plan.machine.kv_tokens == int(cache)
    assert plan.machine.limit == sent
    if are_at_cap:
        words = line(shown(plan), "at the cap").split()
        assert words[0] == f"{hours[0]:.1f}" and words[2] == f"{hours[1]:.1f}"
        return
    assert [s / 3600 for s in plan.seconds] == pytest.approx(hours, rel=0.01)


@pytest.mark.parametrize(
    ("gpu", "kv", "carry", "count"),
    [("4090", "bf16", "full", 12), ("4090", "fp8", "answer", 30), ("H100", "fp8", "answer", 12)],
)
def test_a_simulated_schedule_lies_between_the_bounds(
    gpu: str, kv: str, carry: str, count: int
) -> None:
    plan = planned(gpu, kv, f"CARRY={carry}", count=count)
    config = RSA.constants(**vars(rsa(f"CARRY={carry}")))
    # tokens of each candidate in a prompt
    shown = (plan.loads[1].prompt - ASSUMED.prompt) / config.K
    work = replace(makespan.Workload.of(config, plan.count, ASSUMED), answer=shown)
    found = makespan.simulate(work, plan.machine, 1, makespan.Schedule(limit=plan.machine.limit))
    assert plan.seconds[0] < found.seconds < plan.seconds[1]


def gpu_file(folder: Path, **changes: Any) -> Path:
    data = {
        "name": "mine",
        "memory_gib": 24,
        "bandwidth_gb_s": 1008,
        "bf16_tflops": 165.2,
    } | changes
    path = folder / "gpu.json"
    path.write_text(json.dumps(data))
    return path


GGUF = str(EMBEDDED_GGUF)
OPENAI = "02_rsa_basic with gpt-5-mini (card openai), 30 problems (aime_2025): "
NO_SPEED = "not planned: no earlier results"


@pytest.mark.parametrize(
    ("settings", "args", "words"),
    [
        (
            {},
            [],
            [
                "with QED-Nano on one RTX 4090, 30 problems (aime_2025)",
                "this machine has no NVIDIA GPU",
            ],
        ),
        (
            {"MODEL": "mine"},
            ["--gpu", "H100"],
            ["with mine@e3b0c44298fc on one H100", "2.21 B", "at most 4,096"],
        ),
        (
            {"MODEL": "mine", "ENGINE": "vllm"},
            [],
            ["with mine@e3b0c44298fc on one RTX 4090", "vLLM honours seeds"],
        ),
        (
            {"MODEL": GGUF},
            [],
            ["with model.gguf on this machine", "contexts of 2,048", "cap: 2,048", NO_SPEED],
        ),
        (
            {"MODEL": GGUF, "ENGINE": "llamacpp"},
            ["PROBLEMS=sums"],
            ["20 problems (sums)", "3 MB, 3 layers", NO_SPEED],
        ),
        ({"MODEL": "openai"}, [], [OPENAI, "time         not planned"]),
        (
            {"MODEL": "qed-nano-vllm", "KV": "bf16"},
            [],
            ["with QED-Nano on one RTX 4090", "tokens in bf16"],
        ),
    ],
)
def test_the_model_that_a_run_would_take_is_planned(
    settings: dict[str, str], args: list[str], words: list[str], no_gpu: None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str],
) -> None:  # fmt: skip
    (tmp_path / "mine").mkdir()
    config = QED_NANO_CONFIG | {"num_hidden_layers": 18, "max_position_embeddings": 4096}
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    out = printed("02_rsa_basic", *args)
    assert not [each for each in words if each not in out], out
    assert ("QED-Nano" in out) == ("QED-Nano" in words[0])


def test_the_model_of_a_running_server_is_planned_without_its_speed(
    engine: Server, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str]
) -> None:
    monkeypatch.setenv("BASE_URL", engine.base_url)
    out = printed("02_rsa_basic")
    assert (
        f"with {engine.model} at {engine.base_url}, 20 problems (sums)" in out and "GPU" not in out
    )
    assert line(out, "time").startswith("not planned")


@settings(max_examples=40)
@given(
    n=st.integers(1, 64),
    k=st.integers(1, 64),
    t=st.integers(0, 12),
    cap=st.integers(1, 200_000),
    forced=st.integers(0, 20_000),
    elicit=st.integers(0, 1),
    carry=st.sampled_from(["answer", "tail", "full"]),
    mode=st.sampled_from([None, "verdict", "p_true"]),
    kv=st.sampled_from(["bf16", "fp8"]),
    count=st.integers(1, 100),
)
def test_any_constants_are_planned_and_expected_is_never_above_at_most(
    n: int,
    k: int,
    t: int,
    cap: int,
    forced: int,
    elicit: int,
    carry: str,
    mode: str | None,
    kv: str,
    count: int,
) -> None:
    values = {
        "N": n,
        "K": min(n, k),
        "T": t,
        "MAX_TOKENS": cap,
        "ANSWER_TOKENS": forced,
        "CARRY": carry,
    }
    values |= {"ELICIT": elicit}
    overrides = [f"{name}={value}" for name, value in values.items()] + (
        [f"VERIFY_MODE={mode}"] if mode else []
    )
    config: Any = rsa(*overrides, name="03_rsa_verify" if mode else "02_rsa_basic")
    scaffold: Bounded = RSA_VERIFIED if mode else RSA
    plan = estimate.Plan(config, count, ASSUMED, place(kv=kv), scaffold)
    assert sum(load.count for load in plan.loads) == count * scaffold.max_completions(config)
    sums = Sums.of(plan.loads)
    assert sums.prompt <= sums.most_prompt * (1 + 1e-9) + 1
    assert sums.completion <= sums.most_completion * (1 + 1e-9) + 1
    assert 0 < plan.seconds[0] < plan.seconds[1]
    text = shown(plan, scaffold)
    assert "nan" not in text and "inf" not in text.replace("in flight", "")


def test_each_solution_may_be_continued_if_answers_are_elicited() -> None:
    plain, elicited = (
        loads_of(rsa("ANSWER_TOKENS=0", f"ELICIT={n}"), 2, ASSUMED, RSA) for n in (0, 1)
    )
    for one, other in zip(plain, elicited, strict=True):
        assert other.prompts == pytest.approx(2 * one.prompts + one.tokens)
        assert other.tokens == one.tokens + ELICITED_TOKENS * one.count
    before = Sums.of(plain)
    after = Sums.of(elicited)
    assert after.most_prompt > 2 * before.most_prompt
    assert after.most_completion > before.most_completion


def test_measured_lengths_replace_the_assumed_ones(
    results: Path, printed: Callable[..., str]
) -> None:
    small = ("LIMIT=2", "N=4", "K=2", "T=2", "MAX_TOKENS=300")
    status, _, err = run("02_rsa_basic", *small)
    assert status == 0, err
    path = results / "02_rsa_basic.json"
    document = json.loads(path.read_text())
    model, tokens = document["model"]["name"], document["metrics"]["tokens"]
    lengths = measured(results, model)
    assert lengths and lengths.source.endswith(". Assumed: verifications")
    expected = loads_of(rsa(*small), 2, lengths, RSA)
    assert sum(load.tokens for load in expected) == pytest.approx(tokens["completion"])
    assert sum(load.prompts for load in expected) == pytest.approx(tokens["prompt"], rel=0.02)
    by_step = [step["completion_tokens"] for step in document["metrics"]["steps"]]
    assert [load.tokens for load in expected] == pytest.approx(by_step)
    # The same file under QED-Nano's name, with one solution cut off: what a GPU run leaves behind.
    document["problems"][0]["steps"][0]["members"][0]["finish_reason"] = "length"
    document["model"]["name"] = "lm-provers/QED-Nano"
    path.write_text(json.dumps(document))
    out = printed("02_rsa_basic", "--gpu", "RTX 4090")
    assert "measured: 02_rsa_basic.json (24 completions on sums[:2]" in line(out, "lengths")
    assert "4% of them truncated at 300). Assumed: verifications. " in out
    (results / "big.json").write_text(json.dumps(document | {"experiment": "big"}))
    for words, file in ([], path.name), (["OUT=big"], "big.json"), (["OUT=new"], path.name):
        assert f"measured: {file} " in line(
            printed("02_rsa_basic", "--gpu", "RTX 4090", *words), "lengths"
        )


@given(
    whole=JSON,
    place=st.sampled_from(["schema", "model", "config", "engine", "problems", "steps", "members"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_damaged_results_file_is_skipped(whole: Any, place: str, tmp_path: Path) -> None:
    document = documents.document(
        [documents.problem("p", [documents.step(0, [documents.member(9)] * FEWEST)])]
    )
    (tmp_path / "x.json").write_text(json.dumps(document))
    assert measured(tmp_path, "m") is not None
    if place == "steps":
        document["problems"][0]["steps"] = whole
    elif place == "members":
        document["problems"][0]["steps"][0]["members"] = whole
    else:
        document[place] = whole
    (tmp_path / "x.json").write_text(json.dumps(document))
    assert measured(tmp_path, "m") is None or place == "config"


def test_gpus_are_known_by_what_people_and_drivers_call_them() -> None:
    for name in gpus.GPUS:
        assert gpus.named(name) == gpus.named(name.lower().replace(" ", "-")) == gpus.GPUS[name]
    assert gpus.named("4090").name == gpus.named("NVIDIA GeForce RTX 4090").name == "RTX 4090"
    assert gpus.named("NVIDIA A100-SXM4-40GB").name == "A100 40GB"
    assert gpus.named("NVIDIA A100 80GB PCIe").bandwidth < gpus.named("A100").bandwidth
    assert gpus.named("NVIDIA H100 80GB HBM3") == gpus.named("h100")
    for name in ("RTX 4090 Laptop GPU", "RTX 4090 D", "H100 NVL", "RTX", ""):
        with pytest.raises(UserError, match="--gpu-file"):
            gpus.named(name)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("NVIDIA H100 80GB HBM3, 81559", "one H100"),
        # a part of a card: the driver's word counts
        ("NVIDIA GeForce RTX 4090, 12000", "11.7 GiB"),
        ("NVIDIA GeForce RTX 4090, [N/A]\nNVIDIA GeForce RTX 4090, [N/A]", "24.0 GiB"),
    ],
)
def test_nvidia_smi_names_the_gpu_of_this_machine(
    says: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    printed: Callable[..., str],
) -> None:
    stand_in = tmp_path / "nvidia-smi"
    stand_in.write_text(
        f"#!/bin/sh\ncase $1 in --query-gpu=name,memory.total) echo '{says}' ;; *) exit 9 ;; esac\n"
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    out = printed("02_rsa_basic")
    assert words in out and "in this machine" in out
    stand_in.write_text("#!/bin/sh\necho 'NVIDIA RTX A6000, 49140'\n")
    with pytest.raises(UserError, match="'NVIDIA RTX A6000' is not in the table"):
        gpus.detect()
    stand_in.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    assert gpus.detect() is None


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(whole=JSON, data=st.data())
def test_any_gpu_file_gives_a_plan_or_a_users_error(
    whole: Any, data: st.DataObject, tmp_path: Path
) -> None:
    fields = {
        "name": "x",
        "memory_gib": 24,
        "bandwidth_gb_s": 1008,
        "bf16_tflops": 165.2,
        "fp8": True,
    }
    changed = data.draw(st.sampled_from([*fields]))
    near = fields | {changed: data.draw(JSON | st.floats(0, 1e7))}
    for content in (whole, near):
        path = tmp_path / "gpu.json"
        path.write_text(json.dumps(content))
        try:
            text = shown(estimate.Plan(rsa(), 30, ASSUMED, place(gpus.from_file(path)), RSA))
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 500
        else:
            assert "nan" not in text and text.encode()


@pytest.mark.parametrize(
    ("settings", "args", "words"),
    [
        ({}, ["99_nothing"], "'99_nothing'"),
        ({}, ["--price", "much"], "'much'"),
        ({}, ["--gpu", "Voodoo 2"], "'Voodoo 2'"),
        ({}, ["--gpu-file", "nowhere.json"], "nowhere.json"),
        ({}, ["--gpu", "4090", "--gpu-file", "x.json"], "--gpu-file"),
        ({"MODEL": "opneai"}, [], "MODEL=opneai"),
        ({"MODEL": "missing.gguf"}, [], "missing.gguf"),
        ({"MODEL": GGUF, "ENGINE": "sglang"}, [], "MODEL="),
        ({"MODEL": GGUF}, ["--gpu", "H100"], "--gpu"),
        ({"ENGINE": "llamacpp"}, [], "ENGINE=llamacpp"),
        ({"ENGINE": "embedded"}, [], "ENGINE"),
        ({"MODEL": "openai"}, ["--gpu", "H100"], "--gpu"),
        ({"BASE_URL": "http://127.0.0.1:9"}, [], "http://127.0.0.1:9"),
    ],
)
def test_a_wrong_argument_or_setting_is_one_line_and_status_2(
    settings: dict[str, str], args: list[str], words: str, no_gpu: None, results: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        cli.main([*(["02_rsa_basic"] if args != ["99_nothing"] else []), *args])
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and not out
    assert err.startswith("error: ") and err.count("\n") == 1 and words in err


def test_a_model_that_does_not_fit_is_refused_and_long_requests_are_noted(
    tmp_path: Path, printed: Callable[..., str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        printed("02_rsa_basic", "--gpu-file", str(gpu_file(tmp_path, memory_gib=8)))
    out = printed(
        "02_rsa_basic", "CARRY=full", "--gpu-file", str(gpu_file(tmp_path, memory_gib=12))
    )
    assert "but the server takes at most" in out


def test_a_priced_card_is_planned_in_dollars_by_hand(
    printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    plain = 'base_url = "https://api.example.com/v1"\nmodel = "m"\ncontinues = false\n'
    path.write_text(plain + '[price]\nread = 1\ncached = 0.1\nwritten = 10\non = "2026-11-23"\n')
    monkeypatch.setenv("MODEL", str(path))
    out = printed("01_baseline", "PROBLEMS=aime_2025", "N=8")
    config = rsa("ANSWER_TOKENS=0", "N=8", name="01_baseline")
    (load,) = loads_of(config, 30, ASSUMED, BASELINE)
    expected, most = (load.prompts + 10 * load.tokens) / 1e6, 240 * (200 + 10 * 16384) / 1e6
    assert f"${expected:,.2f} expected, ${most:,.2f} at most, at prices of 2026-11-23" in out
    assert "GPU" not in out
    path.write_text(plain)
    assert "the card mine has no table [price]" in printed("01_baseline", "PROBLEMS=aime_2025")


def test_a_sweep_is_planned_as_the_runs_that_send_requests(
    printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("PROBLEMS=aime_2025", "--gpu", "H100", "--price", "2")
    out = printed("02_rsa_basic", "N=2,8", "K=2,4", "T=1,2", *words)
    assert f"{30 * (2 + 8 + 8) * 3:,}." in out and "6, 3 of them from the first steps" in out
    assert "K=4 is larger than N=2" in out
    each = [
        planned("H100", "fp8", f"N={n}", f"K={k}", "T=2").seconds
        for n, k in ((2, 2), (8, 2), (8, 4))
    ]
    assert hours([sum(ends) for ends in zip(*each, strict=True)]) in out
    many = ",".join(map(str, range(8, 1025)))
    with pytest.raises(SystemExit, match="2"):
        printed("02_rsa_basic", f"N={many}", "K=1,2,3,4,5", "T=1,2", *words)
    err = capsys.readouterr().err
    assert "10,170 combinations" in err and "hours" in err and err.count("\n") == 1
