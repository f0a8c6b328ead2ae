#!/usr/bin/env bash
# Show statistics of graded lines: bash scripts/stats.sh FILE.graded.jsonl … [--markdown]
# The lines come from grade.sh, from report.sh NAME --jsonl, or from QED-Nano's evaluation. Several files are runs of one model.
set -euo pipefail
module=labs.proofs.stats
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
