#!/usr/bin/env bash
# Prepare Mathlib's proofs for a policy: LEAN=FOLDER bash scripts/prepare_lean.sh [--from ARCHIVE|FOLDER]
# It reads LeanDojo's traced data, and writes pairs of a state and a tactic, and theorems to prove. LEAN is the folder of a
# lake project with Mathlib, which checks the theorems' statements. Pairs need no LEAN. See docs/lean.md#with-mathlib-on-a-gpu
set -euo pipefail
module=labs.lean.prepare
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
