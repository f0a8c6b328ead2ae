#!/usr/bin/env bash
# Grade proofs with a model: bash scripts/grade.sh NAME|FILE.jsonl GRADER=card [PROMPT=file] [GRADES=1]
# NAME is the name of results, such as 18_proofs. Each line of FILE.jsonl is a JSON object with the fields problem and
# model_solution, and optionally solution, guidelines or grading_scheme.
set -euo pipefail
module=labs.proofs.grade.cli
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
