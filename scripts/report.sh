#!/usr/bin/env bash
# Show results: bash scripts/report.sh [02_rsa_basic … | lean | --all] [--live | --transitions | --scores | --markdown | --figures [DIR] | --jsonl [FILE] | …]
set -euo pipefail
module=harness.report.report
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case " $* " in *" --inspect"*) bash "$root/setup.sh" inspect ;; *) bash "$root/setup.sh" harness ;; esac
run "$@"
