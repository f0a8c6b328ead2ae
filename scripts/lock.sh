#!/usr/bin/env bash
# Update locks/, from which setup.sh installs: bash scripts/lock.sh. It pins the packages of harness, fleet, inspect, gym, lean,
# dev, sglang and vllm for every platform and Python from 3.11, with hashes. A lock that can't be resolved does not change.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
say "resolving the packages of all parts, some minutes …"
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'
resolve() { "$folder/venv/bin/uv" pip compile --universal --python-version 3.11 --no-header --no-annotate --quiet "$@"; }

# lock OUT FILE… [flag …]: pins the requirements of the FILEs in locks/OUT, or leaves locks/OUT unchanged and fails.
lock() {
  local out=$1; shift
  resolve --generate-hashes "$@" >"$folder/lock" && mv "$folder/lock" "locks/$out"
}

mkdir -p locks
# The parts that share .venv are resolved together. A part's lock contains only the packages that the part adds.
resolve requirements.txt requirements-{fleet,inspect,gym,lean,dev}.txt >"$folder/together"
lock requirements.lock requirements.txt --constraint "$folder/together"
harness=$(sed -nE 's/^([A-Za-z0-9._-]+)==.*/--no-emit-package=\1/p' locks/requirements.lock | sort -u)
for part in fleet inspect gym lean dev; do
  # shellcheck disable=SC2086  # each word is a flag
  lock "requirements-$part.lock" requirements.txt "requirements-$part.txt" --constraint "$folder/together" $harness
done
# Engines have their own venvs.
for engine in sglang vllm; do
  lock "requirements-$engine.lock" "requirements-$engine.txt" || say "note: the lock of $engine could not be updated (see above)"
done
