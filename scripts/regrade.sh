#!/usr/bin/env bash
# Grade results again, from their journal and without a server: bash scripts/regrade.sh 02_rsa_basic
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/setup.sh" harness
PYTHONPATH=$root exec "$root/.venv/bin/python" -m core.regrade "$@"
