#!/usr/bin/env bash
# Convert a Qwen3 model from GGUF to Hugging Face's layout, for vLLM and SGLang: bash scripts/to_hf.sh MODEL.gguf FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/setup.sh" harness
PYTHONPATH=$root exec "$root/.venv/bin/python" -m core.training.to_hf "$@"
