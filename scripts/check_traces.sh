#!/usr/bin/env bash
# Check the form of solutions for training: bash scripts/check_traces.sh FILE [MIN_STEPS=2] [MAX_STEPS=8] [FINAL=1]
# Each line of FILE is a JSON object. Its solution is the first of the fields output, model_solution, response, proof,
# student_solution, completion, text and answer. With FINAL=1, only a last line that begins with Final: passes.
# --kept OUT writes the lines that pass to the new file OUT.
set -euo pipefail
module=labs.star.cli
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
