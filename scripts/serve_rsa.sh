#!/usr/bin/env bash
# Serve every scaffold as a model (rsa/NAME, best_of/NAME, …) on http://127.0.0.1:30100/v1 for any chat client:
# bash scripts/serve_rsa.sh [--port 30100] [--host 127.0.0.1] [SCAFFOLD=best_of] [N=8 K=3 T=5 …]. Requests go to the server that a
# run would use. Ctrl-C stops the endpoint, and a server that it started.
set -euo pipefail
module=labs.endpoint.cli
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
bash "$root/setup.sh" harness
run "$@"
