#!/usr/bin/env bash
# Look at results: bash scripts/report.sh [02_rsa_basic …] [--live | --figures [DIR] | --inspect DIR]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case " $* " in *" --inspect"*) bash "$root/setup.sh" inspect ;; *) bash "$root/setup.sh" harness ;; esac
PYTHONPATH=$root exec "$root/.venv/bin/python" -m core.report.cli "$@"
