#!/usr/bin/env bash
# Set up and test: ruff, mypy, pytest. Arguments go to pytest: bash scripts/test.sh -k journal
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash setup.sh dev
export PYTHONPATH=$PWD
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/python -m pytest "$@"
