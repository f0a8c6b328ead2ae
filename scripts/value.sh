#!/usr/bin/env bash
# Train a value head on a run's samples, and compare its choices with the vote and the model's verdicts: bash scripts/value.sh 13_best_of
# MODEL and ENGINE select the model, as for the run. --out FILE writes the head for serve_value.sh.
set -euo pipefail
module=labs.training.value
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
