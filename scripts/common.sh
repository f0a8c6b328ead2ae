# shellcheck shell=bash
# The other scripts source this file with their arguments. It sets `root` to the checkout. For --help, it prints the script's
# first comment and, if the harness is already set up, the options of the script's `module`, and ends the script.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=${module:-}
run() { PYTHONPATH=$root exec "$root/.venv/bin/python" -m "$module" "$@"; }

# width FD: prints the columns of the terminal FD, or 0 if FD is a file or a pipe.
width() {
  local size=
  [ ! -t "$1" ] || size=$(stty size <&"$1" 2>/dev/null | cut -d ' ' -f 2) || true
  echo "${size:-0}"
}

# say TEXT: prints TEXT on standard error, wrapped at words if standard error is a terminal.
say() {
  local columns
  columns=$(width 2)
  if [ "$columns" -gt 40 ]; then fold -s -w $((columns - 2)) <<<"$*" | sed '2,$s/^/  /'; else echo "$*"; fi >&2
}

fail() { say "error: $*"; exit 2; }

case " $* " in
  *" -h "* | *" --help "*)
    columns=${COLUMNS:-$(width 1)}
    if [ "$columns" -eq 0 ]; then columns=1000; fi
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | fold -s -w "$columns"
    [ -z "$module" ] || [ ! -d "$root/${module%%.*}" ] || [ ! -x "$root/.venv/bin/python" ] || { echo; run --help; }
    exit 0 ;;
esac
[ -d "$root/${module%%.*}" ] || fail "${0##*/} needs the folder labs, which is missing. Restore it: git checkout labs"
