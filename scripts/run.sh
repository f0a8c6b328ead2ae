#!/usr/bin/env bash
# Run an experiment: bash scripts/run.sh 02_rsa_basic [NAME=value …]. Without arguments, it lists all experiments.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh" ""  # --help is answered below
groups=(
  "Baselines without aggregation:01 12 13 28 14 17"
  "RSA:02 03 04 05 16"
  "Scaffolds of other projects:06 07 08 09 10 11"
  "Any scaffold on any problems, and all scaffolds at equal compute:18 19 15 27"
  "Graders of proofs:20"
  "Training on own solutions (STaR), and on aggregations:21 22 29"
  "Proof search in Lean:23 24 25 26"
)
names=("$root"/experiments/[0-9]*.py)
names=("${names[@]##*/}") names=("${names[@]%.py}")

# rows TITLE NAME…: prints TITLE and a row for each experiment. The row has the first line of the experiment's docstring,
# cut to the terminal's width.
rows() {
  local name row columns=${COLUMNS:-$(width 1)}
  printf '\n%s\n' "$1"; shift
  for name; do
    printf -v row '  %-22s %s' "$name" "$(sed -n '1s/^"""//; 1s/"""$//; 1p' "$root/experiments/$name.py")"
    if [ "$columns" -gt 40 ] && [ ${#row} -gt "$columns" ]; then row=${row:0:columns - 1} row="${row% *} …"; fi
    echo "$row"
  done
}

list() {
  local group number name found others=" ${names[*]} "
  echo "Experiments: bash scripts/run.sh NAME [N=4 …]. NAME --help gives details."
  for group in "${groups[@]}"; do
    found=()
    for number in ${group#*:}; do
      for name in "${names[@]}"; do
        if [[ $name == "$number"_* ]]; then found+=("$name") others=${others/" $name "/ }; fi
      done
    done
    [ ${#found[@]} -eq 0 ] || rows "${group%%:*}" "${found[@]}"
  done
  # shellcheck disable=SC2086  # each word is a name
  [ "$others" = " " ] || rows "Others" $others
}

settings() {
  printf '\n%s\n' "Settings go before the command, such as MODEL=openai bash scripts/run.sh NAME
  MODEL     a model card (data/models), a model's name, a folder or a .gguf file
  BASE_URL  address of a running server, such as http://127.0.0.1:8000/v1
  ENGINE    engine to start: sglang, vllm, llamacpp or embedded
  PORT      port of a running server, or of the server to start (30000)
docs/engines.md explains these and other settings."
}

case ${1:-} in "" | -h | --help) list; settings; exit 0 ;; esac
name=$(basename -- "$1" .py); shift
matches=("$root"/experiments/"$name"*.py)
if [ -f "$root/experiments/$name.py" ]; then
  file=$root/experiments/$name.py
elif [ ${#matches[@]} -eq 1 ] && [ -f "${matches[0]}" ]; then
  file=${matches[0]}
else
  close=$(printf '%s\n' "${names[@]}" | grep -F -- "$name" | paste -s -d ' ' - | sed 's/ /, /g') || true
  match='import difflib, sys; print(*difflib.get_close_matches(sys.argv[1], sys.argv[2:], 1, 0.5))'
  [ -n "$close" ] || close=$(python3 -c "$match" "$name" "${names[@]}" 2>/dev/null) || true
  fail "no experiment '$name'. ${close:+Did you mean $close? }List all experiments: bash scripts/run.sh"
fi
if grep -q '^from labs\.' "$file" && [ ! -d "$root/labs" ]; then
  fail "$(basename "$file" .py) needs the folder labs, which is missing. Restore it: git checkout labs"
fi
case " $* " in
  *" --help "* | *" -h "*)
    if [ -x "$root/.venv/bin/python" ]; then
      PYTHONPATH=$root "$root/.venv/bin/python" -m harness.experiment_file "$file" "$@"
    else  # only the harness knows ranges and defaults, so print the text of the file
      sed -e '1s/^"""//' -e '/^from \|^import \|^if __name__\|^"""$\|^    run(/d' "$file"
    fi
    settings; exit 0 ;;
esac
bash "$root/setup.sh" harness
PYTHONPATH=$root exec "$root/.venv/bin/python" -m harness.experiment_file "$file" "$@"
