#!/usr/bin/env bash
# Run an experiment for each combination of constants: bash scripts/sweep.sh 02_rsa_basic N=4,8,16 K=2,3 T=6 [NAME=value …]
# Numbers and choices (SCAFFOLD, CARRY) may be lists. Combinations that contradict each other, such as K > N, are left out.
# The same command continues a sweep that stopped. First estimate it: bash scripts/plan.sh with the same arguments.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -gt 0 ] || fail "name an experiment and lists: bash scripts/sweep.sh 02_rsa_basic N=4,8 K=2,3"
exec bash "$root/scripts/run.sh" "$@" --sweep
