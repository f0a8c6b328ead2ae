#!/usr/bin/env bash
# Run an experiment: bash scripts/run.sh 02_rsa_basic [NAME=value …]; without a name, list them; NAME --help explains one.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

list() {
  echo "Experiments: bash scripts/run.sh NAME [N=4 …]; NAME --help explains one"
  local files=("$root"/experiments/[0-9]*.py) file width=0 columns=${COLUMNS:-}
  [ -n "$columns" ] || { [ ! -t 1 ] || columns=$(tput cols 2>/dev/null); } || true
  for file in "${files[@]}"; do file=$(basename "$file" .py); width=$((${#file} > width ? ${#file} : width)); done
  for file in "${files[@]}"; do
    printf "  %-${width}s  %s\n" "$(basename "$file" .py)" "$(sed -n '1s/^"""//; 1s/"""$//; 1p' "$file")"
  done | awk -v room="${columns:-1000}" -v indent=$((width + 4)) '{
    while (length($0) > room && room > indent + 20) {
      at = room; while (at > indent && substr($0, at + 1, 1) != " ") at--
      if (at <= indent) break
      print substr($0, 1, at); $0 = sprintf("%" indent "s%s", "", substr($0, at + 2))
    }
    print }'
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
if grep -q '^from labs\.' "$file" && [ ! -d "$root/labs" ]; then
  echo "error: $(basename "$file" .py) belongs to a lab, and the folder labs is missing" >&2; exit 2
fi
case " $* " in *" --help "* | *" -h "*)
  # Before any set-up, what the file itself says; after it, ranges and defaults too.
  [ -x "$root/.venv/bin/python" ] || { sed -e '1s/^"""//' -e '/^from \|^import \|^if __name__\|^"""$\|^    run(/d' "$file"; exit 0; } ;;
*) bash "$root/setup.sh" harness ;;
esac
PYTHONPATH=$root exec "$root/.venv/bin/python" "$file" "$@"
