#!/usr/bin/env bash
# Serve a value head, which value.sh has trained, as a reward model for SCORE=reward: bash scripts/serve_value.sh HEAD.json
# MODEL and ENGINE select the head's model. The server has the address http://127.0.0.1:30002/v1 (--port). Ctrl-C stops it.
set -euo pipefail
module=labs.endpoint.pooling
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
