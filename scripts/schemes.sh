#!/usr/bin/env bash
# Let a model write marking schemes: bash scripts/schemes.sh FILE GRADER=card [PROMPT=file] [LIMIT=20]
# FILE (.json, .jsonl, .csv, .tsv, .parquet or hub:owner/name) has the fields problem and solution. FILE.schemes.jsonl (for FILE.json)
# gets the new field grading_scheme. For hub:owner/name, it is owner--name.schemes.jsonl in the results folder.
set -euo pipefail
module=labs.proofs.curate.schemes
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
