#!/usr/bin/env bash
# Grade stored completions of a run again, without a server: bash scripts/regrade.sh 02_rsa_basic [ANSWER=text]
# ANSWER reads answers in another form.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
module=harness.session.regrade
bash "$root/setup.sh" harness
run "$@"
