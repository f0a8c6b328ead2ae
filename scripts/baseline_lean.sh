#!/usr/bin/env bash
# Measure a policy in Lean before any training: bash scripts/baseline_lean.sh [NAME=value …]
# It runs 23_lean_baseline on the held-out theorems, with a control without a model, and on miniF2F if LEAN is set. Then 25_lean_all
# searches the training theorems, trains an energy of the policy and searches with it. At the end, report.sh lean prints all results.
# Constants of 25_lean_all and INDEX are allowed. Iteration 0 later reuses these searches. See docs/lean.md
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
searches=() iterates=(MAX_ITERATION=-1)
for word; do
  case $word in
    INDEX=*) searches+=("$word") ;;
    TRAIN_*=* | MAX_THEOREMS=* | EXPLORE=* | NOISE*=* | HARVEST=* | STEPS=* | SKIP_BASELINE=* | ENERGY*=* | GO=*) iterates+=("$word") ;;
    *) searches+=("$word") iterates+=("$word") ;;
  esac
done
bash "$root/scripts/run.sh" 23_lean_baseline "${searches[@]}"
if [ -n "${LEAN:-}" ]; then
  bash "$root/scripts/run.sh" 23_lean_baseline "${searches[@]}" THEOREMS=minif2f
else
  say "note: no miniF2F, which needs a project with Mathlib. Set LEAN to its folder"
fi
bash "$root/scripts/run.sh" 25_lean_all "${iterates[@]}"
case " $* " in *" SMOKE=1 "*) ;; *) bash "$root/scripts/report.sh" lean ;; esac
