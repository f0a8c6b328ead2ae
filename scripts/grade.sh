#!/usr/bin/env bash
# Grade proofs by a model: bash scripts/grade.sh NAME|FILE.jsonl GRADER=card [PROMPT=file] [GRADES=1]
# NAME are results, FILE.jsonl any lines with problem, guidelines or grading_scheme, and model_solution.
set -euo pipefail
module=labs.proofs.grade.cli
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
