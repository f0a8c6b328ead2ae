#!/usr/bin/env bash
# Run an experiment: bash scripts/run.sh 02_rsa_basic [NAME=value …]; without a name, list them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

list() {
  echo "experiments (bash scripts/run.sh NAME [CONSTANT=value …]):"
  for file in "$root"/experiments/[0-9]*.py; do
    printf '  %-18s %s\n' "$(basename "$file" .py)" "$(sed -n '1s/^"""//p' "$file")"
  done
}

case ${1:--h} in -h | --help) list; exit 0 ;; esac
name=$(basename -- "$1" .py); shift
matches=("$root"/experiments/"$name"*.py)
if [ -f "$root/experiments/$name.py" ]; then
  file=$root/experiments/$name.py
elif [ ${#matches[@]} -eq 1 ] && [ -f "${matches[0]}" ]; then
  file=${matches[0]}
else
  echo "error: no experiment '$name'. There are: $(cd "$root/experiments" && echo [0-9]*.py | sed 's/\.py//g')" >&2
  exit 2
fi
bash "$root/setup.sh" harness
PYTHONPATH=$root exec "$root/.venv/bin/python" "$file" "$@"
