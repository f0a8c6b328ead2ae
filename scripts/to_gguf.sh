#!/usr/bin/env bash
# Convert a Qwen3 (QED-Nano), Qwen2 or Llama model to GGUF: bash scripts/to_gguf.sh FOLDER OUT.gguf [--type q8_0|f16|bf16|f32]
set -euo pipefail
module=labs.training.to_gguf
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
