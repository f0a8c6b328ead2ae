#!/usr/bin/env bash
# Compare results with the first of them: bash scripts/compare.sh 01_baseline 02_rsa_basic … [--anyway] [--markdown]
set -euo pipefail
module=harness.report.compare
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
