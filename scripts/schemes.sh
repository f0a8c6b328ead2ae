#!/usr/bin/env bash
# Let a model write marking schemes: bash scripts/schemes.sh FILE GRADER=card [PROMPT=file] [LIMIT=20]
# FILE (.json, .jsonl, .csv, .parquet) has problem and solution. FILE.schemes.jsonl in the same folder adds grading_scheme.
set -euo pipefail
module=labs.proofs.curate.schemes
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
