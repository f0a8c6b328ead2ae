#!/usr/bin/env bash
# Serve RSA as a model on http://127.0.0.1:30100/v1 for any chat client: bash scripts/serve_rsa.sh [--port 30100]
# [--host 127.0.0.1] [N=8 K=3 T=5 …]. RSA uses the server that a run would use. Ctrl-C stops RSA, and a server that it started.
set -euo pipefail
module=labs.endpoint.app
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
