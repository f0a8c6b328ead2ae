"""The roofline, compared with arithmetic by hand and a simulated schedule."""

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import makespan
from core.base.errors import UserError
from core.engines.shape import QED_NANO, Shape
from core.rsa import RSA
from harness.plan.lengths import ASSUMED
from tests.harness.plan.helpers import JSON, line, planned, rsa, shown
from tests.helpers.machine import QED_NANO_CONFIG


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
