#!/usr/bin/env bash
# Pin anew what is downloaded, into locks/: bash scripts/lock.sh. The packages of requirements*.txt, for every platform and
# Python from 3.11, with the hash of every file (setup.sh installs from these; the ranges say what may be in them). Where
# one of them can't be looked up, its lock stays as it was.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'
resolve() { "$folder/venv/bin/uv" pip compile --universal --python-version 3.11 --no-header --no-annotate --quiet "$@"; }

# lock OUT FILE… [flag …]: what the files need, into locks/OUT.
lock() {
  local out=$1; shift
  resolve --generate-hashes "$@" >"$folder/lock" && mv "$folder/lock" "locks/$out"
}

mkdir -p locks
# What shares .venv is resolved together; the lock of each part then holds only what it adds.
resolve requirements.txt requirements-{fleet,inspect,lean,dev}.txt >"$folder/together"
lock requirements.lock requirements.txt --constraint "$folder/together"
harness=$(sed -nE 's/^([A-Za-z0-9._-]+)==.*/--no-emit-package=\1/p' locks/requirements.lock | sort -u)
for part in fleet inspect lean dev; do
  # shellcheck disable=SC2086  # one flag a word
  lock "requirements-$part.lock" requirements.txt "requirements-$part.txt" --constraint "$folder/together" $harness
done
# Servers have a venv of their own.
for engine in sglang vllm; do
  lock "requirements-$engine.lock" "requirements-$engine.txt" || echo "note: no new lock for $engine (see above)" >&2
done
