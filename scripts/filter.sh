#!/usr/bin/env bash
# Have a model say what is wrong with problems: bash scripts/filter.sh FILE GRADER=card [PROMPT=file] [LIMIT=20]
# FILE (.json, .jsonl, .csv, .parquet) has problem and solution, and perhaps candidates and path, as AI-MO/aops has them;
# FILE.filter.jsonl beside it gains incomplete, difficulty, gaps, wrong, disagreement, computational.
set -euo pipefail
module=labs.proofs.curate.filter
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
