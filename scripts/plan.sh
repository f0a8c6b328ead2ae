#!/usr/bin/env bash
# What a run will take, before a token is spent: bash scripts/plan.sh 02_rsa_basic [NAME=value …] [--gpu NAME] [--price 0.4]
set -euo pipefail
module=core.plan.plan
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
