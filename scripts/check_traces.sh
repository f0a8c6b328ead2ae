#!/usr/bin/env bash
# Check the form of solutions for training: bash scripts/check_traces.sh FILE [MIN_STEPS=2] [MAX_STEPS=8]
# FILE contains JSON lines with output (or model_solution, completion, text, answer). --kept OUT writes the rows that pass.
set -euo pipefail
module=labs.star.cli
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
