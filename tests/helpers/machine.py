"""A machine with stand-ins for a GPU and for the engines that serve on it."""

import json
import os
import sys
from pathlib import Path

from tests.conftest import environment

GPU = 'echo "NVIDIA GeForce RTX 4090, 24564"'  # as nvidia-smi prints its name and memory
QED_NANO_CONFIG = {
    "num_hidden_layers": 36,
    "hidden_size": 2560,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 262144,
}
# A stand-in for a python with sglang, which serves a scripted model on the given port, to those
# with the given key.
SGLANG = f"""
[ "$1" = -c ] && exit 0
[ "$1 $2" = "-m sglang.launch_server" ] || exit 9
echo "$@" >"$RESULTS_DIR/flags"
exec {sys.executable} -c '
import json, signal, sys
from tests.fakes.http import answer
from tests.fakes.server import ScriptedServer
flags = dict(zip(sys.argv, sys.argv[1:]))
key = json.loads(open(flags["--config"]).read().removeprefix("api-key: ")) if "--config" in flags \
else ""
class Sglang(ScriptedServer):
    def get(self, request):
        status = 200 if not key or request.headers["authorization"] == "Bearer " + key else 401
        answer(status, dict(data=[dict(id=flags["--served-model-name"], \
owned_by="sglang")]))(request)
server = Sglang(int(flags["--port"]))
signal.pause()
' "$@"
"""


def stand_in(folder: Path, **programs: str) -> str:
    """Return a PATH that begins with shell stand-ins of `programs`."""
    folder.mkdir(exist_ok=True)
    for name, body in programs.items():
        (folder / name.replace("_", "-")).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def gpu_machine(tmp_path: Path, results: Path, sglang: str, port: str) -> dict[str, str]:
    """Return the environment of a machine with stand-ins for the GPU and SGLang, and with
    weights."""
    weights = tmp_path / "weights" / "QED-Nano"
    weights.mkdir(parents=True)
    (weights / "FETCHED.json").write_text('{"repo": "lm-provers/QED-Nano", "revision": "abc"}')
    (weights / "config.json").write_text(json.dumps(QED_NANO_CONFIG))
    path = stand_in(tmp_path / "bin", nvidia_smi=GPU, sglang_python=sglang)
    python = str(tmp_path / "bin" / "sglang-python")
    folders = {"WEIGHTS_DIR": str(tmp_path / "weights"), "RESULTS_DIR": str(results)}
    return environment(PATH=path, SGLANG_PYTHON=python, PORT=port, **folders)
