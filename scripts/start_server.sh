#!/usr/bin/env bash
# Start the server that a run would start, in the foreground, on port 30000 (PORT=… for another). Ctrl-C stops it.
#   bash scripts/start_server.sh [K=3 MAX_TOKENS=16384 …] [flags]
# With an NVIDIA GPU: SGLang with QED-Nano (ENGINE=vllm for vLLM), for runs with these constants; further flags are passed
# on to it. Else: the embedded engine and model.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${ENGINE:-} in sglang | vllm) bash "$root/setup.sh" "$ENGINE" ;; *) bash "$root/setup.sh" ;; esac
PYTHONPATH=$root exec "$root/.venv/bin/python" -m core.server "$@"
