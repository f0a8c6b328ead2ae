#!/usr/bin/env bash
# Train a model on a file of JSON lines: bash scripts/finetune.sh --model PATH --data FILE.jsonl --out FOLDER
# It sets up .venv-train (1.5 GB with torch for the CPU, 7 GB with CUDA), unless TRAIN_PYTHON names a Python with torch.
set -euo pipefail
module=labs.training.finetune
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ -n "${TRAIN_PYTHON:-}" ] || bash "$root/setup.sh" train
PYTHONPATH=$root exec "${TRAIN_PYTHON:-$root/.venv-train/bin/python}" -m "$module" "$@"
