#!/usr/bin/env bash
# Grade proofs with a model: bash scripts/grade.sh NAME|FILE.jsonl GRADER=card [PROMPT=file] [GRADES=1]
# NAME names results. Each line of FILE.jsonl has the fields problem, guidelines or grading_scheme, and model_solution.
set -euo pipefail
module=labs.proofs.grade.cli
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
