"""Constants, places and plans for the tests of the planner."""

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from core import constants
from core.constants import Constants
from core.engines import gpus
from core.engines.cards import Card
from core.engines.dialects.sglang import DIALECT as SGLANG
from core.engines.gpus import Gpu
from core.engines.shape import QED_NANO
from core.rsa import RSA
from core.types import Bounded
from harness import experiment_file
from harness.plan import estimate
from harness.plan import plan as cli
from harness.plan.lengths import ASSUMED
from harness.plan.subject import OnGpu, Subject


def rsa(*overrides: str, name: str = "02_rsa_basic") -> Constants:
    found = experiment_file.load(name)
    config: Constants = constants.read(found.planned.constants, found.namespace, list(overrides))
    return config


def place(gpu: Gpu = gpus.DEFAULT, kv: str = "bf16") -> OnGpu:
    return OnGpu(SGLANG, gpu, "here", kv, QED_NANO, "figures")


def planned(gpu: str, kv: str, *overrides: str, count: int = 30) -> estimate.Plan:
    return estimate.Plan(rsa(*overrides), count, ASSUMED, place(gpus.named(gpu), kv), RSA)


def shown(plan: estimate.Plan, scaffold: Bounded = RSA) -> str:
    on = place(plan.machine.gpu, plan.machine.kv)
    return cli.run(
        plan.config, plan.count, ASSUMED, Subject("m", "QED-Nano", Card(), on), scaffold, 0.4
    )


def line(out: str, name: str) -> str:
    return next(
        each.removeprefix(name).strip() for each in out.splitlines() if each.startswith(name)
    )


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
