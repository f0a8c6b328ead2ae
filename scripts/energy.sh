#!/usr/bin/env bash
# Train the energy of proof search: bash scripts/energy.sh --trajectories PATH… --embeddings FOLDER --out FOLDER. Sets
# .venv-train up (1.5 GB with torch for the CPU; TRAIN_PYTHON names another interpreter).
set -euo pipefail
module=labs.lean.energy_training
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ -n "${TRAIN_PYTHON:-}" ] || bash "$root/setup.sh" train
PYTHONPATH=$root exec "${TRAIN_PYTHON:-$root/.venv-train/bin/python}" "$root/scripts/energy.py" "$@"
