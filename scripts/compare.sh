#!/usr/bin/env bash
# Compare each of the other results with the first: bash scripts/compare.sh 01_baseline 02_rsa_basic [--anyway]
set -euo pipefail
module=core.report.compare
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
