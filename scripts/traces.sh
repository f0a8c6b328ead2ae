#!/usr/bin/env bash
# Merge files of traces, of several rounds or people: bash scripts/traces.sh FILE … --out OUT.jsonl [--alpaca]
# Each line of FILE is a JSON object with instruction and output, and optionally input, round and way, as in a run's
# traces.jsonl. One row of each problem is kept. --alpaca writes the form that is asked for in instruction, the problem in
# input, and the steps and a line "Final: 42" in output.
set -euo pipefail
module=labs.star.merge
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
