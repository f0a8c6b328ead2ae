#!/usr/bin/env bash
# Convert a Qwen3 model from GGUF to Hugging Face's layout, for vLLM and SGLang: bash scripts/to_hf.sh MODEL.gguf FOLDER
set -euo pipefail
module=core.training.to_hf
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
