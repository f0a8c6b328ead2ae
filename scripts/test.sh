#!/usr/bin/env bash
# Set up the tests and run pytest, ruff and mypy. Arguments are passed to pytest: bash scripts/test.sh -k journal
#   bash scripts/test.sh faults     the long tests: injected faults, golden files and trl (FAULTS_SEED=1: other moments)
#   bash scripts/test.sh models     experiments on SmolLM2 (98 MB more), and on Gemma and Qwen files in WEIGHTS_DIR
#   bash scripts/test.sh engines    tests of vLLM, SGLang and transformers serve on this machine's CPU (5.5 GB more)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
[ "${1:-}" = engines ] && what=engines || what=dev
bash setup.sh "$what"
status=0
# If .venv-train can't be set up, the tests of training are skipped and the status is 1.
bash setup.sh train || status=1
# The report page is tested in a real browser. Without one, those tests are skipped.
if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "installing chromium with apt-get for the tests of the report page (once, about 400 MB) …"
  { apt-get update -q && apt-get install -qy --no-install-recommends chromium; } >/dev/null 2>&1 || say "chromium could not be installed, so the tests of the report page are skipped"
fi
export PYTHONPATH=$PWD
unset PYTHONDONTWRITEBYTECODE  # otherwise each of the tests' hundreds of programs would compile the same files
case ${1:-} in
  faults)
    say "the tests of faults take 5 to 10 minutes on 2 cores"
    shopt -s nullglob
    set -- -n 4 --dist loadfile -m "" tests/faults tests/golden tests/test_wall.py tests/harness/test_fleet.py \
      tests/labs/test_golden*.py tests/labs/*/test_{faults,star,swap,convert,process,sft,llama}*.py tests/labs/*/*/test_slurm*.py "${@:2}" ;;
  models) say "the tests of models take 3 to 6 minutes on 2 cores"; set -- -m models tests/real "${@:2}" ;;
  engines) say "the tests of engines take about 30 minutes on 2 cores"; set -- -m engines tests/real "${@:2}" ;;
  "") # four workers even on two cores, because tests often wait
    say "the tests take 3 to 6 minutes on 2 cores. ruff and mypy follow"; set -- -n 4 --dist loadfile --no-loadscope-reorder ;;
esac
.venv/bin/python -m pytest "$@" || status=$?
.venv/bin/ruff check . || status=1
.venv/bin/ruff format --check . || status=1
.venv/bin/mypy || status=1
exit "$status"
