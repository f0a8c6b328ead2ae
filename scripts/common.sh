# shellcheck shell=bash
# Sourced by the other scripts, with their arguments. `root` is the checkout; --help prints the comment at a script's head
# and, once the harness is set up, the options of its `module`: nothing is set up or looked for before.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

module=${module:-}
run() { PYTHONPATH=$root exec "$root/.venv/bin/python" -m "$module" "$@"; }

case " $* " in
  *" -h "* | *" --help "*)
    columns=${COLUMNS:-}
    [ -n "$columns" ] || { [ ! -t 1 ] || columns=$(tput cols 2>/dev/null); } || true
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | fold -s -w "${columns:-1000}"
    [ -z "$module" ] || [ ! -d "$root/${module%%.*}" ] || [ ! -x "$root/.venv/bin/python" ] || { echo; run --help; }
    exit 0 ;;
esac
[ -d "$root/${module%%.*}" ] || { echo "error: ${0##*/} belongs to a lab, and the folder labs is missing" >&2; exit 2; }
