#!/usr/bin/env bash
# Start the server that a run would start, in the foreground, on port 30000 or PORT. Ctrl-C stops the server.
#   bash scripts/start_server.sh [K=3 MAX_TOKENS=16384 …] [flags]
# With an NVIDIA GPU, it starts SGLang with QED-Nano, or vLLM if ENGINE=vllm. The constants size the server. The flags go to
# SGLang or vLLM. With MODEL=file.gguf, it starts llama.cpp on any machine (see scripts/to_gguf.sh). Without a GPU, or with
# ENGINE=embedded, it starts the embedded engine with the embedded model.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
module=core.server
bash "$root/setup.sh" harness  # the module sets up SGLang or vLLM if it starts one
run "$@"
