#!/usr/bin/env bash
# Estimate tokens, time and cost of a run without running it: bash scripts/plan.sh 02_rsa_basic [NAME=value …] [--gpu NAME]
# [--price 0.4]. --price is the price of a GPU hour in any currency.
set -euo pipefail
module=harness.plan.plan
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
