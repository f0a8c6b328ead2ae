"""STaR on one GPU: the server is gone while a model is trained, and comes back with the new
weights. Stand-ins for the GPU and for SGLang; the weights, the training (trl, peft) and what is
served are real."""

from pathlib import Path

import pytest

from core.base.errors import UserError
from core.engines import gpus
from core.engines.attach import probe
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.protocol import Server
from labs.star import record as rounds
from labs.training import served
from labs.training.process import python_of
from labs.training.served import Weights
from labs.training.stages import NAME
from labs.training.to_hf import convert
from tests.conftest import run
from tests.helpers.machine import GPU, stand_in
from tests.labs.training import sglang

PORT = "29869"
# Notes whether a server answers, and trains.
TRAIN = """
if [ "$1" != -c ]; then
  note=training
  (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && note="training beside a server"
  echo "$note" >>"$NOTES"
fi
OMP_NUM_THREADS=1 exec {python} "$@"  # threads that wait for each other take the time of other \
tests
"""


@pytest.mark.faults  # trl and peft take most of its time
def test_the_server_is_stopped_while_a_model_is_trained_and_comes_back_with_it(
    tmp_path: Path,
) -> None:
    convert(EMBEDDED_GGUF, tmp_path / "base")
    trains = TRAIN.format(port=PORT, python=python_of())
    path = stand_in(
        tmp_path / "bin", nvidia_smi=GPU, sglang_python=sglang.STARTED, train_python=trains
    )
    small = (
        "LIMIT=3",
        "ROUNDS=1",
        "TRIES=2",
        "SEEDS=63",
        "MAX_TOKENS=400",
        "DATA=sums_star",
        "EVAL=sums_star_eval",
    )
    status, _, err = run(
        "21_star",
        *small,
        PATH=path,
        SGLANG_PYTHON=str(tmp_path / "bin" / "sglang-python"),
        TRAIN_PYTHON=str(tmp_path / "bin" / "train-python"),
        NOTES=str(tmp_path / "notes"),
        MODEL=str(tmp_path / "base"),
        RESULTS_DIR=str(tmp_path / "results"),
        PORT=PORT,
    )
    assert status == 0, err
    first, between, second = (tmp_path / "notes").read_text().splitlines()
    own = tmp_path / "results" / "21_star" / "seed0"
    trained = own / "round1" / "trained" / "model"
    assert between == "training"
    assert first == f"serving {_name(tmp_path / 'base')} {tmp_path / 'base'}"
    assert second == f"serving {_name(trained)} {trained}"
    assert probe(f"http://127.0.0.1:{PORT}/v1", "x") is None
    models = [each["evaluated"]["model"] for each in rounds.read(own / NAME).rounds]
    assert models == [_name(tmp_path / "base"), _name(trained)] and len(set(models)) == 2


def test_a_server_of_others_on_the_port_is_refused(
    engine: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(EMBEDDED_GGUF, tmp_path / "base")
    port = engine.base_url.split(":")[2].split("/")[0]
    monkeypatch.setattr(gpus, "count", lambda: 1)
    monkeypatch.setenv("PORT", port)
    with pytest.raises(UserError, match=port):
        served.check(Weights(tmp_path / "base"))


def _name(folder: Path) -> str:
    return f"{folder.name}@{Weights(folder).digest[:12]}"
