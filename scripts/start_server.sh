#!/usr/bin/env bash
# Start the server that a run would start, in the foreground, on port 30000 (PORT=… for another). Ctrl-C stops it.
# With an NVIDIA GPU: SGLang with QED-Nano; further flags are passed on to it. Else: the embedded engine and model.
# ENGINE=llamacpp MODEL=file.gguf: llama.cpp with a GGUF file, on any machine; see scripts/to_gguf.sh.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ "${ENGINE:-}" = llamacpp ]; then bash "$root/setup.sh" harness; else bash "$root/setup.sh"; fi
PYTHONPATH=$root exec "$root/.venv/bin/python" -m core.server "$@"
