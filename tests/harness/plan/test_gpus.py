"""GPUs by name, of this machine, and from any file."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from core.engines import gpus
from core.rsa import RSA
from harness.plan import estimate
from harness.plan.lengths import ASSUMED
from tests.harness.plan.helpers import JSON, place, rsa, shown


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
