#!/usr/bin/env bash
# Prepare Mathlib's proofs for a policy: LEAN=FOLDER bash scripts/prepare_lean.sh [--from ARCHIVE|FOLDER] [--out FOLDER]
# It writes pairs of state and tactic, and theorems to prove, from LeanDojo's traced data. LEAN is a lake project with
# Mathlib. It checks the theorems' statements, but pairs do not need it. See docs/lean.md#with-mathlib-on-a-gpu
set -euo pipefail
module=labs.lean.prepare
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
