#!/usr/bin/env bash
# Let a model find faults in problems: bash scripts/filter.sh FILE GRADER=card [PROMPT=file] [LIMIT=20]
# FILE (.json, .jsonl, .csv, .tsv, .parquet or hub:owner/name) has the fields problem and solution, and optionally candidates and path,
# as in AI-MO/aops. FILE.filter.jsonl (for FILE.json) gets the new fields incomplete, difficulty, gaps, wrong, disagreement, computational.
set -euo pipefail
module=labs.proofs.curate.filter
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
