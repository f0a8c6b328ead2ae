#!/usr/bin/env bash
# Set up and test: pytest, then ruff and mypy. Arguments go to pytest: bash scripts/test.sh -k journal
#   bash scripts/test.sh faults     the suite of faults, short tests and long; FAULTS_SEED=1 draws other moments for them
#   bash scripts/test.sh engines    vLLM, SGLang and transformers serve on this machine's CPU (5.5 GB more)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
[ "${1:-}" = engines ] && what=engines || what=dev
bash setup.sh "$what"
status=0
# Where what trains can't be set up, the tests of training are skipped, and this ends with status 1.
bash setup.sh train || status=1
# The report page is tested in a real browser. Where none is and none can be installed, those tests are skipped.
if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing chromium by apt-get, for the tests of the report page (once; about 400 MB, nothing else) …" >&2
  { apt-get update -q && apt-get install -qy --no-install-recommends chromium; } >/dev/null 2>&1 || echo "no chromium: those tests are skipped" >&2
fi
export PYTHONPATH=$PWD
unset PYTHONDONTWRITEBYTECODE  # the tests start hundreds of programs, each of which would compile the same files
case ${1:-} in
  faults)
    echo "the suite of faults: 10 to 15 minutes on 2 cores" >&2
    shopt -s nullglob
    set -- -n 4 --dist loadfile -m "" tests/faults tests/labs/*/test_faults.py "${@:2}" ;;
  engines) echo "the engines' suite: about 30 minutes on 2 cores" >&2; set -- -m engines tests/real "${@:2}" ;;
  "") # four files at a time also on two cores: tests wait a good deal
    echo "the suite: 10 to 15 minutes on 2 cores, then ruff and mypy" >&2; set -- -n 4 --dist loadfile --no-loadscope-reorder ;;
esac
.venv/bin/python -m pytest "$@" || status=$?
.venv/bin/ruff check . || status=1
.venv/bin/ruff format --check . || status=1
.venv/bin/mypy || status=1
exit "$status"
