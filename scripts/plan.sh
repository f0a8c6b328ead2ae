#!/usr/bin/env bash
# What a run will take, before a token is spent: bash scripts/plan.sh 02_rsa_basic [NAME=value …] [--gpu NAME] [--price 0.4]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/setup.sh" harness
PYTHONPATH=$root exec "$root/.venv/bin/python" -m core.plan.cli "$@"
