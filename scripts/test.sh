#!/usr/bin/env bash
# Set up and test: ruff, mypy, pytest. Arguments go to pytest: bash scripts/test.sh -k journal
#   bash scripts/test.sh faults     the suite of faults, short tests and long; FAULTS_SEED=1 draws other moments for them
#   bash scripts/test.sh engines    vLLM and transformers serve on this machine's CPU (3.4 GB more, ten minutes)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ "${1:-}" = engines ] && what=engines || what=dev
bash setup.sh "$what"
# The report page is tested in a real browser. Where none is and none can be installed, those tests are skipped.
if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing chromium, for the tests of the report page (once) …" >&2
  { apt-get update -q && apt-get install -qy --no-install-recommends chromium; } >/dev/null 2>&1 || echo "no chromium: those tests are skipped" >&2
fi
export PYTHONPATH=$PWD
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
case ${1:-} in
  faults) set -- -m "" tests/faults "${@:2}" ;;
  engines) set -- -m engines tests/real "${@:2}" ;;
  "") set -- -n 3 --dist loadfile ;;  # three files at a time also on two cores: tests wait as much as they compute
esac
.venv/bin/python -m pytest "$@"
