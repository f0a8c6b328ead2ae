#!/usr/bin/env bash
# Compare results, each against the first: bash scripts/compare.sh 01_baseline 02_rsa_basic [--anyway]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/setup.sh" harness
PYTHONPATH=$root exec "$root/.venv/bin/python" -m core.report.compare "$@"
