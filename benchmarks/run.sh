#!/usr/bin/env bash
# Run a benchmark: bash benchmarks/run.sh client_cost [--option …]. Without a name, list all benchmarks.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
name=$(basename -- "${1:--h}" .py); shift || true

if [ ! -f "benchmarks/$name.py" ]; then
  echo "benchmarks (bash benchmarks/run.sh NAME [--option …], and --help for its options):"
  for file in benchmarks/*.py; do printf '  %-18s %s\n' "$(basename "$file" .py)" "$(sed -n '1s/^"""//p' "$file")"; done
  case $name in -h | --help) exit 0 ;; *) echo "error: no benchmark '$name'" >&2; exit 2 ;; esac
fi

bash setup.sh harness
if [ "$name" = client_cost ] || [ "$name" = agreement ]; then
  peers=benchmarks/requirements-peers.txt stamp=.venv-peers/.installed
  if ! cmp -s "$peers" "$stamp"; then
    echo "setting up .venv-peers from $peers (once) …" >&2
    .venv/bin/python -m venv .venv-peers
    .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r "$peers" || {
      echo "error: the packages of $peers could not be installed (see above). Check the network and the disk" >&2; exit 2; }
    cp "$peers" "$stamp"
  fi
fi
PYTHONPATH=$root exec .venv/bin/python "benchmarks/$name.py" "$@"
