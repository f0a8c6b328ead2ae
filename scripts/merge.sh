#!/usr/bin/env bash
# Merge runs of one experiment that differ only in SEED: bash scripts/merge.sh mean|max|min A B …
set -euo pipefail
module=harness.report.merged
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
