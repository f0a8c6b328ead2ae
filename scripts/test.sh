#!/usr/bin/env bash
# Set up and test: ruff, mypy, pytest. Arguments go to pytest: bash scripts/test.sh -k journal
#   bash scripts/test.sh faults     the suite of faults, short tests and long; FAULTS_SEED=1 draws other moments for them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash setup.sh dev
export PYTHONPATH=$PWD
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
[ "${1:-}" != faults ] || set -- -m "" tests/faults "${@:2}"
.venv/bin/python -m pytest "$@"
