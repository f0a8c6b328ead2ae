#!/usr/bin/env bash
# Convert a Qwen3, Qwen2 or Llama model from GGUF to Hugging Face's layout: bash scripts/to_hf.sh MODEL.gguf FOLDER
set -euo pipefail
module=labs.training.to_hf
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
